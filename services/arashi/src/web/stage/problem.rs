//! Why a stage has no page as it was asked for, and the page that says so.

use std::time::Duration;

use http::StatusCode;
use tamarisk::{BoxError, CallError, Terminated};

use crate::store::{Session, StoreError};
use crate::web::answer::{Answer, page, see_other, with_retry};
use crate::web::page::{ProblemPage, problem_page};

/// A database that is down is tried again about every second.
const UNAVAILABLE_SECONDS: u64 = 5;

/// Why there is no page as it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody is logged in, or no longer. The path is where to return to, of a page.
    #[error("not logged in")]
    LoggedOut { path: Option<String> },
    /// The form is not one of ours, or of another session.
    #[error("the form has another session's token")]
    Forged,
    /// Too many log-ins have failed.
    #[error("too many failed log-ins")]
    TooManyLogIns(Duration),
    /// The page of the digest is broken, or Python is.
    #[error("the page of the digest failed: {0}")]
    Digest(String),
    /// The stage of the digest's page has rejected the request, or terminated it.
    #[error(transparent)]
    Unanswered(CallError),
    /// No message was selected.
    #[error("no message is selected")]
    NothingSelected,
}

impl Problem {
    /// The page about it; none for what was terminated or rejected further on, which its caller is
    /// told otherwise.
    pub(crate) fn answer(&self, session: Option<&Session>, reloads: bool) -> Option<Answer> {
        let path = match self {
            Self::LoggedOut { path: Some(path) } => Some(path),
            _ => None,
        };
        if let Some(path) = path {
            let next: String = form_urlencoded::byte_serialize(path.as_bytes()).collect();
            return Some(see_other(&format!("/login?next={next}")));
        }
        let (status, title, reason, cure) = self.words()?;
        let retry = match self {
            Self::Store(StoreError::Unavailable(_)) => Some(UNAVAILABLE_SECONDS),
            Self::TooManyLogIns(wait) => Some(wait.as_secs() + 1),
            _ => None,
        };
        let reloads = reloads && matches!(self, Self::Store(StoreError::Unavailable(_)));
        let problem = ProblemPage {
            title,
            reason: &reason,
            cure,
            retry_seconds: retry,
            reloads,
            ..ProblemPage::default()
        };
        let answer = page(status, problem_page(&problem, session));
        Some(match retry {
            Some(seconds) => with_retry(answer, seconds),
            None => answer,
        })
    }

    /// Whether it is the service's fault, and so counts as failed.
    pub(super) fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::Unavailable(_) | StoreError::Unknown(_) | StoreError::Failed(_)
            ) | Self::Digest(_)
        )
    }

    /// What the caller is told where there is no page about it.
    pub(super) fn unanswered(self) -> BoxError {
        match self {
            Self::Unanswered(error) if *error.cause() != CallError::Terminated => error.into(),
            _ => Terminated.into(),
        }
    }

    fn words(&self) -> Option<(StatusCode, &'static str, String, &'static str)> {
        const TRY_AGAIN: &str = "Please go back and try again; what you have typed is still there.";
        Some(match self {
            Self::Store(StoreError::NotFound) => (
                StatusCode::NOT_FOUND,
                "Not found",
                "There is no such folder, message or attachment in your mail. It may have been \
                 deleted or moved."
                    .into(),
                "Please look for it in your folders.",
            ),
            Self::Store(StoreError::Unavailable(_)) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Mail is not available",
                "The database that keeps the mail does not answer. Logging in, folders, lists, \
                 messages, searches and writing need it. No mail is lost."
                    .into(),
                "If you were sending a form, please go back and send it again a little later; \
                 what you have typed is still there.",
            ),
            Self::Store(StoreError::Unknown(_)) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "It is not known whether this was done",
                "The connection to the database that keeps the mail was lost at the moment at which \
                 the change was to be kept."
                    .into(),
                "Please look before you do it again. If you were sending a message, look in Sent \
                 before you send it again.",
            ),
            Self::Store(StoreError::Invalid(invalid)) => {
                let reason = sentence(&invalid.to_string());
                (StatusCode::UNPROCESSABLE_ENTITY, "This cannot be done", reason, TRY_AGAIN)
            }
            Self::Store(StoreError::Terminated) | Self::Unanswered(_) => return None,
            Self::Digest(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "There is no digest",
                "The program that writes digests does not work. Folders, lists, messages and \
                 searches do not need it."
                    .into(),
                "Please try again in a few minutes. The log of the server says why.",
            ),
            Self::Store(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Something went wrong",
                "The error is on our side.".into(),
                "Please try again in a few minutes.",
            ),
            Self::LoggedOut { .. } => (
                StatusCode::UNAUTHORIZED,
                "You are not logged in",
                "Your session has ended, and nothing was changed.".into(),
                "Please log in, and do it again. Going back shows what you have typed.",
            ),
            Self::Forged => (
                StatusCode::FORBIDDEN,
                "Not from this session",
                "The form was from an earlier session or from another site. Nothing was changed."
                    .into(),
                "Please open the page again, and do it there.",
            ),
            Self::TooManyLogIns(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many failed log-ins",
                "For this account or from your network, too many log-ins have failed lately."
                    .into(),
                "Please wait, then go back and try again.",
            ),
            Self::NothingSelected => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "No message is selected",
                "Select messages first, with the boxes beside them.".into(),
                "Please go back and try again.",
            ),
        })
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_nothing_is_to_be_sent_again() {
        let words = |error: fn(String) -> StoreError| {
            let problem = Problem::Store(error("lost".into()));
            let (status, title, _, cure) = problem.words().expect("there is a page about it");
            let answer = problem.answer(None, true).expect("there is a page about it");
            (status, title, cure, answer.headers().contains_key("retry-after"))
        };
        let (status, _, cure, has_retry) = words(StoreError::Unavailable);
        assert_eq!((status, has_retry), (StatusCode::SERVICE_UNAVAILABLE, true));
        assert!(cure.contains("send it again a little later"), "{cure}");
        let (status, title, cure, has_retry) = words(StoreError::Unknown);
        assert_eq!((status, has_retry), (StatusCode::SERVICE_UNAVAILABLE, false));
        assert_eq!(title, "It is not known whether this was done");
        assert!(cure.contains("look in Sent before you send it again"), "{cure}");
    }
}
