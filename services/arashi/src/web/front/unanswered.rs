//! What a client is told whose request its stage has not answered.

use http::StatusCode;
use tamarisk::{CallError, Reason};

use crate::store::AccountClass;
use crate::web::answer::{Answer, page, with_retry};
use crate::web::page::{ProblemPage, problem_page};

/// For a page that is loaded again automatically.
const PAGE_CURE: &str = "Nothing was changed. Other pages may be quicker.";
/// For a form.
const FORM_CURE: &str =
    "Nothing was changed. Please go back and send it again; what you have typed is still there.";
const LATER_CURE: &str = "Please try again in a few minutes.";

/// A request that its stage has not answered.
pub(super) struct Unanswered {
    /// What was asked for, as the beginning of a sentence.
    pub(super) title: &'static str,
    pub(super) is_change: bool,
    /// The class of the account, if a session of it was seen before.
    pub(super) class: Option<AccountClass>,
}

impl Unanswered {
    /// The page about it. One that only shows something loads itself again.
    pub(super) fn page(&self, error: &CallError) -> Answer {
        match error.cause() {
            CallError::Rejected(rejection) => {
                let wait = rejection.retry_after.map_or(1, |after| {
                    (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1)
                });
                let is_ending = matches!(rejection.reason, Reason::Draining | Reason::Closed);
                self.rejected(wait, is_ending)
            }
            CallError::Dropped => self.rejected(1, false),
            CallError::Closed => self.rejected(1, true),
            CallError::Terminated => {
                let title = self.title;
                let problem = ProblemPage {
                    title: "This took too long",
                    reason: &format!("{title} was stopped, because nobody waits for so long."),
                    cure: if self.is_change { FORM_CURE } else { LATER_CURE },
                    class: self.class,
                    ..ProblemPage::default()
                };
                page(StatusCode::GATEWAY_TIMEOUT, problem_page(&problem, None))
            }
            _ => {
                let problem = ProblemPage {
                    title: "Something went wrong",
                    reason: "The error is on our side.",
                    cure: LATER_CURE,
                    class: self.class,
                    ..ProblemPage::default()
                };
                page(StatusCode::INTERNAL_SERVER_ERROR, problem_page(&problem, None))
            }
        }
    }

    /// The page that says that the service is busy, and for how long by the stage's own estimate.
    fn rejected(&self, seconds: u64, is_ending: bool) -> Answer {
        let reason = if is_ending {
            "The service is being restarted.".to_owned()
        } else {
            format!(
                "{} has more requests than can be answered in time, so yours was rejected.",
                self.title
            )
        };
        let problem = ProblemPage {
            page: "rejected",
            title: "The service is busy",
            reason: &reason,
            cure: if self.is_change { FORM_CURE } else { PAGE_CURE },
            retry_seconds: Some(seconds),
            reloads: !self.is_change,
            class: self.class,
        };
        let answer = page(StatusCode::SERVICE_UNAVAILABLE, problem_page(&problem, None));
        with_retry(answer, seconds)
    }
}

/// A page about what is wrong with a request.
pub(super) fn problem(status: StatusCode, title: &str, reason: &str, cure: &str) -> Answer {
    let problem = ProblemPage { title, reason, cure, ..ProblemPage::default() };
    page(status, problem_page(&problem, None))
}
