//! Mail from files: mbox, Maildir, single messages, and folders of all these; and sample mail
//! drawn by a seed.

mod files;
mod mailbox;
pub(crate) mod mbox;
pub mod sample;

pub use mailbox::{Import, ImportEvent, ImportedMessage};
