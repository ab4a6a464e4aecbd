//! Placeholders in the error pages of a host: `{{status}}`, `{{reason}}`, `{{request_id}}` and
//! `{{retry_after}}`.

use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER};
use memchr::memmem;

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
    let field = |name: HeaderName| {
        let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or("-")
    };
    let reason = match answer.extensions().get() {
        Some(&ShortReason(reason)) => reason,
        None => status.canonical_reason().unwrap_or("-"),
    };
    // Nothing of it needs to be escaped: ids of requests are plain, the rest is ours.
    let values = [
        ("{{status}}", status.as_str()),
        ("{{reason}}", reason),
        ("{{request_id}}", field(REQUEST_ID)),
        ("{{retry_after}}", field(RETRY_AFTER)),
    ];
    let fill = |text: String, (name, value): (&str, &str)| text.replace(name, value);
    let filled = values.into_iter().fold(text.to_owned(), fill);
    (filled != text).then(|| filled.into())
}
