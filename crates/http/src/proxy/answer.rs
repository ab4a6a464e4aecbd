//! The answers that the proxy gives itself.

use std::error::Error;
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tamarisk_control::Reason;
use tamarisk_stage::Refused;

use super::body::ProxyBody;
use crate::guard::Violation;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// In which form the client likes to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

impl Form {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self::accepted(headers.get(ACCEPT))
    }

    /// JSON for whoever names it in `Accept`, text for all others.
    pub(super) fn accepted(accept: Option<&HeaderValue>) -> Self {
        let names_json = |accept: &HeaderValue| {
            accept.as_bytes().windows(5).any(|window| window.eq_ignore_ascii_case(b"/json"))
        };
        if accept.is_some_and(names_json) { Self::Json } else { Self::Text }
    }
}

/// Why there is no answer of the upstream's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// No route takes the request.
    NoRoute,
    /// `CONNECT` and `TRACE`, which a service in front of one site has no use for.
    Method,
    /// No connection could be made.
    Unreachable,
    /// It closed the connection, or what it sent was no answer.
    Broken,
    /// It took too long to connect or to answer.
    Silent,
    /// The client's own deadline passed.
    Overdue,
    /// The client's request body turned out to be malformed.
    Client(Violation),
}

impl Trouble {
    /// What a failed exchange comes down to: the client's doing, or the upstream's.
    pub(super) fn of(error: &hyper::Error) -> Self {
        let mut source: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = source {
            let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            if let Some(violation) = inner.and_then(|error| error.downcast_ref::<Violation>()) {
                return Self::Client(*violation);
            }
            source = error.source();
        }
        Self::Broken
    }

    pub(super) fn answer(self, form: Form) -> Response<ProxyBody> {
        match self {
            Self::NoRoute => fixed(StatusCode::NOT_FOUND, NO_ROUTE, form),
            Self::Method => fixed(StatusCode::METHOD_NOT_ALLOWED, METHOD, form),
            Self::Unreachable => fixed(StatusCode::BAD_GATEWAY, UNREACHABLE, form),
            Self::Broken => fixed(StatusCode::BAD_GATEWAY, BROKEN, form),
            Self::Silent => fixed(StatusCode::GATEWAY_TIMEOUT, SILENT, form),
            Self::Overdue => fixed(StatusCode::GATEWAY_TIMEOUT, OVERDUE, form),
            Self::Client(violation) => {
                let mut answer = fixed(violation.status(), MALFORMED, form);
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                answer
            }
        }
    }
}

/// The answer to a request that was not let in: when to come again is told in
/// whole seconds, at least one.
pub(super) fn refused(refused: &Refused, form: Form) -> Response<ProxyBody> {
    let (message, after) = match refused {
        Refused::Rejected(rejection) => (message(rejection.reason), rejection.retry_after),
        Refused::Dropped => (PREDICTED_LATE, None),
        Refused::Closed => (CLOSED, None),
    };
    let mut answer = fixed(StatusCode::SERVICE_UNAVAILABLE, message, form);
    let seconds = after.map_or(1, |after| whole_seconds(after).max(1));
    let value = if seconds == 1 { HeaderValue::from_static("1") } else { seconds.into() };
    answer.headers_mut().insert(RETRY_AFTER, value);
    answer
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// One message in both forms, ready to be sent.
#[derive(Clone, Copy)]
struct Message {
    text: &'static str,
    json: &'static str,
}

macro_rules! message {
    ($status:literal, $code:literal, $text:literal) => {
        Message {
            text: concat!($status, ": ", $text, "\n"),
            json: concat!(
                r#"{"status":"#,
                $status,
                r#","error":""#,
                $code,
                r#"","message":""#,
                $text,
                "\"}\n"
            ),
        }
    };
}

const NO_ROUTE: Message = message!(404, "no_route", "no route takes this request");
const METHOD: Message = message!(405, "method", "this method is not served here");
const UNREACHABLE: Message =
    message!(502, "unreachable", "the service behind this proxy cannot be reached");
const BROKEN: Message =
    message!(502, "broken", "the service behind this proxy broke off or gave no proper answer");
const SILENT: Message =
    message!(504, "silent", "the service behind this proxy did not answer in time");
const OVERDUE: Message = message!(504, "overdue", "the request's own deadline has passed");
const MALFORMED: Message =
    message!(400, "malformed", "the request body was malformed, too large or too slow");
const PREDICTED_LATE: Message =
    message!(503, "predicted_late", "overloaded: the answer would come too late; try again later");
const STANDING_QUEUE: Message =
    message!(503, "standing_queue", "overloaded: a queue is being cleared; try again later");
const QUEUE_FULL: Message =
    message!(503, "queue_full", "overloaded: the queue is full; try again later");
const RATE_EXCEEDED: Message =
    message!(503, "rate_exceeded", "overloaded: the admission rate is used up; try again later");
const DRAINING: Message = message!(503, "draining", "shutting down; try again later");
const CLOSED: Message = message!(503, "closed", "shut down; try again later");
const OVERLOADED: Message = message!(503, "overloaded", "overloaded; try again later");

fn message(reason: Reason) -> Message {
    match reason {
        Reason::PredictedLate => PREDICTED_LATE,
        Reason::StandingQueue => STANDING_QUEUE,
        Reason::QueueFull => QUEUE_FULL,
        Reason::RateExceeded => RATE_EXCEEDED,
        Reason::Draining => DRAINING,
        Reason::Closed => CLOSED,
        _ => OVERLOADED,
    }
}

fn fixed(status: StatusCode, message: Message, form: Form) -> Response<ProxyBody> {
    let (body, content_type) = match form {
        Form::Text => (message.text, TEXT),
        Form::Json => (message.json, JSON),
    };
    let mut answer = Response::new(ProxyBody::fixed(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
