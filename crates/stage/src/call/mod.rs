//! Events that want an answer, and get exactly one.
//!
//! A [`Request`] carries a [`Reply`] through however many stages. Whatever becomes
//! of it, the caller hears: the answer, or which of the ways to have none it was.
//! A reply that is dropped unanswered tells the caller why, as far as the stage
//! that drops it knows.

mod error;
mod unanswered;

use std::sync::Arc;

use tokio::sync::oneshot;

pub(crate) use error::Cause;
pub use error::{BoxError, CallError};
use unanswered::{Verdict, verdict};
pub(crate) use unanswered::{
    destroy_returned, note_terminated, take_unanswered, watched, with_cause,
};

/// An event of type `Q` whose sender waits for an `R`.
#[derive(Debug)]
pub struct Request<Q, R> {
    /// What is asked.
    pub body: Q,
    /// Where the answer goes.
    pub reply: Reply<R>,
}

/// The way back to a caller. To drop it unanswered is an answer too: the error that the
/// handler returns, or else [`CallError::Unanswered`]; and the event that did so counts as
/// failed.
#[derive(Debug)]
pub struct Reply<R> {
    caller: Option<oneshot::Sender<Result<R, Unanswered>>>,
    /// The stage that the request was passed on to; none while it is where its caller sent it.
    stage: Option<Arc<str>>,
}

impl<R> Reply<R> {
    pub(crate) fn new() -> (Self, Answer<R>) {
        let (sender, receiver) = oneshot::channel();
        (Self { caller: Some(sender), stage: None }, Answer(receiver))
    }

    /// Answers the caller; gives the answer back if the caller has left.
    ///
    /// # Errors
    /// The answer, when nobody waits for it.
    pub fn send(mut self, answer: R) -> Result<(), R> {
        let Some(caller) = self.caller.take() else { return Err(answer) };
        caller.send(Ok(answer)).map_err(|unsent| match unsent {
            Ok(answer) => answer,
            Err(_) => unreachable!("an answer was sent, not an error"),
        })
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Returns when nobody waits for the answer any more.
    pub async fn abandoned(&mut self) {
        if let Some(caller) = &mut self.caller {
            caller.closed().await;
        }
    }

    /// The same reply, in the hands of another stage.
    pub(crate) fn passed_on(mut self, stage: &Arc<str>) -> Self {
        self.stage = Some(Arc::clone(stage));
        self
    }

    /// Tells the caller why there is no answer.
    pub(crate) fn fail(mut self, error: CallError) {
        self.end(|| Verdict::Known(error));
    }

    fn end(&mut self, verdict: impl FnOnce() -> Verdict) {
        let Some(caller) = self.caller.take() else { return };
        // The caller may have left; then there is nobody to tell.
        let _ = caller.send(Err(Unanswered { stage: self.stage.take(), verdict: verdict() }));
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        self.end(verdict);
    }
}

/// Where the answer to a request will be.
pub(crate) struct Answer<R>(oneshot::Receiver<Result<R, Unanswered>>);

/// What a reply that has no answer sends instead.
#[derive(Debug)]
struct Unanswered {
    stage: Option<Arc<str>>,
    verdict: Verdict,
}

impl<R> Answer<R> {
    pub(crate) async fn get(self) -> Result<R, CallError> {
        let Unanswered { stage, verdict } = match self.0.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(unanswered)) => unanswered,
            Err(_) => return Err(CallError::Closed),
        };
        let error = match verdict {
            Verdict::Known(error) => error,
            Verdict::Awaited(verdict) => verdict.await.unwrap_or(CallError::Unanswered),
        };
        Err(match stage {
            Some(stage) => error.further(&stage),
            None => error,
        })
    }
}
