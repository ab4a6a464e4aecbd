//! Where messages lie.

/// A folder, as the database numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderId(pub i64);

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FolderKind {
    /// New mail. There is one, and it cannot be deleted.
    Inbox,
    /// What the user has sent. There is one, and it cannot be deleted.
    Sent,
    /// What the user has deleted; deleted from here, it is gone. There is one, and it cannot be
    /// deleted.
    Trash,
    /// Made by the user.
    Other,
}

/// A folder of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its number.
    pub id: FolderId,
    /// What it is for.
    pub kind: FolderKind,
    /// What the user sees.
    pub name: String,
    /// How many messages lie in it.
    pub messages: u64,
    /// How many of them have not been read.
    pub unread: u64,
}
