//! The frames of an HTTP/2 connection, between its socket and h2.

mod frame_budget;
mod frame_head;
pub(crate) mod header_blocks;
pub(crate) mod sent_frames;
