//! The answers that we give ourselves, in text or JSON.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tamarisk_control::Reason;
use tamarisk_stage::Refused;

use crate::server::Refusal;

/// In which form a client likes to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

impl Form {
    /// What `Accept` asks for.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self::accepted(headers.get(ACCEPT))
    }

    /// JSON for whoever names it in `Accept`, text for all others.
    pub(crate) fn accepted(accept: Option<&HeaderValue>) -> Self {
        let names_json = |accept: &HeaderValue| {
            accept.as_bytes().windows(5).any(|window| window.eq_ignore_ascii_case(b"/json"))
        };
        if accept.is_some_and(names_json) { Self::Json } else { Self::Text }
    }
}

/// One message in both forms, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) status: StatusCode,
    pub(crate) text: &'static str,
    pub(crate) json: &'static str,
}

/// A [`Message`] put together at compile time: status constant, its number, a
/// word for programs, a sentence for people.
macro_rules! message {
    ($status:ident, $number:literal, $word:literal, $sentence:literal) => {
        $crate::refusal::Message {
            status: http::StatusCode::$status,
            text: concat!($number, ": ", $sentence, "\n"),
            json: concat!(
                r#"{"status":"#,
                $number,
                r#","error":""#,
                $word,
                r#"","message":""#,
                $sentence,
                "\"}\n"
            ),
        }
    };
}
pub(crate) use message;

impl Message {
    pub(crate) fn answer<B: From<&'static str>>(self, form: Form) -> Response<B> {
        const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let (body, content_type) = match form {
            Form::Text => (self.text, TEXT),
            Form::Json => (self.json, JSON),
        };
        let mut answer = Response::new(B::from(body));
        *answer.status_mut() = self.status;
        answer.headers_mut().insert(CONTENT_TYPE, content_type);
        answer
    }
}

/// The answer to a request that a gate did not let through: 503, and when to
/// come again in whole seconds, at least one.
pub(crate) fn refused<B: From<&'static str>>(refused: &Refused, form: Form) -> Response<B> {
    let (message, after) = match refused {
        Refused::Rejected(rejection) => (of(rejection.reason), rejection.retry_after),
        Refused::Dropped => (of(Reason::PredictedLate), None),
        Refused::Closed => (of(Reason::Closed), None),
    };
    let mut answer = message.answer(form);
    let seconds = after.map_or(1, |after| whole_seconds(after).max(1));
    // The usual one needs no digits written.
    let value = if seconds == 1 { HeaderValue::from_static("1") } else { seconds.into() };
    answer.headers_mut().insert(RETRY_AFTER, value);
    answer.extensions_mut().insert(Refusal);
    answer
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[rustfmt::skip]
fn of(reason: Reason) -> Message {
    match reason {
        Reason::PredictedLate => message!(SERVICE_UNAVAILABLE, 503, "predicted_late", "overloaded: the answer would come too late; try again later"),
        Reason::StandingQueue => message!(SERVICE_UNAVAILABLE, 503, "standing_queue", "overloaded: a standing queue is being cleared; try again later"),
        Reason::QueueFull => message!(SERVICE_UNAVAILABLE, 503, "queue_full", "overloaded: the queue is full; try again later"),
        Reason::RateExceeded => message!(SERVICE_UNAVAILABLE, 503, "rate_exceeded", "overloaded: the admission rate is used up; try again later"),
        Reason::ConcurrencyLimit => message!(SERVICE_UNAVAILABLE, 503, "concurrency_limit", "overloaded: as many are inside as may be at once; try again later"),
        Reason::PriorityCutoff => message!(SERVICE_UNAVAILABLE, 503, "priority_cutoff", "overloaded: there is room for higher priorities only; try again later"),
        Reason::Random => message!(SERVICE_UNAVAILABLE, 503, "random", "overloaded: a share of all requests is refused; try again later"),
        Reason::Draining => message!(SERVICE_UNAVAILABLE, 503, "draining", "shutting down; try again later"),
        Reason::Closed => message!(SERVICE_UNAVAILABLE, 503, "closed", "shut down; try again later"),
        _ => message!(SERVICE_UNAVAILABLE, 503, "overloaded", "overloaded; try again later"),
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Rejection;

    use super::*;

    fn retry_after(after: Option<Duration>) -> String {
        let rejection = Rejection { reason: Reason::QueueFull, retry_after: after };
        let answer = refused::<&str>(&Refused::Rejected(rejection), Form::Text);
        answer.headers()[RETRY_AFTER].to_str().unwrap().to_owned()
    }

    #[test]
    fn when_to_come_again_is_told_in_whole_seconds_and_never_too_early() {
        assert_eq!(retry_after(None), "1");
        assert_eq!(retry_after(Some(Duration::ZERO)), "1");
        assert_eq!(retry_after(Some(Duration::from_secs(2))), "2");
        assert_eq!(retry_after(Some(Duration::from_millis(2001))), "3");
    }

    #[test]
    fn whoever_accepts_json_gets_json() {
        let answer = |accept: &'static str| {
            let form = Form::accepted(Some(&HeaderValue::from_static(accept)));
            refused::<&str>(&Refused::Closed, form).into_body()
        };
        assert_eq!(answer("*/*"), "503: shut down; try again later\n");
        let expected = serde_json::json!({
            "status": 503, "error": "closed", "message": "shut down; try again later"
        });
        let json = answer("text/html, application/JSON;q=0.5");
        assert_eq!(serde_json::from_str::<serde_json::Value>(json).unwrap(), expected);
    }
}
