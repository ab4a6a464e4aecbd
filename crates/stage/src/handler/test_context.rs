//! Contexts without a stage, for tests of handlers.

use std::sync::Arc;

use tamarisk_control::Ratio;

use super::Context;
use crate::builder::StageBuilder;
use crate::clock::Clock;
use crate::core::{Core, Payload};
use crate::entry::Entry;
use crate::worker::Worker;

/// Makes a [`Context`] for a test; see [`Context::for_tests`].
#[derive(Clone, Debug)]
#[must_use = "it is no context until `build` is called"]
pub struct TestContext {
    entry: Entry,
    quality: Ratio,
}

impl Context {
    /// A context as a handler gets it, to call a handler function in a test without a stage. It is
    /// on the clock of the runtime, which a test may pause.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_control::Ratio;
    /// use tamarisk_stage::{BoxError, Context, Entry};
    ///
    /// async fn greet(name: &str, cx: Context) -> Result<String, BoxError> {
    ///     cx.checkpoint()?;
    ///     Ok(if cx.quality() < Ratio::ONE { "hi".into() } else { format!("hello, {name}") })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// assert_eq!(greet("Ada", Context::for_tests().build()).await?, "hello, Ada");
    /// let degraded = Context::for_tests().quality(Ratio::saturating(0.5)).build();
    /// assert_eq!(greet("Ada", degraded).await?, "hi");
    /// let overdue = Context::for_tests().entry(Entry::new().timeout(Duration::ZERO)).build();
    /// assert!(greet("Ada", overdue).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_tests() -> TestContext {
        TestContext { entry: Entry::new(), quality: Ratio::ONE }
    }
}

impl TestContext {
    /// As what the event has entered: its class, its deadline, its flow.
    pub fn entry(self, entry: Entry) -> Self {
        Self { entry, ..self }
    }

    /// How well the event is to be served: in full by default.
    pub fn quality(self, quality: Ratio) -> Self {
        Self { quality, ..self }
    }

    /// The context of an event that has just begun.
    ///
    /// # Panics
    /// If its class is beyond those that a stage may have.
    pub fn build(self) -> Context {
        // The classes that it takes for the event to be of its own.
        let classes: Vec<_> = (0..=self.entry.class.index()).map(|each| each.to_string()).collect();
        let builder = StageBuilder::new("test").classes(classes).workers(1).clock(Clock::runtime());
        let builder = builder.with_named_laws().expect("as many classes as a stage may have");
        let queue = builder.queue();
        let (config, _) = builder.into_config().expect("a stage of one worker can be built");
        let core = Core::<Payload<()>>::new(config, queue);
        core.settings.set_quality(self.quality);
        let meta = core.metadata(core.clock.now(), &self.entry);
        let worker = Arc::new(Worker::new(0, Arc::new(core), None));
        let sequence = worker.begin(&meta, meta.deadline);
        Context::new(&worker, meta, sequence)
    }
}
