//! Why there is no response of the upstream, and the status that the client gets instead.

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Response, StatusCode};
use tamarisk_http_gate::{Details, Form, Message};
use tamarisk_server::guard::Violation;
use tamarisk_stage::Outcome;

use crate::exchange_error::ExchangeError;

/// Why there is no answer of the upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyError {
    /// No route takes the request.
    NoRoute,
    /// `CONNECT` and `TRACE`, which a proxy in front of a site has no use for.
    Method,
    /// The path may lead out of the route that it is on.
    Path,
    /// This proxy has passed the request on before.
    Loop,
    /// No connection could be made.
    Unreachable,
    /// It closed the connection, or what it sent was no answer.
    Broken,
    /// It answered in HTTP/2.
    Http2,
    /// It took too long to connect: nothing has been sent.
    Unconnected,
    /// It took too long to answer.
    Silent,
    /// The client's own deadline passed.
    Overdue,
    /// It took longer than the stage's termination law allows.
    Overlong,
    /// The client's request body broke off, or turned out to be malformed.
    Client(Option<Violation>),
    /// The request body is longer than what is buffered.
    TooLong,
    /// This client, or all of them, have as many request bodies buffered as they may.
    Crowded,
    /// The request body cannot be kept in a file.
    Disk,
    /// There is no thread that could write the request body to a file.
    Threads,
}

impl ProxyError {
    /// What a failed exchange comes down to: the client's doing, or the upstream's.
    pub(crate) fn of(error: &ExchangeError) -> Self {
        match error {
            ExchangeError::Late => Self::Silent,
            ExchangeError::Http2 => Self::Http2,
            ExchangeError::Client(error) => Self::Client(error.violation()),
            ExchangeError::Ended | ExchangeError::Malformed | ExchangeError::Unread => Self::Broken,
            ExchangeError::Disk(_) => Self::Disk,
        }
    }

    pub(crate) fn answer<B: From<Bytes>>(self, form: Form, details: Details<'_>) -> Response<B> {
        let retry_after = matches!(self, Self::Crowded | Self::Disk | Self::Threads).then_some(1);
        let mut answer = self.message().answer_with(form, Details { retry_after, ..details });
        // The rest of the body is not read.
        if matches!(
            self,
            Self::Client(_) | Self::TooLong | Self::Crowded | Self::Disk | Self::Threads
        ) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// What becomes of the request. What its client, a law or our own disk has done says nothing of
    /// the upstream.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Client(None) => Outcome::Abandoned,
            Self::Client(Some(_)) | Self::Overdue | Self::Overlong | Self::Disk | Self::Threads => {
                Outcome::Terminated
            }
            _ => Outcome::Failed,
        }
    }

    /// Whether the upstream may have done what was asked.
    pub(crate) fn may_be_done(self) -> bool {
        matches!(self, Self::Broken | Self::Silent | Self::Overdue | Self::Overlong)
    }

    /// One word for logs and programs.
    pub(crate) fn reason(self) -> &'static str {
        self.message().reason
    }

    #[rustfmt::skip]
    fn message(self) -> Message {
        let message = Message::new;
        match self {
            Self::NoRoute => message(StatusCode::NOT_FOUND, "no_route", "no route takes this request"),
            Self::Method => message(StatusCode::NOT_IMPLEMENTED, "method", "this method is not served here"),
            Self::Path => message(StatusCode::BAD_REQUEST, "path", "the path has a name that is only dots, or can be read as another one"),
            Self::Loop => message(StatusCode::LOOP_DETECTED, "loop", "the service behind this proxy leads back to it"),
            Self::Unreachable => message(StatusCode::BAD_GATEWAY, "unreachable", "the service behind this proxy cannot be reached"),
            Self::Broken => message(StatusCode::BAD_GATEWAY, "broken", "the service behind this proxy broke off or gave no proper answer"),
            Self::Http2 => message(StatusCode::BAD_GATEWAY, "http2", "the service behind this proxy answered in HTTP/2; it is spoken to in HTTP/1.1"),
            Self::Unconnected | Self::Silent => message(StatusCode::GATEWAY_TIMEOUT, "silent", "the service behind this proxy did not answer in time"),
            Self::Overdue => message(StatusCode::GATEWAY_TIMEOUT, "overdue", "the deadline that the request itself set has passed"),
            Self::Overlong => message(StatusCode::GATEWAY_TIMEOUT, "overlong", "the service behind this proxy took longer than it may at present"),
            Self::Client(Some(violation)) => message(violation.status(), "body", "the request body was malformed, too large or too slow"),
            Self::Client(None) => message(StatusCode::BAD_REQUEST, "body", "the request body was malformed, too large or too slow"),
            Self::TooLong => message(StatusCode::PAYLOAD_TOO_LARGE, "too_long", "the request body is longer than what this proxy buffers"),
            Self::Crowded => message(StatusCode::SERVICE_UNAVAILABLE, "bodies", "too many request bodies are being received"),
            Self::Threads => message(StatusCode::SERVICE_UNAVAILABLE, "threads", "the request body cannot be buffered: the system gives no thread"),
            Self::Disk => message(StatusCode::SERVICE_UNAVAILABLE, "disk", "the request body cannot be buffered: the disk failed or is full"),
        }
    }
}
