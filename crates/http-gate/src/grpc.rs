//! gRPC error responses: a gRPC status in a response without a body.
//!
//! A response that ends with its head is *Trailers-Only*: status and message stand in the head
//! [gRPC over HTTP/2, "Responses"](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};
use tamarisk_control::Reason;
use tamarisk_stage::EnterError;

use crate::rejection::{Rejection, reason, sentence_of};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_TYPE: &str = "application/grpc";
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// In how many milliseconds a client may try again
/// [A6, "Pushback"](https://github.com/grpc/proposal/blob/master/A6-client-retries.md).
const RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The least pushback, for a rejection that says nothing of when to retry.
const RETRY_LEAST: Duration = Duration::from_secs(1);

const DEADLINE_EXCEEDED: u32 = 4;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNAVAILABLE: u32 = 14;

/// Codes that say that the service, and not the request, is at fault: UNKNOWN,
/// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const FAILURES: [&[u8]; 6] = [b"2", b"4", b"8", b"13", b"14", b"15"];

/// Whether a request, by its head, is one of gRPC.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return false };
    // `application/grpc`, `application/grpc+proto`, in any case; gRPC-Web is another protocol.
    let Some((kind, rest)) = content_type.as_bytes().split_at_checked(GRPC_TYPE.len()) else {
        return false;
    };
    kind.eq_ignore_ascii_case(GRPC_TYPE.as_bytes())
        && matches!(rest.first(), None | Some(b'+' | b';'))
}

/// The answer to a call that a gate did not let through: RESOURCE_EXHAUSTED, or UNAVAILABLE
/// where the gate is closed, and when to come again.
pub fn grpc_rejected<B: From<Bytes>>(rejected: &EnterError) -> Response<B> {
    let (code, after) = match rejected {
        EnterError::Rejected(rejection)
            if matches!(rejection.reason, Reason::Draining | Reason::Closed) =>
        {
            (UNAVAILABLE, None)
        }
        EnterError::Rejected(rejection) => (RESOURCE_EXHAUSTED, rejection.retry_after),
        EnterError::Dropped => (RESOURCE_EXHAUSTED, None),
        EnterError::Closed => (UNAVAILABLE, None),
    };
    let mut answer = answer(code, sentence_of(reason(rejected)));
    let after = after.unwrap_or(RETRY_LEAST).max(RETRY_LEAST).as_millis();
    let millis = u32::try_from(after).unwrap_or(u32::MAX);
    answer.headers_mut().insert(RETRY_PUSHBACK, millis.into());
    answer.extensions_mut().insert(Rejection);
    answer
}

/// The answer to a call whose deadline has passed.
pub fn grpc_overdue<B: From<Bytes>>() -> Response<B> {
    answer(DEADLINE_EXCEEDED, "the deadline of the request has passed")
}

/// Why a response failed, by its head or its trailers; `None` if it did not.
pub fn grpc_failure(fields: &HeaderMap) -> Option<String> {
    let code = fields.get(GRPC_STATUS)?.as_bytes();
    let failed = FAILURES.contains(&code);
    failed.then(|| format!("answered with gRPC status {}", String::from_utf8_lossy(code)))
}

fn answer<B: From<Bytes>>(code: u32, message: &'static str) -> Response<B> {
    let mut answer = Response::new(B::from(Bytes::new()));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC_TYPE));
    headers.insert(GRPC_STATUS, code.into());
    // Our messages are ASCII without `%`: nothing is to be encoded.
    headers.insert(GRPC_MESSAGE, HeaderValue::from_static(message));
    answer
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Rejection;

    use super::*;

    #[test]
    fn grpc_is_told_by_its_content_type() {
        for (value, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc; charset=utf-8", true),
            ("Application/gRPC+proto", true),
            ("application/grp", false),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(is_grpc(&headers), expected, "{value}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn a_rejection_says_what_it_is_and_when_to_retry() {
        let check = |rejected: EnterError, code: &str, millis: &str| {
            let answer = grpc_rejected::<Bytes>(&rejected);
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()[GRPC_STATUS], code, "{rejected}");
            assert_eq!(answer.headers()[RETRY_PUSHBACK], millis, "{rejected}");
        };
        let full = Rejection::new(Reason::QueueFull);
        check(EnterError::Rejected(full), "8", "1000");
        let later = full.retry_after(Duration::from_millis(2500));
        check(EnterError::Rejected(later), "8", "2500");
        check(EnterError::Dropped, "8", "1000");
        check(EnterError::Rejected(Rejection::new(Reason::Draining)), "14", "1000");
        check(EnterError::Closed, "14", "1000");
    }

    #[test]
    fn the_fault_of_a_request_is_no_failure_of_the_service() {
        let failure = |code: &'static str| {
            let mut trailers = HeaderMap::new();
            trailers.insert(GRPC_STATUS, HeaderValue::from_static(code));
            grpc_failure(&trailers)
        };
        assert_eq!((failure("0"), failure("3"), failure("5")), (None, None, None));
        assert_eq!(failure("13").as_deref(), Some("answered with gRPC status 13"));
        assert_eq!(grpc_failure(&HeaderMap::new()), None);
    }
}
