//! Calls about messages, one or many: shown, moved, deleted.

use std::time::Duration;

use super::connection::{Fault, Value};
use super::folders;
use super::lists::{SUMMARY, summary};
use super::store::{Statements, Store};
use super::{FolderId, FolderKind, Invalid, MessageId, StoreError, StoredMessage, UserId, Work};

/// How many messages one call moves or deletes.
const MESSAGES_PER_CALL: usize = 1000;
/// For how long a message that can be shown waits to be marked as read.
const MARK_LIMIT: Duration = Duration::from_secs(1);
/// How many ids a statement names; what is left over is filled with the last, so that there are
/// few different statements.
const IDS_PER_STATEMENT: [usize; 3] = [1, 8, 64];

impl Store {
    /// A message as it came; from now on it has been read. It stays unread if another transaction
    /// keeps the database locked for more than a second, or if the database cannot write.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user has no such message.
    pub fn message(
        &mut self,
        work: &dyn Work,
        user: UserId,
        message: MessageId,
    ) -> Result<StoredMessage, StoreError> {
        let mut stored = self.read(work, |statements| {
            let sql = format!(
                "SELECT {SUMMARY}, m.snippet, b.content FROM messages m \
                 JOIN message_bodies b ON b.message_id = m.id WHERE m.user_id = ? AND m.id = ?"
            );
            let mut row = statements.one(&sql, &[user.0, message.0].map(Value::Integer))?;
            Ok(StoredMessage { summary: summary(&mut row)?, raw: row.bytes()? })
        })?;
        if std::mem::take(&mut stored.summary.is_unread) {
            self.change_within(MARK_LIMIT, work, Some(user), |statements| {
                mark_read(statements, user, message)
            })?;
        }
        Ok(stored)
    }

    /// Moves messages to a folder, and returns how many lie there then: those that the user does not
    /// have are not counted.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user has no such folder; [`StoreError::Invalid`] for more
    /// than 1000 messages.
    pub fn refile(
        &mut self,
        work: &dyn Work,
        user: UserId,
        messages: &[MessageId],
        to: FolderId,
    ) -> Result<u64, StoreError> {
        let messages = distinct(messages)?;
        self.change(work, Some(user), |statements| {
            folders::kind(statements, user, to)?;
            move_all(statements, user, &messages, to)
        })
    }

    /// Moves messages to Trash, and returns how many lie there then.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for more than 1000 messages.
    pub fn move_to_trash(
        &mut self,
        work: &dyn Work,
        user: UserId,
        messages: &[MessageId],
    ) -> Result<u64, StoreError> {
        self.with_trash(work, user, messages, move_all)
    }

    /// Deletes those of the messages that lie in Trash, for good, and returns how many.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for more than 1000 messages.
    pub fn delete_from_trash(
        &mut self,
        work: &dyn Work,
        user: UserId,
        messages: &[MessageId],
    ) -> Result<u64, StoreError> {
        self.with_trash(work, user, messages, delete_all)
    }

    fn with_trash(
        &mut self,
        work: &dyn Work,
        user: UserId,
        messages: &[MessageId],
        call: fn(&mut Statements<'_>, UserId, &[MessageId], FolderId) -> Result<u64, Fault>,
    ) -> Result<u64, StoreError> {
        let messages = distinct(messages)?;
        self.change(work, Some(user), |statements| {
            let trash = folders::only(statements, user, FolderKind::Trash)?;
            call(statements, user, &messages, trash)
        })
    }
}

fn distinct(messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
    if messages.len() > MESSAGES_PER_CALL {
        return Err(Invalid::TooManyMessages.into());
    }
    let mut distinct = messages.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    Ok(distinct)
}

fn mark_read(
    statements: &mut Statements<'_>,
    user: UserId,
    message: MessageId,
) -> Result<(), Fault> {
    let sql = "SELECT folder_id FROM messages WHERE user_id = ? AND id = ? AND is_unread = 1";
    let values = [user.0, message.0].map(Value::Integer);
    let Some(mut row) = statements.row(sql, &values)? else { return Ok(()) };
    folders::add_counts(statements, user, FolderId(row.integer()?), 0, -1)?;
    let sql = "UPDATE messages SET is_unread = 0 WHERE user_id = ? AND id = ?";
    statements.execute(sql, &values).map(drop)
}

/// Moves those of `messages` that lie in other folders.
fn move_all(
    statements: &mut Statements<'_>,
    user: UserId,
    messages: &[MessageId],
    to: FolderId,
) -> Result<u64, Fault> {
    let mut moved = 0;
    for ids in Ids::of(messages) {
        let condition = format!("+user_id = ? AND id IN ({})", ids.places());
        let values = ids.after(&[user.0]);
        let (count, unread) = take_counts(statements, user, &condition, &values)?;
        let sql = format!("UPDATE messages SET folder_id = ? WHERE {condition}");
        statements.execute(&sql, &ids.after(&[to.0, user.0]))?;
        folders::add_counts(statements, user, to, count, unread)?;
        moved += count;
    }
    Ok(moved.max(0) as u64)
}

/// Deletes those of `messages` that lie in Trash.
fn delete_all(
    statements: &mut Statements<'_>,
    user: UserId,
    messages: &[MessageId],
    trash: FolderId,
) -> Result<u64, Fault> {
    let mut deleted = 0;
    for ids in Ids::of(messages) {
        let condition = format!("+user_id = ? AND folder_id = ? AND id IN ({})", ids.places());
        let values = ids.after(&[user.0, trash.0]);
        take_counts(statements, user, &condition, &values)?;
        deleted +=
            statements.execute(&format!("DELETE FROM messages WHERE {condition}"), &values)?;
    }
    Ok(deleted)
}

/// Takes the messages for which `condition` holds off the counts of their folders, and returns how
/// many they are and how many of them have not been read.
fn take_counts(
    statements: &mut Statements<'_>,
    user: UserId,
    condition: &str,
    values: &[Value<'_>],
) -> Result<(i64, i64), Fault> {
    let sql = format!(
        "SELECT folder_id, COUNT(*), COUNT(CASE WHEN is_unread = 1 THEN 1 END) FROM messages \
         WHERE {condition} GROUP BY folder_id"
    );
    let mut sum = (0, 0);
    for mut row in statements.query(&sql, values)? {
        let folder = FolderId(row.integer()?);
        let (count, unread) = (row.integer()?, row.integer()?);
        folders::add_counts(statements, user, folder, -count, -unread)?;
        sum = (sum.0 + count, sum.1 + unread);
    }
    Ok(sum)
}

/// Ids of messages for one statement. They are looked up one by one: `+user_id` keeps SQLite from
/// reading an index of all the user's messages instead.
struct Ids(Vec<i64>);

impl Ids {
    fn of(messages: &[MessageId]) -> impl Iterator<Item = Self> {
        let [.., longest] = IDS_PER_STATEMENT;
        messages.chunks(longest).map(move |chunk| {
            let fits = |&length: &usize| length >= chunk.len();
            let length = IDS_PER_STATEMENT.into_iter().find(fits).unwrap_or(longest);
            let mut ids: Vec<i64> = chunk.iter().map(|message| message.0).collect();
            let last = ids.last().copied().unwrap_or_default();
            ids.resize(length, last);
            Self(ids)
        })
    }

    fn places(&self) -> String {
        vec!["?"; self.0.len()].join(", ")
    }

    fn after(&self, values: &[i64]) -> Vec<Value<'static>> {
        values.iter().chain(&self.0).copied().map(Value::Integer).collect()
    }
}
