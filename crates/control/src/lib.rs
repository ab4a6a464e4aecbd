//! The vocabulary of control: what a law is told, and what it answers.
//!
//! A law is a small state machine: observations and an instant in, a decision out. The
//! laws themselves are in `tamarisk-laws`; whoever writes one of their own needs this
//! crate alone. It has no clock, thread, lock, socket, log or randomness, and keeps no
//! accounts: who is queued and who runs is told to a law, by whoever knows.
//!
//! # Example
//! A law that lets in as many as three times the workers:
//! ```
//! use tamarisk_control::*;
//!
//! struct ThreeEach;
//!
//! impl AdmissionLaw for ThreeEach {
//!     fn name(&self) -> &'static str {
//!         "three-each"
//!     }
//!
//!     fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
//!         if backlog.queued_total + backlog.running_total < 3 * backlog.workers.get() {
//!             Decision::Admit
//!         } else {
//!             Decision::Reject(Rejection::new(Reason::ConcurrencyLimit))
//!         }
//!     }
//! }
//! ```
//!
//! # Modules, in reading order
//! - `timestamp`, `units`, `duration`, `percentile`, `class`: what numbers mean here.
//! - `admission`: what admission laws implement: [`AdmissionLaw`], and for those that decide
//!   more, [`BatchDecisions`], [`PlaceLimits`] and [`QueueOrder`].
//! - `slow_loop`: the same for workers, batches, quality and termination, asked once a tick.
//! - `resources`: what a guard of resources is told.
//! - [`global`]: the same for a law over a graph of stages.

mod admission;
mod class;
mod duration;
pub mod global;
mod measured_from;
mod percentile;
mod resources;
mod slow_loop;
mod timestamp;
mod units;

pub use admission::{
    AdmissionLaw, Arrival, Backlog, BatchDecisions, Change, Decision, Dequeue, Ending, Finished,
    Moved, Order, PlaceLimits, QueueOrder, Reading, Reason, Rejection, Together, Waiting,
};
pub use class::{
    CLASSES_MAX, Class, ClassId, Classes, InvalidClasses, InvalidTarget, InvalidWeight, Priority,
    Target, Weight,
};
pub use duration::{InvalidDuration, parse_duration};
pub use global::GlobalLaw;
pub use measured_from::MeasuredFrom;
pub use percentile::Percentile;
pub use resources::Usage;
pub use slow_loop::{Activity, BatchLaw, Leeway, QualityLaw, Strain, TerminationLaw, WorkersLaw};
pub use timestamp::Timestamp;
pub use units::{BatchSize, Concurrency, OutOfRange, PerSecond, Ratio};
