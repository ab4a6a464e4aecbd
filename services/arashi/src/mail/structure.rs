//! The structure of a message, found by `mail-parser` within bounds of time, memory and stack.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mail_parser::{HeaderName, Message, MessageParser, MimeHeaders, PartType};

use crate::store::MESSAGE_BYTES_MAX;

/// Parts have a `Content-Type` each; the parser looks through the rest of the message for the
/// boundary of each multipart, which this many may cost.
const CONTENT_TYPES_MAX: usize = 1_000;

/// What all these searches may read: seconds. A message of 25 MiB may have 40 parts then.
const SEARCHED_BYTES_MAX: usize = 1 << 30;

/// Lines of the header, which the parser allocates for each.
const HEADER_LINES_MAX: usize = 10_000;

/// Encoded messages that are attached, each of which costs a pass.
const ENCODED_MESSAGES_MAX: usize = 16;

const NO_HEADER: &str = "the message has no header";

/// What `read` makes of the message that `raw` is.
///
/// # Errors
/// Why `raw` is not parsed, as a sentence for the reader.
pub(super) fn with_message<T>(
    raw: &[u8],
    read: impl FnOnce(&Message<'_>) -> T,
) -> Result<T, String> {
    check_bounds(raw)?;
    if !raw[..header_length(raw)].contains(&b':') {
        return Err(NO_HEADER.to_owned());
    }
    // The parser and the HTML parser are robust, but a fault in them must not lose the message.
    catch_unwind(AssertUnwindSafe(|| {
        let raw = without_encoded_messages(raw)?;
        let parsed = Dismantled(MessageParser::new().parse(&*raw));
        parsed.0.as_ref().map(read).ok_or_else(|| NO_HEADER.to_owned())
    }))
    .unwrap_or_else(|_| Err("the message's structure is not understood".to_owned()))
}

/// How many bytes of `raw` are its header: up to the first empty line.
pub(super) fn header_length(raw: &[u8]) -> usize {
    let mut length = 0;
    for line in raw.split_inclusive(|&byte| byte == b'\n') {
        if matches!(line, b"\n" | b"\r\n") {
            break;
        }
        length += line.len();
    }
    length
}

fn check_bounds(raw: &[u8]) -> Result<(), String> {
    if raw.len() > MESSAGE_BYTES_MAX {
        return Err(format!(
            "the message has {} bytes; at most {MESSAGE_BYTES_MAX} are parsed",
            raw.len()
        ));
    }
    let lines = || raw.split(|&byte| byte == b'\n');
    let is_empty = |line: &&[u8]| line.iter().all(u8::is_ascii_whitespace);
    let header_lines = lines().take_while(|line| !is_empty(line)).take(HEADER_LINES_MAX + 1);
    if header_lines.count() > HEADER_LINES_MAX {
        return Err(format!("the message's header has more than {HEADER_LINES_MAX} lines"));
    }
    let content_types = lines().filter(|line| is_content_type(line)).count();
    let content_types_max = CONTENT_TYPES_MAX.min(SEARCHED_BYTES_MAX / raw.len().max(1));
    if content_types > content_types_max {
        return Err(format!(
            "the message has {content_types} parts; of its size, at most {content_types_max} are parsed"
        ));
    }
    Ok(())
}

/// Whether the parser reads `line` as a header `Content-Type`: white space anywhere is ignored.
fn is_content_type(line: &[u8]) -> bool {
    let mut letters = line.iter().filter(|byte| !byte.is_ascii_whitespace());
    b"content-type:"
        .iter()
        .all(|expected| letters.next().is_some_and(|byte| byte.eq_ignore_ascii_case(expected)))
}

/// Messages attached in base64 or quoted-printable, which [RFC2046 §5.2.1] forbids, are parsed by
/// recursion as deep as they are nested: their type is made an unknown one, and they stay
/// attachments.
fn without_encoded_messages(raw: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    const ENCODING: HeaderName<'_> = HeaderName::ContentTransferEncoding;
    let parser = MessageParser::new().with_mime_headers().ignore_header(ENCODING);
    let may_have = |word: &[u8]| raw.windows(word.len()).any(|at| at.eq_ignore_ascii_case(word));
    let mut raw = Cow::Borrowed(raw);
    if !may_have(b"message/") || !(may_have(b"base64") || may_have(b"quoted-printable")) {
        return Ok(raw);
    }
    for _ in 0..ENCODED_MESSAGES_MAX {
        let types: Vec<_> = {
            let message = Dismantled(parser.parse(&*raw));
            let mut found = Vec::new();
            let mut pending: Vec<&Message<'_>> = message.0.iter().collect();
            while let Some(message) = pending.pop() {
                for part in &message.parts {
                    if let PartType::Message(inner) = &part.body {
                        pending.push(inner);
                    }
                    let is_message = part.content_type().is_some_and(|is| is.ctype() == "message");
                    let range = |name: &HeaderName<'_>| {
                        let header =
                            part.headers.iter().rev().find(|header| header.name == *name)?;
                        Some(header.offset_start as usize..header.offset_end as usize)
                    };
                    let encoding = range(&ENCODING).and_then(|range| raw.get(range));
                    let is_encoded = encoding.is_some_and(|encoding| {
                        let encoding = encoding.trim_ascii();
                        encoding.eq_ignore_ascii_case(b"base64")
                            || encoding.eq_ignore_ascii_case(b"quoted-printable")
                    });
                    if is_message && is_encoded {
                        found.extend(range(&HeaderName::ContentType));
                    }
                }
            }
            found
        };
        if types.is_empty() {
            return Ok(raw);
        }
        for range in types {
            let value = &mut raw.to_mut()[range];
            let at = value.windows(7).position(|at| at.eq_ignore_ascii_case(b"message"));
            if let Some(at) = at {
                value[at..at + 7].copy_from_slice(b"unknown");
            }
        }
    }
    Err(format!("more than {ENCODED_MESSAGES_MAX} attached messages are encoded"))
}

/// A message that is dropped without recursion, however deep messages are nested in it.
struct Dismantled<'a>(Option<Message<'a>>);

impl Drop for Dismantled<'_> {
    fn drop(&mut self) {
        let mut pending: Vec<_> = self.0.take().into_iter().collect();
        while let Some(mut message) = pending.pop() {
            for part in &mut message.parts {
                if let PartType::Message(inner) = std::mem::take(&mut part.body) {
                    pending.push(inner);
                }
            }
        }
    }
}
