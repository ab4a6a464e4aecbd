//! Calls: requests that get exactly one answer.
//!
//! A [`Request`] carries a [`Reply`] through however many stages. Whatever becomes
//! of it, its caller gets the answer or a [`CallError`]; a reply that is dropped unanswered
//! sends the error.

mod caller;
mod error;
mod unanswered;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use caller::Call;
pub(crate) use caller::{Caller, QueueOfCalls};
pub(crate) use error::Cause;
pub use error::{BoxError, CallError};
use unanswered::{AnswerError, error_of_dropped_reply};
pub(crate) use unanswered::{
    destroy_returned, destroy_with, note_terminated, take_unanswered, watch_replies, with_cause,
};

/// An event of type `Q` whose sender waits for an `R`.
#[derive(Debug)]
pub struct Request<Q, R> {
    /// What is asked.
    pub body: Q,
    /// Where the answer goes.
    pub reply: Reply<R>,
}

/// Answers the caller of a request. Dropped unanswered, it sends the error that the handler
/// returns, or else [`CallError::Unanswered`], and the event counts as failed.
pub struct Reply<R> {
    answer: Option<oneshot::Sender<Result<R, AnswerError>>>,
    call: Arc<Call>,
}

impl<R> Reply<R> {
    pub(crate) fn new() -> (Self, Answer<R>) {
        let (sender, receiver) = oneshot::channel();
        let call = Arc::<Call>::default();
        let answer = Answer { receiver, call: Arc::clone(&call) };
        (Self { answer: Some(sender), call }, answer)
    }

    /// Answers the caller; gives the answer back if the caller has left.
    ///
    /// # Errors
    /// The answer, if the caller has left.
    pub fn send(mut self, answer: R) -> Result<(), R> {
        let Some(sender) = self.answer.take() else { return Err(answer) };
        if !self.call.answer() {
            return Err(answer);
        }
        sender.send(Ok(answer)).map_err(|unsent| match unsent {
            Ok(answer) => answer,
            Err(_) => unreachable!("an answer was sent, not an error"),
        })
    }

    /// Whether the caller has left.
    pub fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Returns when the caller has left.
    pub async fn abandoned(&mut self) {
        if let Some(sender) = &mut self.answer {
            sender.closed().await;
        }
    }

    /// The caller, for an event that carries this reply.
    pub(crate) fn caller(&self) -> Caller {
        self.call.caller()
    }

    /// The same reply, passed on to another stage.
    pub(crate) fn passed_on(self, stage: &Arc<str>) -> Self {
        self.call.pass_on(stage);
        self
    }

    /// Sends the caller an error.
    pub(crate) fn fail(mut self, error: CallError) {
        self.end(|| AnswerError::Known(error));
    }

    fn end(&mut self, error: impl FnOnce() -> AnswerError) {
        let Some(sender) = self.answer.take() else { return };
        let error = error();
        if self.call.answer() {
            // An error means that the caller has left.
            let _ = sender.send(Err(error));
        }
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        self.end(error_of_dropped_reply);
    }
}

impl<R> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("is_abandoned", &self.is_abandoned()).finish_non_exhaustive()
    }
}

/// Where the answer to a request will be. To drop it before that is to leave.
pub(crate) struct Answer<R> {
    receiver: oneshot::Receiver<Result<R, AnswerError>>,
    call: Arc<Call>,
}

impl<R> Answer<R> {
    pub(crate) async fn get(mut self) -> Result<R, CallError> {
        let call = Arc::clone(&self.call);
        let received = poll_fn(|cx| match Pin::new(&mut self.receiver).poll(cx) {
            Poll::Ready(received) => Poll::Ready(received.map_err(|_| CallError::Closed)),
            Poll::Pending => call.poll_overdue(cx).map(|()| Err(CallError::Terminated)),
        });
        let error = match received.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(AnswerError::Known(error))) | Err(error) => error,
            Ok(Err(AnswerError::Pending(error))) => error.await.unwrap_or(CallError::Unanswered),
        };
        Err(match self.call.stage() {
            Some(stage) => error.further(&stage),
            None => error,
        })
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        self.call.leave();
    }
}
