//! What a client may send and how long it may take over it, and what heads of HTTP/2 may say.
//!
//! HTTP/1 is read by [`tamarisk_h1`], as strictly as a proxy must. HTTP/2 needs no such reader: its
//! frames say how long they are. Of its heads is asked what is asked of those of HTTP/1.

mod head_http2;
mod limits;

pub(crate) use head_http2::check_head;
pub use limits::Limits;

pub use tamarisk_h1::Violation;
