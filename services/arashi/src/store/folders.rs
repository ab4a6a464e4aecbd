//! Calls about folders.

use super::connection::{Fault, Value};
use super::store::{Statements, Store};
use super::{Folder, FolderId, FolderKind, Invalid, StoreError, UserId, Work};

const FOLDERS_PER_USER: u64 = 200;
const LONGEST_NAME_CHARACTERS: usize = 100;

impl Store {
    /// The user's folders: Inbox, Sent, Trash, then the user's own by name.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn folders(&mut self, work: &dyn Work, user: UserId) -> Result<Vec<Folder>, StoreError> {
        self.read(work, |statements| {
            let sql = "SELECT id, kind, name, message_count, unread_count FROM folders \
                       WHERE user_id = ? ORDER BY kind, name";
            let rows = statements.query(sql, &[Value::Integer(user.0)])?;
            let folder = |mut row: super::connection::Row| {
                Ok(Folder {
                    id: FolderId(row.integer()?),
                    kind: FolderKind::numbered(row.integer()?)?,
                    name: row.text()?,
                    messages: row.count()?,
                    unread: row.count()?,
                })
            };
            rows.into_iter().map(folder).collect()
        })
    }

    /// Makes a folder of the user's own.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the name cannot be used or is taken, or there are too many.
    pub fn create_folder(
        &mut self,
        work: &dyn Work,
        user: UserId,
        name: &str,
    ) -> Result<FolderId, StoreError> {
        let name = name.trim();
        let is_valid = (1..=LONGEST_NAME_CHARACTERS).contains(&name.chars().count())
            && !name.chars().any(char::is_control);
        if !is_valid {
            return Err(Invalid::FolderName.into());
        }
        self.change(work, Some(user), |statements| {
            let sql = "SELECT COUNT(*) FROM folders WHERE user_id = ?";
            let count = statements.one(sql, &[Value::Integer(user.0)])?.count()?;
            if count >= FOLDERS_PER_USER {
                return Err(Invalid::TooManyFolders.into());
            }
            insert(statements, user, FolderKind::Other, name)
        })
    }

    /// Deletes a folder of the user's own; its messages go to Trash.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or [`StoreError::Invalid`] for Inbox, Sent and Trash.
    pub fn delete_folder(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: FolderId,
    ) -> Result<(), StoreError> {
        self.change(work, Some(user), |statements| {
            if kind(statements, user, folder)? != FolderKind::Other {
                return Err(Invalid::FixedFolder.into());
            }
            let trash = only(statements, user, FolderKind::Trash)?;
            let sql =
                "SELECT message_count, unread_count FROM folders WHERE user_id = ? AND id = ?";
            let mut row = statements.one(sql, &[user.0, folder.0].map(Value::Integer))?;
            add_counts(statements, user, trash, row.integer()?, row.integer()?)?;
            let sql = "UPDATE messages SET folder_id = ? WHERE user_id = ? AND folder_id = ?";
            statements.execute(sql, &[trash.0, user.0, folder.0].map(Value::Integer))?;
            let sql = "DELETE FROM folders WHERE user_id = ? AND id = ?";
            statements.execute(sql, &[user.0, folder.0].map(Value::Integer)).map(drop)
        })
    }
}

pub(super) fn insert(
    statements: &mut Statements<'_>,
    user: UserId,
    kind: FolderKind,
    name: &str,
) -> Result<FolderId, Fault> {
    let sql = "INSERT INTO folders (user_id, kind, name, message_count, unread_count) \
               VALUES (?, ?, ?, 0, 0)";
    let values = [Value::Integer(user.0), Value::Integer(kind.number()), Value::Text(name)];
    statements.insert(sql, &values).map(FolderId).map_err(|fault| match fault {
        Fault::Duplicate => Invalid::FolderNameTaken.into(),
        other => other,
    })
}

/// What the user's folder is for.
pub(super) fn kind(
    statements: &mut Statements<'_>,
    user: UserId,
    folder: FolderId,
) -> Result<FolderKind, Fault> {
    let sql = "SELECT kind FROM folders WHERE user_id = ? AND id = ?";
    let mut row = statements.one(sql, &[user.0, folder.0].map(Value::Integer))?;
    FolderKind::numbered(row.integer()?)
}

/// The user's folder of a kind of which each user has one.
pub(super) fn only(
    statements: &mut Statements<'_>,
    user: UserId,
    kind: FolderKind,
) -> Result<FolderId, Fault> {
    let sql = "SELECT id FROM folders WHERE user_id = ? AND kind = ?";
    let values = [user.0, kind.number()].map(Value::Integer);
    Ok(FolderId(statements.one(sql, &values)?.integer()?))
}

/// Keeps the counts of a folder true: they are kept because counting takes as long as the folder
/// is large.
pub(super) fn add_counts(
    statements: &mut Statements<'_>,
    user: UserId,
    folder: FolderId,
    messages: i64,
    unread: i64,
) -> Result<(), Fault> {
    let sql = "UPDATE folders SET message_count = message_count + ?, \
               unread_count = unread_count + ? WHERE user_id = ? AND id = ?";
    let values = [messages, unread, user.0, folder.0].map(Value::Integer);
    statements.execute(sql, &values).map(drop)
}

impl FolderKind {
    fn number(self) -> i64 {
        match self {
            Self::Inbox => 0,
            Self::Sent => 1,
            Self::Trash => 2,
            Self::Other => 3,
        }
    }

    fn numbered(number: i64) -> Result<Self, Fault> {
        match number {
            0 => Ok(Self::Inbox),
            1 => Ok(Self::Sent),
            2 => Ok(Self::Trash),
            3 => Ok(Self::Other),
            other => Err(Fault::Failed(format!("unknown kind {other} of a folder"))),
        }
    }
}
