//! What is kept: accounts, sessions, folders and messages.

mod account;
mod folder;
mod message;

pub use account::{Account, AccountClass, UserId};
pub use folder::{Folder, FolderId, FolderKind};
pub use message::{
    Listing, MESSAGE_BYTES_MAX, MessageId, NewMessage, Order, SortBy, StoredMessage, Summary,
};
