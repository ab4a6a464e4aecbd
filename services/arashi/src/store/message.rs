//! Messages, in lists and alone.

use super::FolderId;

/// The longest message that is kept, in bytes: a packet of MariaDB is 16 MiB by default.
pub const MESSAGE_BYTES_MAX: usize = 15 << 20;

/// A message, as the database numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub i64);

/// What lists are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SortBy {
    /// When it was sent.
    #[default]
    Date,
    /// Whom it is from, without regard to case.
    Author,
    /// Its subject, without regard to case and to `Re:`.
    Subject,
}

/// In which order a list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Order {
    /// What counts.
    pub by: SortBy,
    /// From the other end: dates are the latest first unless this is set, names from A to Z.
    pub reversed: bool,
}

/// A message in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its number.
    pub id: MessageId,
    /// Where it lies.
    pub folder: FolderId,
    /// Whom it is from, as text.
    pub from: String,
    /// Whom it is to, the first of them, as text; may be empty.
    pub recipients: String,
    /// Its subject, as text; may be empty.
    pub subject: String,
    /// When it was sent, in seconds since 1970; when it came, where its header has no date.
    pub date_seconds: i64,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Whether it has not been read.
    pub is_unread: bool,
    /// Whether it has attachments.
    pub has_attachments: bool,
    /// How its text begins; none where the list was asked for without.
    pub snippet: Option<String>,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The messages of this part.
    pub messages: Vec<Summary>,
    /// How many messages the whole list has.
    pub total: u64,
}

/// A message alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// As in lists.
    pub summary: Summary,
    /// The message as it came, byte by byte.
    pub raw: Vec<u8>,
}

/// A message that is to be kept. Texts are decoded; what is too long to be kept is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// The message as it came, byte by byte.
    pub raw: Vec<u8>,
    /// Whom it is from.
    pub from: String,
    /// Whom it is to, in all headers of recipients.
    pub recipients: String,
    /// Its subject; may be empty.
    pub subject: String,
    /// When it was sent, in seconds since 1970; when it came, where its header has no date.
    pub date_seconds: i64,
    /// Its other headers, for search: author, recipients and subject are found without being
    /// repeated here.
    pub headers: String,
    /// How its text begins.
    pub snippet: String,
    /// Whether it has attachments.
    pub has_attachments: bool,
    /// Whether its user has read it already, elsewhere.
    pub is_read: bool,
}
