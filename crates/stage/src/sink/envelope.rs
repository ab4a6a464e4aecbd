//! An event on its way into a queue, with what its sender states of it.

use std::sync::Arc;

use crate::any_stage::Origin;
use crate::call::{Caller, Reply};
use crate::entry::Entry;

/// An event together with its [`Entry`].
#[derive(Clone, Debug)]
pub struct Envelope<E> {
    pub(crate) event: E,
    pub(crate) entry: Entry,
    /// The stage whose handler sends it.
    pub(crate) sender: Option<Arc<Origin>>,
    /// The caller that waits for it, if one does.
    pub(crate) caller: Option<Caller>,
}

impl<E> Envelope<E> {
    /// `event`, entering as `entry` says.
    pub fn new(event: E, entry: Entry) -> Self {
        Self { event, entry, sender: None, caller: None }
    }

    /// The event carries the reply of a call: when the caller leaves, it is of no use any more. It
    /// is not begun then, or ended where it can be, and counts as abandoned. A [`Request`](crate::Request) that is
    /// [called](crate::Stage::call) or [forwarded](crate::Context::forward) is known to carry its
    /// own.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_stage::{Context, Reply, Request, Stage};
    /// struct Job {
    ///     page: u32,
    ///     reply: Reply<String>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let render = Stage::builder("render").event_handler(async |job: Job, _: Context| {
    ///     let _ = job.reply.send(format!("page {}", job.page));
    ///     Ok(())
    /// })?;
    /// let parse = Stage::builder("parse").event_handler(
    ///     async move |Request { body, reply }: Request<&str, String>, cx: Context| {
    ///         let job = Job { page: body.parse()?, reply };
    ///         render.sink().try_send(cx.envelope(job).reply(|job| &job.reply)).map_err(|e| e.rejection.reason.as_str())?;
    ///         Ok(())
    ///     },
    /// )?;
    /// assert_eq!(parse.call("7").await?, "page 7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reply<R>(self, of: impl FnOnce(&E) -> &Reply<R>) -> Self {
        let caller = Some(of(&self.event).caller());
        Self { caller, ..self }
    }

    /// Counted as sent by this stage.
    pub(crate) fn sent_by(self, stage: &Arc<Origin>) -> Self {
        Self { sender: Some(Arc::clone(stage)), ..self }
    }

    /// The event without its entry.
    pub fn into_event(self) -> E {
        self.event
    }

    /// Another event made of this one, entering in the same way.
    pub fn map<F>(self, make: impl FnOnce(E) -> F) -> Envelope<F> {
        let Self { event, entry, sender, caller } = self;
        Envelope { event: make(event), entry, sender, caller }
    }
}

impl<E> From<E> for Envelope<E> {
    fn from(event: E) -> Self {
        Self::new(event, Entry::new())
    }
}
