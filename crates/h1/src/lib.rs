//! HTTP/1.1 without I/O: which bytes may stand where, chunk framing, limits, and what is wrong with
//! a message.
//!
//! What this crate does not do: it has no socket, no clock and no task. Whoever reads and writes
//! tells it what came.

mod chunked;
pub mod grammar;
mod limits;
mod violation;

pub use chunked::{Chunked, Part};
pub use limits::{CHUNK_LINE_MAX, FIELDS_MAX, Limits};
pub use violation::Violation;
