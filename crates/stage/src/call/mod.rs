//! Calls: requests that get exactly one answer.
//!
//! A [`Request`] carries a [`Reply`] through however many stages. Whatever becomes
//! of it, its caller gets the answer or a [`CallError`]; a reply that is dropped unanswered
//! sends the error.

mod caller;
mod error;
mod expected;
mod failure;
mod reply;
mod unanswered;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use caller::Call;
pub(crate) use caller::{Caller, QueueOfCalls, RunsCalls};
pub(crate) use error::Cause;
pub use error::{BoxError, CallError};
pub(crate) use expected::{ExpectedErrors, share};
pub use failure::Failure;
pub use reply::Reply;
use unanswered::AnswerError;
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
