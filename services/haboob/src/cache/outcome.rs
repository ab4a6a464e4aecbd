//! What loading a page leads to: a page, a folder, or why there is none; and how long it took.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tamarisk_http_gate::Message;
use tamarisk_stage::{CallError, EnterError};

use crate::page::Page;

/// What has come of a request for a page.
#[derive(Debug)]
pub(crate) struct LoadOutcome {
    pub(crate) loaded: Result<Loaded, NoPage>,
    /// Nothing, if it was in memory.
    pub(crate) waited: Option<Waited>,
}

/// What a path has led to.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    Page(Arc<Page>),
    Folder,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoPage {
    /// It is not to be had now.
    NotNow(NotNow),
    /// What this status says.
    Status(StatusCode),
}

/// A page is not to be had now, and perhaps later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotNow {
    /// The stage that reads files has not read it.
    Rejected(EnterError),
    /// It was the stage's turn, and there is no page.
    Unread {
        /// What the accounts of the stage say.
        outcome: &'static str,
        message: Message,
    },
}

impl NotNow {
    /// As many files are open as may be.
    pub(crate) const CROWDED: Self = Self::Unread {
        outcome: "completed",
        message: Message::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "open_files",
            "too many files are open; try again later",
        ),
    };

    /// The stage gave no answer.
    const FAILED: Self = Self::Unread {
        outcome: "failed",
        message: Message::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "disk",
            "the file could not be read; try again later",
        ),
    };

    /// What the accounts of the stage say.
    pub(crate) const fn outcome(self) -> &'static str {
        match self {
            Self::Rejected(EnterError::Rejected(_)) => "rejected",
            Self::Rejected(EnterError::Dropped) => "dropped",
            Self::Rejected(EnterError::Closed) => "terminated",
            Self::Unread { outcome, .. } => outcome,
        }
    }

    /// Why, in one word.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Rejected(why) => tamarisk_http_gate::reason(&why).as_str(),
            Self::Unread { message, .. } => message.reason,
        }
    }
}

impl From<CallError> for NotNow {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Rejected(rejection) => Self::Rejected(EnterError::Rejected(rejection)),
            CallError::Dropped => Self::Rejected(EnterError::Dropped),
            CallError::Closed => Self::Rejected(EnterError::Closed),
            _ => Self::FAILED,
        }
    }
}

/// How long a request has waited for what a path has led to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// In the queue of the stage that reads files, and while that read.
    ForStage { queued: Duration, read: Duration },
    /// While the stage read for another request.
    ForOthers(Duration),
}
