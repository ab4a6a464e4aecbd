//! Headers that keep browsers from doing what pages of mail must not do.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};

use crate::web::answer::Answer;

/// Nothing but our own style sheet and images that are in the page or from here; forms are sent
/// here only; no other site shows our pages in a frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'",
);

const CROSS_ORIGIN_OPENER_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// The answer with them, where it has not its own.
pub(super) async fn secured(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    set(headers, CONTENT_SECURITY_POLICY, POLICY);
    set(headers, X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    set(headers, REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    set(headers, CROSS_ORIGIN_OPENER_POLICY, HeaderValue::from_static("same-origin"));
    set(headers, CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // Mail is kept by no cache, and is gone from the browser after a log-out.
    set(headers, CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    headers.entry(name).or_insert(value);
}
