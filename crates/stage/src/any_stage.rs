//! Stages and gates whatever their events are, and to which others those go on.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;

use crate::observe::{DrainReport, StageObservation};

/// A stage or gate, whatever its events are: to be shown, and drained. It does not keep a
/// stage running, which is closed when its last [`Stage`](crate::Stage) is dropped.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tamarisk_stage::{AnyStage, Context, Stage};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Stage::builder("store").handler(async |word: String, _: Context| Ok(word.len()))?;
/// let parse = Stage::builder("parse").handler(async move |text: String, cx: Context| {
///     Ok(cx.call(&store, text.trim().to_owned()).await?)
/// })?;
/// assert_eq!(parse.call(" seven ".into()).await?, 5);
///
/// let stages = AnyStage::with_receivers([(&parse).into()]);
/// let names: Vec<_> = stages.iter().map(|stage| stage.observe().name).collect();
/// assert_eq!(names, ["parse", "store"]);
/// for stage in &stages {
///     assert!(stage.drain(Duration::from_secs(1)).await.is_clean());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyStage(Arc<dyn Erased>);

/// What [`AnyStage`] needs of a stage.
pub(crate) trait Erased: Send + Sync {
    fn name(&self) -> &str;
    fn is_closed(&self) -> bool;
    fn observe(&self) -> StageObservation;
    fn drain(&self, timeout: Duration) -> Draining<'_>;
    fn receivers(&self) -> &Receivers;
}

pub(crate) type Draining<'s> = Pin<Box<dyn Future<Output = DrainReport> + Send + 's>>;

/// The stages to which a stage has sent, in handlers that use a [`Context`](crate::Context) for it.
#[derive(Default)]
pub(crate) struct Receivers(RwLock<Vec<Weak<dyn Erased>>>);

/// The stage that sends an event.
pub(crate) struct Origin {
    pub(crate) name: Arc<str>,
    pub(crate) receivers: Arc<Receivers>,
}

impl AnyStage {
    pub(crate) fn new(stage: Arc<dyn Erased>) -> Self {
        Self(stage)
    }

    /// These stages, and all to which their events have gone on, and those of these: by
    /// [`Context::call`](crate::Context::call), [`forward`](crate::Context::forward) or
    /// [`envelope`](crate::Context::envelope), on an edge of a graph, or from gate to gate. Each
    /// stands once, before those that it sends to, so that draining them one after another finishes
    /// what is under way. Those that are closed are left out, unless they are
    /// stated.
    pub fn with_receivers(stages: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let stages: Vec<_> = stages.into_iter().collect();
        let (mut seen, mut receivers_first) = (Vec::new(), Vec::new());
        for stage in stages.iter().rev() {
            stage.visit(&mut seen, &mut receivers_first);
        }
        receivers_first.retain(|stage| stages.contains(stage) || !stage.0.is_closed());
        receivers_first.reverse();
        receivers_first
    }

    fn visit(&self, seen: &mut Vec<Self>, receivers_first: &mut Vec<Self>) {
        if seen.contains(self) {
            return;
        }
        seen.push(self.clone());
        for receiver in self.0.receivers().there().iter().rev() {
            receiver.visit(seen, receivers_first);
        }
        receivers_first.push(self.clone());
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.0.observe()
    }

    /// Admits nothing more and waits until nothing is inside; see
    /// [`Stage::drain`](crate::Stage::drain).
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        self.0.drain(timeout).await
    }
}

/// Whether it is the same stage.
impl PartialEq for AnyStage {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Eq for AnyStage {}

impl fmt::Debug for AnyStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyStage").field(&self.name()).finish()
    }
}

impl Receivers {
    /// Events go on to this stage. Those that are no more are forgotten, so that there are no more
    /// than there are stages.
    pub(crate) fn add(&self, receiver: Weak<dyn Erased>) {
        let mut receivers = self.0.write();
        receivers.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &receiver));
        receivers.push(receiver);
    }

    fn there(&self) -> Vec<AnyStage> {
        self.0.read().iter().filter_map(Weak::upgrade).map(AnyStage).collect()
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Origin").field(&self.name).finish()
    }
}
