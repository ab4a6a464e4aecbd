//! Calls that put messages into folders.

use std::collections::BTreeSet;

use super::connection::{Fault, Value};
use super::folders;
use super::store::{Statements, Store};
use super::{
    FolderId, FolderKind, Invalid, MESSAGE_BYTES_MAX, MessageId, NewMessage, StoreError, UserId,
    Work,
};

/// A transaction of an import ends at so many messages,
const MESSAGES_PER_TRANSACTION: usize = 200;
/// or so many bytes.
const BYTES_PER_TRANSACTION: usize = 8 << 20;
/// What is kept of a message's texts.
const AUTHOR_BYTES: usize = 512;
const RECIPIENTS_BYTES: usize = 256;
const SUBJECT_BYTES: usize = 1024;
const SNIPPET_BYTES: usize = 512;
const HEADERS_BYTES: usize = 16 << 10;
/// What is kept to sort by: as many characters as the column has.
const KEY_CHARACTERS: usize = 128;

impl Store {
    /// Puts a message into a folder. It has not been read, unless it says so or the folder is Sent.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user has no such folder; [`StoreError::Invalid`] if the
    /// message is too large.
    pub fn deliver(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: FolderId,
        mail: &NewMessage,
    ) -> Result<MessageId, StoreError> {
        let prepared = Prepared::of(mail)?;
        self.change(work, Some(user), |statements| {
            let is_sent = folders::kind(statements, user, folder)? == FolderKind::Sent;
            let is_unread = !(is_sent || prepared.is_read);
            let id = insert(statements, user, folder, is_unread, &prepared)?;
            folders::add_counts(statements, user, folder, 1, i64::from(is_unread))?;
            Ok(id)
        })
    }

    /// Puts a message into the inboxes of its recipients, and a copy into its author's Sent: into
    /// all of them or none.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if one of the users is no longer there; [`StoreError::Invalid`] if
    /// the message is too large.
    pub fn send(
        &mut self,
        work: &dyn Work,
        author: UserId,
        recipients: &BTreeSet<UserId>,
        mail: &NewMessage,
    ) -> Result<(), StoreError> {
        let prepared = Prepared::of(mail)?;
        let mut users = recipients.clone();
        users.insert(author);
        self.change(work, None, |statements| {
            // In the order of their numbers: none waits for another that waits for it.
            users.iter().try_for_each(|user| statements.lock_user(*user))?;
            let mut put = |user, kind, is_unread| {
                let folder = folders::only(statements, user, kind)?;
                insert(statements, user, folder, is_unread, &prepared)?;
                folders::add_counts(statements, user, folder, 1, i64::from(is_unread))
            };
            recipients.iter().try_for_each(|user| put(*user, FolderKind::Inbox, true))?;
            put(author, FolderKind::Sent, false)
        })
    }

    /// Puts messages into a folder, in transactions of some hundreds each, and returns how many.
    /// After an error, those of the transactions before are kept.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub fn deliver_all(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: FolderId,
        mails: &mut dyn Iterator<Item = NewMessage>,
    ) -> Result<u64, StoreError> {
        let mut mails = mails.fuse();
        let mut delivered = 0;
        loop {
            match self.deliver_next(work, user, folder, &mut mails)? {
                0 => return Ok(delivered),
                count => delivered += count,
            }
        }
    }

    /// Puts the next messages into a folder, in one transaction, and returns how many: some
    /// hundreds, fewer if they are long, and 0 if there are no more.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub fn deliver_next(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: FolderId,
        mails: &mut dyn Iterator<Item = NewMessage>,
    ) -> Result<u64, StoreError> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < MESSAGES_PER_TRANSACTION && bytes < BYTES_PER_TRANSACTION {
            let Some(mail) = mails.next() else { break };
            bytes += mail.raw.len();
            batch.push(mail);
        }
        if batch.is_empty() {
            return Ok(0);
        }
        self.deliver_batch(work, user, folder, &batch)
    }

    fn deliver_batch(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: FolderId,
        batch: &[NewMessage],
    ) -> Result<u64, StoreError> {
        let prepared: Vec<_> = batch.iter().map(Prepared::of).collect::<Result<_, _>>()?;
        self.change(work, Some(user), |statements| {
            let is_sent = folders::kind(statements, user, folder)? == FolderKind::Sent;
            let mut unread = 0;
            for mail in &prepared {
                let is_unread = !(is_sent || mail.is_read);
                unread += i64::from(is_unread);
                insert(statements, user, folder, is_unread, mail)?;
            }
            folders::add_counts(statements, user, folder, prepared.len() as i64, unread)
        })?;
        Ok(batch.len() as u64)
    }
}

