//! The structure of a message, found by `mail-parser` within bounds of time, memory and stack.

use std::borrow::Cow;
use std::collections::HashSet;
use std::iter::once;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mail_parser::{HeaderName, Message, MessageParser, MimeHeaders, PartType};
use memchr::{memchr, memchr_iter, memchr2_iter, memmem};

use crate::store::MESSAGE_BYTES_MAX;

/// Lines with a colon or hyphens in front: each header field and each part has one, and the parser
/// allocates for each.
const LINES_MAX: usize = 500_000;

/// Lines of the header. Mail has hundreds at most.
const HEADER_LINES_MAX: usize = 10_000;

/// Fields `Content-Type`: each multipart has one, and the parser looks through the rest of the
/// message for its boundary; each message in a message has one as well.
const CONTENT_TYPES_MAX: usize = 1_000;

/// What all these searches may read: seconds. A message of 25 MiB may have 40 multiparts then.
const SEARCHED_BYTES_MAX: usize = 1 << 30;

/// What the parser may read again within fields, in bytes: a part of a second. An encoded word
/// without an end costs the rest of its field, and a parameter in pieces a look at all the others.
const FIELDS_COST_MAX: usize = 64 << 20;

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
    let may_be_parsed = |line: &&[u8]| line.starts_with(b"--") || memchr(b':', line).is_some();
    let lines = raw.split(|&byte| byte == b'\n').filter(may_be_parsed).count();
    if lines > LINES_MAX {
        return Err(format!(
            "the message has {lines} lines that may be fields or parts; at most {LINES_MAX} are parsed"
        ));
    }
    let is_empty = |line: &&[u8]| line.iter().all(u8::is_ascii_whitespace);
    let header_lines = raw.split(|&byte| byte == b'\n').take_while(|line| !is_empty(line));
    if header_lines.take(HEADER_LINES_MAX + 1).count() > HEADER_LINES_MAX {
        return Err(format!("the message's header has more than {HEADER_LINES_MAX} lines"));
    }
    let encoded_word = memmem::Finder::new("=?");
    let (mut content_types, mut cost) = (0, 0);
    for field in fields(raw) {
        let is_type = may_be_named(field, b"content-type");
        content_types += usize::from(is_type);
        cost += encoded_word.find_iter(field).map(|at| word_cost(&field[at + 2..])).sum::<usize>();
        if is_type || may_be_named(field, b"content-disposition") {
            cost += memchr2_iter(b'*', b'\'', field).count() * field.len();
        }
    }
    let content_types_max = CONTENT_TYPES_MAX.min(SEARCHED_BYTES_MAX / raw.len().max(1));
    if content_types > content_types_max {
        return Err(format!(
            "the message has {content_types} parts; of its size, at most {content_types_max} are parsed"
        ));
    }
    if cost > FIELDS_COST_MAX {
        return Err("the header fields have too many encoded words or parameters".to_owned());
    }
    Ok(())
}

/// The lines of `raw`, each with those behind it that continue it: whatever the parser takes for a
/// header field lies in one of them. It may begin anywhere, behind a boundary.
fn fields(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_continued = move |end: usize| matches!(raw.get(end), Some(b' ' | b'\t'));
    let ends = memchr_iter(b'\n', raw).map(|at| at + 1).filter(move |&end| !is_continued(end));
    let mut start = 0;
    ends.chain(once(raw.len())).map(move |end| {
        let field = &raw[start..end];
        start = end;
        field
    })
}

/// How much the parser may read for an encoded word of which the first two characters are left out:
/// what says how it is encoded, and then itself, or all of `rest` if it has no end.
fn word_cost(rest: &[u8]) -> usize {
    let Some(encoding) = memchr(b'?', rest).map(|at| at + 1) else { return rest.len() };
    let text = encoding + 2;
    if !matches!(rest.get(encoding..text), Some([b'b' | b'B' | b'q' | b'Q', b'?'])) {
        return encoding;
    }
    let end = memchr(b'?', &rest[text..]).map(|at| text + at);
    end.filter(|end| rest.get(end + 1) == Some(&b'=')).unwrap_or(rest.len())
}

