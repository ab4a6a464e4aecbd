//! What the type of a message's content says of how it is sent.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

/// Whether an answer comes little by little, for as long as it likes.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    is_of_type(headers, b"text/event-stream") || is_grpc(headers)
}

/// Whether either side may speak before the other has ended.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    is_of_type(headers, b"application/grpc")
}

fn is_of_type(headers: &HeaderMap, name: &[u8]) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type
        .and_then(|value| value.get(..name.len()))
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
}
