//! Responses of the status port.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

pub(super) fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    content(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

pub(super) fn content(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<Full<Bytes>> {
    const SAFETY: [(HeaderName, &str); 3] = [
        (CACHE_CONTROL, "no-store"),
        (http::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The page brings its own script and style, and talks to its own origin alone.
        (
            http::header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
             connect-src 'self'; frame-ancestors 'none'",
        ),
    ];
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in SAFETY {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