/// Whether the parser may read a header of this name in `field`: it ignores white space anywhere.
fn may_be_named(field: &[u8], name: &[u8]) -> bool {
    let ends_with_name = |before: &[u8]| {
        let mut letters = before.iter().rev().filter(|byte| !byte.is_ascii_whitespace());
        name.iter()
            .rev()
            .all(|expected| letters.next().is_some_and(|byte| byte.eq_ignore_ascii_case(expected)))
    };
    memchr_iter(b':', field).any(|colon| ends_with_name(&field[..colon]))
}

const ENCODING: HeaderName<'_> = HeaderName::ContentTransferEncoding;

/// Messages attached in base64 or quoted-printable, which [RFC2046 §5.2.1] forbids, are parsed by
/// recursion as deep as they are nested: their type is made an unknown one, and they stay
/// attachments. Those that are messages because they are in a digest stay encoded.
fn without_encoded_messages(raw: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let mut raw = Cow::Borrowed(raw);
    if !may_have_messages(&raw) {
        return Ok(raw);
    }
    // This must find the parts that the next parser finds. A part ends at its boundary, whatever its
    // encoding; dates are parsed because one may end in the field behind it.
    let parser =
        MessageParser::new().with_mime_headers().with_date_headers().ignore_header(ENCODING);
    for _ in 0..ENCODED_MESSAGES_MAX {
        let found = {
            let message = Dismantled(parser.parse(&*raw));
            message.0.as_ref().map_or_else(Vec::new, |message| encoded_messages(message, &raw))
        };
        if found.is_empty() {
            return Ok(raw);
        }
        let raw = raw.to_mut();
        for EncodedMessage { content_type, encoding } in found {
            let word = content_type.and_then(|range| {
                let value = raw[range.clone()].to_ascii_lowercase();
                Some(range.start + memmem::find(&value, b"message")?)
            });
            match word {
                Some(at) => raw[at..at + 7].copy_from_slice(b"unknown"),
                None => {
                    let value = &mut raw[encoding];
                    value.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                }
            }
        }
    }
    Err(format!("more than {ENCODED_MESSAGES_MAX} attached messages are encoded"))
}

/// Whether the types that are parsed as messages may be in `raw`, or the multipart whose parts are.
fn may_have_messages(raw: &[u8]) -> bool {
    let lower = raw.to_ascii_lowercase();
    let has = |word: &&str| memmem::find(&lower, word.as_bytes()).is_some();
    ["rfc822", "global", "digest"].iter().any(has)
}

/// Where an attached message says what it is, and how it is encoded.
struct EncodedMessage {
    content_type: Option<Range<usize>>,
    encoding: Range<usize>,
}

/// The parts of `message`, and of all messages in it, that are messages and may be encoded.
fn encoded_messages(message: &Message<'_>, raw: &[u8]) -> Vec<EncodedMessage> {
    let mut found = Vec::new();
    let mut pending = vec![message];
    while let Some(message) = pending.pop() {
        let in_digest = digested(message);
        for (id, part) in (0..).zip(&message.parts) {
            if let PartType::Message(inner) = &part.body {
                pending.push(inner);
            }
            // Its body does not tell: one without a header has become text.
            let is_message = match part.content_type() {
                Some(stated) => {
                    stated.ctype() == "message"
                        && matches!(stated.subtype(), Some("rfc822" | "global"))
                }
                None => in_digest.contains(&id),
            };
            let range = |name: &HeaderName<'_>| {
                let header = part.headers.iter().rev().find(|header| header.name == *name)?;
                Some(header.offset_start as usize..header.offset_end as usize)
            };
            let Some(encoding) = range(&ENCODING).filter(|_| is_message) else { continue };
            // Whatever else it says may be decoded to be one of the others.
            let value = raw.get(encoding.clone()).unwrap_or_default().trim_ascii();
            let is_plain = ["", "7bit", "8bit", "binary"]
                .iter()
                .any(|plain| value.eq_ignore_ascii_case(plain.as_bytes()));
            if !is_plain {
                found.push(EncodedMessage {
                    content_type: range(&HeaderName::ContentType),
                    encoding,
                });
            }
        }
    }
    found
}

/// The parts of digests: without a type they are messages.
fn digested(message: &Message<'_>) -> HashSet<u32> {
    let mut parts = HashSet::new();
    for part in &message.parts {
        if let PartType::Multipart(within) = &part.body
            && part.content_type().is_some_and(|is| is.subtype() == Some("digest"))
        {
            parts.extend(within);
        }
    }
    parts
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
