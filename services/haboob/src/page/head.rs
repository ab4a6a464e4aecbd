//! Prepared HTTP/1.1 response heads.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The status line and these fields, each with its end.
pub(crate) fn head(status: StatusCode, fields: &HeaderMap) -> Vec<u8> {
    let words = status.canonical_reason().unwrap_or_default();
    let mut head = ["HTTP/1.1 ", status.as_str(), " ", words, "\r\n"].concat().into_bytes();
    fields.iter().for_each(|(name, value)| push_field(&mut head, name, value));
    head
}

/// Puts a field behind others.
pub(crate) fn push_field(lines: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
        lines.extend_from_slice(part);
    }
}
