use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Response};

use super::body::ProxyBody;
use super::line::LineError;
use crate::guard::Violation;
use crate::refusal::{Form, Message, message};

/// Why there is no answer of the upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No route takes the request.
    NoRoute,
    /// `CONNECT` and `TRACE`, which a proxy in front of a site has no use for.
    Method,
    /// The path may lead out of the route that it is on.
    Path,
    /// No connection could be made.
    Unreachable,
    /// It closed the connection, or what it sent was no answer.
    Broken,
    /// It took too long to connect or to answer.
    Silent,
    /// The client's own deadline passed.
    Overdue,
    /// The client's request body broke off, or turned out to be malformed.
    Client(Option<Violation>),
    /// The request body is longer than what is buffered.
    TooLong,
    /// This client, or all of them, have as many request bodies buffered as they may.
    Crowded,
    /// The request body cannot be kept in a file.
    Disk,
}

impl Trouble {
    /// What a failed exchange comes down to: the client's doing, or the upstream's.
    pub(super) fn of(error: &LineError) -> Self {
        match error {
            LineError::Late => Self::Silent,
            LineError::Client(error) => Self::Client(error.violation()),
            LineError::Ended | LineError::Malformed | LineError::Unread => Self::Broken,
            LineError::Disk(_) => Self::Disk,
        }
    }

    pub(super) fn answer(self, form: Form) -> Response<ProxyBody> {
        let mut answer = self.message().answer(form);
        if let Self::Client(Some(violation)) = self {
            *answer.status_mut() = violation.status();
        }
        if matches!(self, Self::Crowded | Self::Disk) {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // The rest of the body is not read.
        if matches!(self, Self::Client(_) | Self::TooLong | Self::Crowded | Self::Disk) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    #[rustfmt::skip]
    fn message(self) -> Message {
        match self {
            Self::NoRoute => message!(NOT_FOUND, 404, "no_route", "no route takes this request"),
            Self::Method => message!(NOT_IMPLEMENTED, 501, "method", "this method is not served here"),
            Self::Path => message!(BAD_REQUEST, 400, "path", "the path has a name that is only dots"),
            Self::Unreachable => message!(BAD_GATEWAY, 502, "unreachable", "the service behind this proxy cannot be reached"),
            Self::Broken => message!(BAD_GATEWAY, 502, "broken", "the service behind this proxy broke off or gave no proper answer"),
            Self::Silent => message!(GATEWAY_TIMEOUT, 504, "silent", "the service behind this proxy did not answer in time"),
            Self::Overdue => message!(GATEWAY_TIMEOUT, 504, "overdue", "the deadline that the request itself set has passed"),
            Self::Client(_) => message!(BAD_REQUEST, 400, "body", "the request body was malformed, too large or too slow"),
            Self::TooLong => message!(PAYLOAD_TOO_LARGE, 413, "too_long", "the request body is longer than what this proxy buffers"),
            Self::Crowded => message!(SERVICE_UNAVAILABLE, 503, "bodies", "too many request bodies are being received; try again later"),
            Self::Disk => message!(SERVICE_UNAVAILABLE, 503, "disk", "the request body cannot be buffered: the disk failed or is full"),
        }
    }
}
