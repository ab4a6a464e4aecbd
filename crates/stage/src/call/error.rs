//! Why a call has no answer.

use std::error::Error;
use std::sync::Arc;

use tamarisk_control::Rejection;

use super::failure::Failure;

/// What a handler fails with; a [`Terminated`](crate::Terminated) counts the event
/// as terminated instead.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not admitted by the stage that was called; the rejection may say when to retry.
    #[error("rejected: {}", .0.reason)]
    Rejected(Rejection),
    /// Taken out of a queue: too late to be of use.
    #[error("dropped from the queue: too late to be of use")]
    Dropped,
    /// Ended while it ran: overdue, or cut by a drain.
    #[error("terminated before it was done")]
    Terminated,
    /// The handler returned this error; [`CallError::downcast_ref`] shows it as what it is.
    #[error("the handler failed: {0}")]
    Failed(Failure),
    /// The handler dropped the reply unused.
    #[error("the handler gave no answer")]
    Unanswered,
    /// The handler panicked.
    #[error("the handler panicked")]
    Panicked,
    /// The stage was destroyed with the request in its queue.
    #[error("the stage was closed")]
    Closed,
    /// It happened in a stage that the called one passed the request on to, or called itself.
    #[error("stage {stage:?}: {cause}")]
    Further {
        /// The name of that stage.
        stage: Arc<str>,
        /// What happened there; never itself further on.
        cause: Box<Self>,
    },
}

impl CallError {
    /// The error without the stage that it happened in.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Further { cause, .. } => cause,
            own => own,
        }
    }

    /// The stage that it happened in, if that is another one than was called.
    pub fn stage(&self) -> Option<&str> {
        match self {
            Self::Further { stage, .. } => Some(stage),
            _ => None,
        }
    }

    /// The rejection, if it was one, in whatever stage: its reason and when to retry.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self.cause() {
            Self::Rejected(rejection) => Some(rejection),
            _ => None,
        }
    }

    /// The same error, as the caller of the stage before `stage` gets it.
    pub(crate) fn further(self, stage: &Arc<str>) -> Self {
        match self {
            Self::Further { .. } => self,
            own => Self::Further { stage: Arc::clone(stage), cause: Box::new(own) },
        }
    }

    /// The error that the handler returned, in whatever stage, if it is an `E`.
    ///
    /// # Examples
    /// ```
    /// use tamarisk_stage::{CallError, Context, Stage};
    ///
    /// #[derive(Debug, PartialEq, thiserror::Error)]
    /// #[error("there is no item {0}")]
    /// struct NoItem(u32);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let items = Stage::builder("items")
    ///     .handler(async |id: u32, _: Context| if id < 9 { Ok("box") } else { Err(NoItem(id).into()) })?;
    /// let error = items.call(12).await.unwrap_err();
    /// assert_eq!(error.downcast_ref(), Some(&NoItem(12)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.failure()?.downcast_ref()
    }

    fn failure(&self) -> Option<&Failure> {
        match self.cause() {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// What an operator is shown.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Failed(failure) => failure.text().to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether it is an answer to the stage that it happened in.
    pub(crate) fn is_expected(&self) -> bool {
        self.failure().is_some_and(Failure::is_expected)
    }

    /// The error for the caller of a handler that returned `error`, made one that can be shared.
    pub(crate) fn returned(error: &BoxError) -> Self {
        match error.downcast_ref::<Self>() {
            Some(error) => error.clone(),
            None => Self::Terminated,
        }
    }

    /// The same without what a handler returned.
    pub(super) fn as_text(&self) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.as_text()),
            Self::Further { stage, cause } => {
                Self::Further { stage: Arc::clone(stage), cause: Box::new(cause.as_text()) }
            }
            other => other.clone(),
        }
    }
}

/// Why events are destroyed without their handler having ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    Rejected(Rejection),
    Dropped,
    Terminated,
    Unanswered,
    Panicked,
    Closed,
}

impl From<Cause> for CallError {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Rejected(rejection) => Self::Rejected(rejection),
            Cause::Dropped => Self::Dropped,
            Cause::Terminated => Self::Terminated,
            Cause::Unanswered => Self::Unanswered,
            Cause::Panicked => Self::Panicked,
            Cause::Closed => Self::Closed,
        }
    }
}
