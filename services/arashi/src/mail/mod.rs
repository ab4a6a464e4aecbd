//! Messages: bytes in, safe text, HTML and attachments out; and messages that are composed here.
//!
//! Whatever the bytes are, something is shown: what cannot be parsed is shown as it came, and
//! [`Mail::defects`] says why.

mod attachment;
mod compose;
mod html;
mod new_message;
mod parsed;
mod structure;
mod tags;
mod text;

pub use attachment::{Attachment, AttachmentSummary, attachment};
pub(crate) use compose::SUBJECT_BYTES_MAX;
pub use compose::{Draft, compose};
pub use new_message::{new_message, new_message_and_defects};
pub use parsed::Mail;
pub use text::linkify;
