//! The answer to a request that a gate did not let through.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use tamarisk_control::Reason;
use tamarisk_stage::EnterError;

use crate::message::{Details, Form, Message};

/// Marks an answer, in its extensions, as a rejection.
#[derive(Clone, Copy, Debug)]
pub struct Rejection;

/// The answer to a request that a gate did not let through: 503, and when to
/// come again in whole seconds, at least one.
pub fn rejected<B: From<Bytes>>(
    rejected: &EnterError,
    form: Form,
    details: Details<'_>,
) -> Response<B> {
    let after = match rejected {
        EnterError::Rejected(rejection) => rejection.retry_after,
        EnterError::Dropped | EnterError::Closed => None,
    };
    let seconds = after.map_or(1, |after| whole_seconds(after).max(1));
    let details = Details { retry_after: Some(seconds), ..details };
    let mut answer = message_of(reason(rejected)).answer_with(form, details);
    answer.extensions_mut().insert(Rejection);
    answer
}

/// Why a gate did not let a request through.
pub fn reason(rejected: &EnterError) -> Reason {
    match rejected {
        EnterError::Rejected(rejection) => rejection.reason,
        EnterError::Dropped => Reason::PredictedLate,
        EnterError::Closed => Reason::Closed,
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn message_of(reason: Reason) -> Message {
    Message::new(StatusCode::SERVICE_UNAVAILABLE, reason.as_str(), sentence_of(reason))
}

pub(crate) fn sentence_of(reason: Reason) -> &'static str {
    match reason {
        Reason::PredictedLate => "too busy to answer in time",
        Reason::ResourceScarce => "too busy: a resource is scarce",
        Reason::ShareExceeded => "too busy: this client has used its share",
        Reason::Draining => "shutting down",
        Reason::Closed => "shut down",
        _ => "too busy",
    }
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;
    use tamarisk_control::Rejection;

    use super::*;

    fn retry_after(after: Option<Duration>) -> String {
        let rejection = Rejection { reason: Reason::QueueFull, retry_after: after };
        let answer =
            rejected::<Bytes>(&EnterError::Rejected(rejection), Form::Text, Details::default());
        answer.headers()[RETRY_AFTER].to_str().unwrap().to_owned()
    }

    #[test]
    fn when_to_come_again_is_told_in_whole_seconds_and_never_too_early() {
        assert_eq!(retry_after(None), "1");
        assert_eq!(retry_after(Some(Duration::ZERO)), "1");
        assert_eq!(retry_after(Some(Duration::from_secs(2))), "2");
        assert_eq!(retry_after(Some(Duration::from_millis(2001))), "3");
    }

    fn body(form: Form) -> String {
        let details = Details { request_id: Some("7b-1"), ..Details::default() };
        let answer = rejected::<Bytes>(&EnterError::Closed, form, details);
        assert_eq!(answer.headers()["x-request-id"], "7b-1");
        String::from_utf8(answer.into_body().into()).unwrap()
    }

    #[test]
    fn every_form_says_why_and_names_the_request() {
        assert_eq!(body(Form::Text), "503: shut down; try again in 1 s (closed, request 7b-1)\n");
        let expected = serde_json::json!({
            "status": 503, "error": "closed", "message": "shut down; try again in 1 s",
            "request_id": "7b-1", "retry_after_seconds": 1
        });
        let json: serde_json::Value = serde_json::from_str(&body(Form::Json)).unwrap();
        assert_eq!(json, expected);
        let page = body(Form::Html { can_reload: true });
        assert!(page.contains("503 · closed · request 7b-1"), "{page}");
        assert!(page.contains("<meta http-equiv=\"refresh\" content=\"1\">"), "{page}");
    }

    #[test]
    fn a_page_that_answers_a_form_does_not_load_itself_again() {
        let page = body(Form::Html { can_reload: false });
        assert!(!page.contains("refresh") && !page.contains("tries again"), "{page}");
    }
}
