//! Attachments: their names, and types that no browser executes.

use mail_parser::{Message, MessagePart, MimeHeaders, PartType};

use super::structure::with_message;
use super::text::clean_line;

/// What any browser saves instead of showing.
const OPAQUE: &str = "application/octet-stream";

/// The types that browsers show and that cannot hold a script.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"];

/// How many attachments of a message are listed: as many as parts with a type can be.
pub(super) const ATTACHMENTS_MAX: usize = 1_000;

/// The longest name that file systems take, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// An attachment of a message, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentSummary {
    /// The name of a file: no path, no control characters, never empty.
    pub name: String,
    /// Its size, decoded.
    pub size_bytes: u64,
}

/// An attachment alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// As in lists.
    pub name: String,
    /// A type that no browser executes or shows as a document: that of an image of pixels, or
    /// `application/octet-stream`.
    pub content_type: &'static str,
    /// Its content, decoded.
    pub bytes: Vec<u8>,
}

/// The attachment of the message `raw` at `index` of [`Mail::attachments`](super::Mail::attachments).
pub fn attachment(raw: &[u8], index: usize) -> Option<Attachment> {
    with_message(raw, |message| {
        let part = attached(message).nth(index)?;
        let bytes = content(message, part).to_vec();
        Some(Attachment {
            name: name(part, index),
            content_type: content_type(part, &bytes),
            bytes,
        })
    })
    .ok()
    .flatten()
}

/// The attachments of `message`.
pub(super) fn summaries(message: &Message<'_>) -> Vec<AttachmentSummary> {
    let parts = attached(message).enumerate();
    parts
        .map(|(index, part)| AttachmentSummary {
            name: name(part, index),
            size_bytes: content(message, part).len() as u64,
        })
        .collect()
}

/// The identifiers by which HTML shows attachments (`cid:`), and at which index they are.
pub(super) fn content_ids(message: &Message<'_>) -> Vec<(String, usize)> {
    let parts = attached(message).enumerate();
    parts
        .filter(|(_, part)| content_type(part, content(message, part)) != OPAQUE)
        .filter_map(|(index, part)| Some((part.content_id()?.to_owned(), index)))
        .collect()
}

/// Those that are listed.
fn attached<'a>(message: &'a Message<'_>) -> impl Iterator<Item = &'a MessagePart<'a>> {
    message.attachments().take(ATTACHMENTS_MAX)
}

fn content<'a>(message: &'a Message<'_>, part: &'a MessagePart<'_>) -> &'a [u8] {
    match &part.body {
        PartType::Message(_) | PartType::Multipart(_) => {
            let range = part.offset_body as usize..part.offset_end as usize;
            message.raw_message().get(range).unwrap_or_default()
        }
        _ => part.contents(),
    }
}

fn content_type(part: &MessagePart<'_>, bytes: &[u8]) -> &'static str {
    let stated = part.content_type().and_then(|stated| {
        let subtype = stated.subtype()?;
        IMAGES.into_iter().find(|image| {
            let (kind, image) = image.split_once('/').expect("each has both");
            stated.ctype().eq_ignore_ascii_case(kind) && subtype.eq_ignore_ascii_case(image)
        })
    });
    stated.filter(|image| begins_as(image, bytes)).unwrap_or(OPAQUE)
}

/// Whether `bytes` begin as an image of this type does.
fn begins_as(image: &str, bytes: &[u8]) -> bool {
    match image {
        "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
        "image/gif" => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
        "image/webp" => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        _ => bytes.starts_with(b"BM"),
    }
}

fn name(part: &MessagePart<'_>, index: usize) -> String {
    let stated = part.attachment_name().unwrap_or_default();
    let subject = match &part.body {
        PartType::Message(message) => {
            let subject = message.subject().unwrap_or("message").replace(['/', '\\'], "-");
            Some(format!("{subject}.eml"))
        }
        _ => None,
    };
    let name =
        clean_name(if stated.is_empty() { subject.as_deref().unwrap_or_default() } else { stated });
    if name.is_empty() { format!("attachment-{}", index + 1) } else { name }
}

/// The last component of `stated`, without what file systems or headers take for something else.
fn clean_name(stated: &str) -> String {
    let last = stated.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String =
        last.chars().map(|letter| if "<>:\"|?*".contains(letter) { '_' } else { letter }).collect();
    let name = clean_line(&name, usize::MAX);
    let name = name.trim_matches(|letter: char| letter == '.' || letter == ' ');
    // The end says what the file is.
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if ending.len() <= 16 => (stem, format!(".{ending}")),
        _ => (name, String::new()),
    };
    let stem = &stem[..stem.floor_char_boundary(NAME_BYTES_MAX - ending.len())];
    format!("{stem}{ending}")
}