fn insert(
    statements: &mut Statements<'_>,
    user: UserId,
    folder: FolderId,
    is_unread: bool,
    mail: &Prepared<'_>,
) -> Result<MessageId, Fault> {
    let sql = "INSERT INTO messages (user_id, folder_id, date_seconds, size_bytes, is_unread, \
               has_attachments, author_key, subject_key, author, recipients, subject, snippet, \
               headers) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let id = statements.insert(
        sql,
        &[
            Value::Integer(user.0),
            Value::Integer(folder.0),
            Value::Integer(mail.date_seconds),
            Value::Integer(mail.raw.len() as i64),
            Value::Integer(i64::from(is_unread)),
            Value::Integer(i64::from(mail.has_attachments)),
            Value::Text(&mail.author_key),
            Value::Text(&mail.subject_key),
            Value::Text(&mail.author),
            Value::Text(&mail.recipients),
            Value::Text(&mail.subject),
            Value::Text(&mail.snippet),
            Value::Text(&mail.headers),
        ],
    )?;
    let sql = "INSERT INTO message_bodies (message_id, content) VALUES (?, ?)";
    statements.execute(sql, &[Value::Integer(id), Value::Bytes(mail.raw)])?;
    Ok(MessageId(id))
}

/// A message as its row is.
struct Prepared<'a> {
    raw: &'a [u8],
    date_seconds: i64,
    has_attachments: bool,
    is_read: bool,
    author: String,
    recipients: String,
    subject: String,
    snippet: String,
    author_key: String,
    subject_key: String,
    headers: String,
}

impl<'a> Prepared<'a> {
    fn of(mail: &'a NewMessage) -> Result<Self, StoreError> {
        if mail.raw.len() > MESSAGE_BYTES_MAX {
            return Err(Invalid::MessageSize.into());
        }
        let searched = [&mail.from, &mail.recipients, &mail.subject, &mail.headers];
        let searched = searched.map(|text| storable(text, HEADERS_BYTES)).join("\n");
        Ok(Self {
            raw: &mail.raw,
            date_seconds: mail.date_seconds,
            has_attachments: mail.has_attachments,
            is_read: mail.is_read,
            author: storable(&mail.from, AUTHOR_BYTES),
            recipients: storable(&mail.recipients, RECIPIENTS_BYTES),
            subject: storable(&mail.subject, SUBJECT_BYTES),
            snippet: storable(&mail.snippet, SNIPPET_BYTES),
            author_key: key(mail.from.trim_start_matches(['"', '\'', ' '])),
            subject_key: key(without_reply_marks(&mail.subject)),
            headers: storable(&search_text(&searched), HEADERS_BYTES),
        })
    }
}

/// Text as it is searched: in lower case, and without what no database keeps.
pub(super) fn search_text(text: &str) -> String {
    text.to_lowercase().replace('\0', "\u{fffd}")
}

/// The beginning of a text, without what no database keeps.
fn storable(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or_default()].replace('\0', "")
}

/// What a text is sorted by.
fn key(text: &str) -> String {
    let text = storable(text.trim(), 4 * KEY_CHARACTERS).to_lowercase();
    text.chars().take(KEY_CHARACTERS).collect::<String>().trim_end().to_owned()
}

/// A subject without the marks of answers and of forwarding, however many there are.
fn without_reply_marks(subject: &str) -> &str {
    let mut subject = subject.trim_start();
    loop {
        let Some((mark, rest)) = subject.split_once(':') else { return subject };
        let is_mark =
            ["re", "fwd", "fw"].iter().any(|known| mark.trim().eq_ignore_ascii_case(known));
        if !is_mark {
            return subject;
        }
        subject = rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_sorted_without_marks_and_case() {
        let check = |subject, expected| assert_eq!(key(without_reply_marks(subject)), expected);
        check("Re: Fwd: RE: Budget", "budget");
        check("re : fw:Budget: part 2", "budget: part 2");
        check("Rest: nothing", "rest: nothing");
        check("Re:", "");
        check("", "");
        check("\u{130}stanbul", "i\u{307}stanbul");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(storable("a\u{e9}b", 2), "a");
        assert_eq!(storable("a\u{e9}b", 3), "a\u{e9}");
        assert_eq!(storable("a\0b", 10), "ab");
        assert_eq!(storable("abc", 0), "");
    }
}
