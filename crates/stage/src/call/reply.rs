//! The answering end of a call.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::caller::{Call, Caller};
use super::unanswered::{AnswerError, error_of_dropped_reply};
use super::{Answer, CallError};

/// Answers the caller of a request. Dropped unanswered, it sends the error that the handler
/// returns, or else [`CallError::Unanswered`], and the event counts as failed.
pub struct Reply<R> {
    answer: Option<Sender<R>>,
    call: Arc<Call>,
}

impl<R> Reply<R> {
    pub(crate) fn new() -> (Self, Answer<R>) {
        let (sender, receiver) = oneshot::channel();
        let call = Arc::<Call>::default();
        let answer = Answer { receiver, call: Arc::clone(&call) };
        (Self { answer: Some(Sender::Own(sender)), call }, answer)
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
        sender.send(answer)
    }

    /// A reply that takes another answer, from which `make` makes this one's: for a later stage, which
    /// answers in terms of its own. An error reaches the caller as it is.
    ///
    /// # Examples
    /// ```
    /// use tamarisk_stage::{Context, Request, Stage};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let count = Stage::builder("count")
    ///     .handler(async |text: String, _: Context| Ok(text.len()))?;
    /// let page = Stage::builder("page").event_handler(
    ///     async move |request: Request<String, String>, cx: Context| {
    ///         let reply = request.reply.map(|length: usize| format!("{length} letters"));
    ///         cx.forward(&count, request.body, reply);
    ///         Ok(())
    ///     },
    /// )?;
    /// assert_eq!(page.call("tree".to_owned()).await?, "4 letters");
    /// # Ok(())
    /// # }
    /// ```
    pub fn map<S>(mut self, make: impl FnOnce(S) -> R + Send + Sync + 'static) -> Reply<S>
    where
        R: Send + 'static,
        S: 'static,
    {
        let mapped = |sender| {
            let mapping = Mapping { sender: Some(sender), make: Some(make) };
            Sender::Mapped(Box::new(mapping))
        };
        Reply { answer: self.answer.take().map(mapped), call: Arc::clone(&self.call) }
    }

    /// Whether the caller has left.
    pub fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_none_or(Sender::is_closed)
    }

    /// Returns when the caller has left.
    pub async fn abandoned(&mut self) {
        if let Some(sender) = &mut self.answer {
            poll_fn(|cx| sender.poll_closed(cx)).await;
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
            sender.end(error);
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

/// The way to the caller: for answers of its own type, or of another one.
enum Sender<R> {
    Own(oneshot::Sender<Result<R, AnswerError>>),
    Mapped(Box<dyn MappedSender<R>>),
}

impl<R> Sender<R> {
    fn send(self, answer: R) -> Result<(), R> {
        match self {
            Self::Own(sender) => sender.send(Ok(answer)).map_err(|unsent| match unsent {
                Ok(answer) => answer,
                Err(_) => unreachable!("an answer was sent, not an error"),
            }),
            Self::Mapped(sender) => {
                sender.send(answer);
                Ok(())
            }
        }
    }

    fn end(self, error: AnswerError) {
        match self {
            Self::Own(sender) => {
                // An error means that the caller has left.
                let _ = sender.send(Err(error));
            }
            Self::Mapped(sender) => sender.end(error),
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Own(sender) => sender.is_closed(),
            Self::Mapped(sender) => sender.is_closed(),
        }
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Own(sender) => sender.poll_closed(cx),
            Self::Mapped(sender) => sender.poll_closed(cx),
        }
    }
}

/// A sender of answers from which others are made, whatever their type.
trait MappedSender<S>: Send + Sync {
    fn send(self: Box<Self>, answer: S);
    fn end(self: Box<Self>, error: AnswerError);
    fn is_closed(&self) -> bool;
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A sender and what makes its answer. Both are there until it is used.
struct Mapping<R, F> {
    sender: Option<Sender<R>>,
    make: Option<F>,
}

impl<S, R: Send, F: FnOnce(S) -> R + Send + Sync> MappedSender<S> for Mapping<R, F> {
    fn send(mut self: Box<Self>, answer: S) {
        // If that panics, the caller gets the error when this is dropped.
        let made = self.make.take().map(|make| make(answer));
        if let (Some(sender), Some(made)) = (self.sender.take(), made) {
            // An error means that the caller has left.
            let _ = sender.send(made);
        }
    }

    fn end(mut self: Box<Self>, error: AnswerError) {
        if let Some(sender) = self.sender.take() {
            sender.end(error);
        }
    }

    fn is_closed(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_closed)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sender.as_mut().map_or(Poll::Ready(()), |sender| sender.poll_closed(cx))
    }
}

impl<R, F> Drop for Mapping<R, F> {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.end(error_of_dropped_reply());
        }
    }
}
