//! Placeholders in the error pages of a host: `{{status}}`, `{{reason}}`, `{{request_id}}` and
//! `{{retry_after}}`.

use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER};
use memchr::memmem;
use tamarisk_http_gate::fill_in;

use crate::answer::Answer;
use crate::page::{Content, Page};

/// Longer pages are sent as they are: everyone who is rejected would have one made. The pages of
/// `protect` have the same bound.
const BYTES_MAX: usize = 64 * 1024;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Why a request was rejected, in one word, among the extensions of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortReason(pub(crate) &'static str);

/// `page` with what is known of `answer` in the place of its placeholders; `None` if it has none.
pub(crate) fn filled(page: &Page, answer: &Answer) -> Option<Bytes> {
    let Content::Held(bytes) = &page.plain.content else { return None };
    if bytes.len() > BYTES_MAX || memmem::find(bytes, b"{{").is_none() {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let status = answer.status();
    let field = |name: HeaderName| answer.headers().get(name)?.to_str().ok();
    let reason = match answer.extensions().get() {
        Some(&ShortReason(reason)) => reason,
        None => status.canonical_reason().unwrap_or("-"),
    };
    // Ids of requests are plain, the rest is ours.
    let filled = fill_in(text, status, reason, field(REQUEST_ID), field(RETRY_AFTER));
    (filled != text).then(|| filled.into())
}
