//! An attachment, to be saved.

use axum::body::Body;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::problem::Problem;
use super::running::RunningRequest;
use crate::mail::attachment;
use crate::store::{MessageId, StoreError};
use crate::web::answer::Answer;

/// Whatever it is, and even if a browser shows it, it runs nothing and loads nothing.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");

pub(super) fn attached(
    running: &mut RunningRequest<'_>,
    id: MessageId,
    part: usize,
) -> Result<Answer, Problem> {
    let message = running.store.message(running.work, running.user(), id)?;
    let found = attachment(&message.raw, part).ok_or(StoreError::NotFound)?;
    // [RFC 6266 §4.3, RFC 8187]
    let name = utf8_percent_encode(&found.name, NON_ALPHANUMERIC);
    let disposition = HeaderValue::from_str(&format!("attachment; filename*=UTF-8''{name}"))
        .expect("percent-encoded text is ASCII");
    let mut answer = Answer::new(Body::from(found.bytes));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(found.content_type));
    headers.insert(CONTENT_DISPOSITION, disposition);
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    Ok(answer)
}
