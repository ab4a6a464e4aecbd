//! The access log: a line for each request, written by a thread of its own.
//!
//! A request never waits for the disk. Lines that have not been written yet are bounded in
//! bytes; when a disk or a reader of a pipe cannot follow, further ones are lost, counted, and
//! the log itself says how many as soon as it goes on.

mod admission;
mod body;
mod line;
mod log;
mod options;
mod value;
mod writer;

pub use self::admission::{Admission, Names};
pub use self::body::{BreaksOff, Logged};
pub use self::line::Asked;
pub use self::log::{Entry, Log};
pub use self::options::{LogError, LogFormat, LogOptions, LogTarget};
