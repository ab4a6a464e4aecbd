//! Answers, as stages and routes make them.

use axum::body::Body;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use maud::Markup;

/// What a request is answered with.
pub(crate) type Answer = Response<Body>;

/// A page.
pub(crate) fn page(status: StatusCode, page: Markup) -> Answer {
    let mut answer = Answer::new(Body::from(page.into_string()));
    *answer.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, html);
    answer
}

/// The way to another page, which is asked for by GET.
pub(crate) fn see_other(path: &str) -> Answer {
    let mut answer = Answer::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::from_str(path);
    answer.headers_mut().insert(LOCATION, location.unwrap_or(HeaderValue::from_static("/folders")));
    answer
}

/// The same answer with the time after which to come again, in seconds.
pub(crate) fn with_retry(mut answer: Answer, seconds: u64) -> Answer {
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    answer
}
