//! What a client is told whose request its stage has not answered.

use http::StatusCode;
use tamarisk::{CallError, Reason};

use crate::web::answer::{Answer, page, with_retry};
use crate::web::kind::RequestKind;
use crate::web::page::{ProblemPage, problem_page};

/// For a page that is loaded again automatically.
const PAGE_CURE: &str = "Nothing was changed. Other pages may be quicker.";
/// For a form.
const FORM_CURE: &str =
    "Nothing was changed. Please go back and send it again; what you have typed is still there.";

/// The page about a call without an answer. A page that only shows something loads itself again.
pub(super) fn unanswered(kind: RequestKind, is_change: bool, error: &CallError) -> Answer {
    match error.cause() {
        CallError::Rejected(rejection) => {
            let wait = rejection
                .retry_after
                .map_or(1, |after| (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1));
            let is_ending = matches!(rejection.reason, Reason::Draining | Reason::Closed);
            rejected(kind, is_change, wait, is_ending)
        }
        CallError::Dropped => rejected(kind, is_change, 1, false),
        CallError::Closed => rejected(kind, is_change, 1, true),
        CallError::Terminated => problem(
            StatusCode::GATEWAY_TIMEOUT,
            "This took too long",
            &format!("{} was stopped, because nobody waits for so long.", kind.title()),
            if is_change { FORM_CURE } else { "Please try again in a few minutes." },
        ),
        _ => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Something went wrong",
            "The error is on our side.",
            "Please try again in a few minutes.",
        ),
    }
}

/// The page that says that the service is busy, and for how long by the stage's own estimate.
fn rejected(kind: RequestKind, is_change: bool, seconds: u64, is_ending: bool) -> Answer {
    let reason = if is_ending {
        "The service is being restarted.".to_owned()
    } else {
        format!(
            "{} has more requests than can be answered in time, so yours was rejected at once.",
            kind.title()
        )
    };
    let problem = ProblemPage {
        page: "rejected",
        title: "The service is busy",
        reason: &reason,
        cure: if is_change { FORM_CURE } else { PAGE_CURE },
        retry_seconds: Some(seconds),
        reloads: !is_change,
    };
    let answer = page(StatusCode::SERVICE_UNAVAILABLE, problem_page(&problem, None));
    with_retry(answer, seconds)
}

/// A page about what is wrong with a request.
pub(super) fn problem(status: StatusCode, title: &str, reason: &str, cure: &str) -> Answer {
    let problem =
        ProblemPage { page: "problem", title, reason, cure, retry_seconds: None, reloads: false };
    page(status, problem_page(&problem, None))
}
