//! What the store keeps of a message beside its bytes: what lists show, and what searches find.

use super::parsed::Mail;
use super::structure::header_length;
use super::text::{clean_line, clean_lines};
use crate::store::NewMessage;

/// The most of the header that is searched, in bytes.
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// The longest snippet, in bytes.
const SNIPPET_BYTES_MAX: usize = 200;

/// The message `raw`, as the store keeps it; it came at `received_seconds` since 1970.
pub fn new_message(raw: Vec<u8>, received_seconds: i64) -> NewMessage {
    new_message_and_defects(raw, received_seconds).0
}

/// The same, and what is wrong with it, a sentence each.
pub fn new_message_and_defects(raw: Vec<u8>, received_seconds: i64) -> (NewMessage, Vec<String>) {
    let mail = Mail::without_html(&raw);
    let recipients = match (&*mail.to, &*mail.cc) {
        (to, "") => to.to_owned(),
        ("", cc) => cc.to_owned(),
        (to, cc) => format!("{to}, {cc}"),
    };
    let header = &raw[..header_length(&raw).min(HEADERS_BYTES_MAX)];
    let headers = clean_lines(&String::from_utf8_lossy(header), HEADERS_BYTES_MAX);
    let text = mail.text.unwrap_or_default();
    let snippet = text.lines().filter(|line| !line.starts_with('>'));
    let mut words = String::new();
    for line in snippet {
        words.push_str(line);
        words.push(' ');
        if words.len() > 4 * SNIPPET_BYTES_MAX {
            break;
        }
    }
    let message = NewMessage {
        from: mail.from,
        recipients,
        subject: mail.subject,
        date_seconds: mail.date_seconds.unwrap_or(received_seconds),
        headers,
        snippet: clean_line(&words, SNIPPET_BYTES_MAX),
        has_attachments: !mail.attachments.is_empty(),
        is_read: false,
        raw,
    };
    (message, mail.defects)
}
