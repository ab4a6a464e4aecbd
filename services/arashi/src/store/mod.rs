//! What is kept: accounts, sessions, folders and messages, in one of three databases.
//!
//! A [`Database`] says where; a [`Store`] is a connection to it, and its methods are the calls: each
//! takes the [`Work`] it is for, by which it is terminated, and the user, of whom alone it knows.
//! Statements are written once, in what SQLite, PostgreSQL and MariaDB have in common.

mod account;
mod accounts;
mod connection;
mod database;
mod delivery;
mod device_key;
mod driver;
mod error;
mod folder;
mod folders;
mod lists;
mod message;
mod messages;
mod password;
mod schema;
mod session;
#[expect(clippy::module_inception, reason = "the file of the type `Store`")]
mod store;
mod verified;
mod work;

pub use account::{Account, AccountClass, UserId};
pub use database::{Database, InvalidUrl};
pub(crate) use device_key::DeviceKey;
pub use error::{Invalid, StoreError};
pub use folder::{Folder, FolderId, FolderKind};
pub use message::{
    Listing, MESSAGE_BYTES_MAX, MessageId, NewMessage, Order, SortBy, StoredMessage, Summary,
};
pub use session::{InvalidSessionKey, Session, SessionKey};
pub use store::Store;
pub use work::{IsEnded, Untimed, Work};
