//! Why a call has no answer.

use std::error::Error;
use std::sync::Arc;

use tamarisk_control::Rejection;

use crate::panics::contained;
use crate::termination::Terminated;

/// What a handler fails with; a [`Terminated`] counts the event
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
    /// The handler returned this error.
    #[error("the handler failed: {0}")]
    Failed(String),
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

    /// The error for the caller of a handler that returned `error`.
    pub(crate) fn returned(error: &BoxError) -> Self {
        if let Some(of_a_call) = error.downcast_ref::<Self>() {
            return of_a_call.clone();
        }
        if error.is::<Terminated>() {
            return Self::Terminated;
        }
        let text = contained(|| error.to_string());
        Self::Failed(text.unwrap_or_else(|panic| panic.to_string()))
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
