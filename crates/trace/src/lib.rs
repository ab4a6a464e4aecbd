//! Traces: all that an admission law was told and all that it decided, recorded
//! while it rules a live stage, to be read back and replayed.
//!
//! A law is a pure function of what it is told, so a trace replayed to the same law
//! gives the same decisions. What differs is either a change of the law or
//! something that it was not told.
//!
//! **Recording never holds up a stage.** [`Traced`] writes each record into a buffer;
//! full buffers go to a thread that writes them to the file, and come back empty.
//! While there is no empty one, records are counted instead of kept, and the count is
//! written as a gap: from there on a replay cannot be exact, and says so. A file
//! that has reached its bound is ended in good order.
//!
//! **Nothing is taken on trust in reading.** Every block carries a checksum that includes
//! those before it; sizes, counts and values are bounded; an error says where in the
//! file it stands.
//!
//! Of a composition, the admission law within is recorded: what the slow laws decide shows
//! in the backlogs that it is told.
//!
//! This crate knows nothing of stages, and does not judge: see `tamarisk_model`'s
//! replay for that.
//!
//! # The format
//! Eight bytes `TAMTRACE` and a byte for the version, [`VERSION`]. Then blocks: length and
//! CRC-32 of the payload (continued from the block before), little-endian, four bytes
//! each, and the payload. The first is the [`Head`]. The others are of records: a byte for
//! what it is and a few bits of it, then variable-length integers, times and backlogs as
//! differences from the record before. The last block says how the trace ended.
//! A decision takes about fifteen bytes.
//!
//! # Examples
//! ```
//! use std::time::Duration;
//! use tamarisk_control::*;
//! use tamarisk_laws::*;
//! use tamarisk_trace::{Event, Reader, Recorder};
//!
//! let path = std::env::temp_dir().join(format!("trace-of-example-{}", std::process::id()));
//! let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
//! let recorder = Recorder::create(&path, Recorder::BYTES_MAX)?;
//! let mut law = recorder.trace(Box::new(Open), "stage", &classes, &[]);
//!
//! let empty = Backlog {
//!     queued: &[0],
//!     running: &[0],
//!     queued_total: 0,
//!     running_total: 0,
//!     workers: Concurrency::ONE,
//! };
//! let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 7, kind: 0 };
//! law.on_arrival(Timestamp::ZERO, &arrival, &empty);
//! assert_eq!(recorder.finish()?.records, 1);
//!
//! let mut trace = Reader::open(&path)?;
//! let first = trace.next()?.expect("one event was recorded");
//! assert_eq!(first.event, Event::Arrival { arrival, decision: Decision::Admit });
//! assert!(trace.next()?.is_none());
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules, in reading order
//! `record`: what a trace is made of. `traced`: the law that is listened to. `recorder`,
//! `pen`: how records come into a file. `reader`: how they come out. `wire`, `encode`,
//! `decode`: the bytes.

mod decode;
mod encode;
mod pen;
mod reader;
mod record;
mod recorder;
mod traced;
mod wire;

pub use reader::{ReadError, Reader};
pub use record::{Close, End, Event, Head, Record};
pub use recorder::{RecordError, Recorder};
pub use traced::Traced;
pub use wire::VERSION;
