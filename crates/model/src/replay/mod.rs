//! Replay of recorded traces: `replay` checks that a law decides as it did live, `Workload` offers
//! the recorded arrivals to any law in a simulated stage.
//!
//! The two are different questions. In a replay the law is told exactly what it was told,
//! so that what it answers has no effect, and every answer can be compared. In a
//! simulation the law's answers shape what comes after them; there only what came from
//! outside is the recorded one: when requests arrived, of which class and whose they
//! were, and how long those took that were served.
//!
//! # Modules, in reading order
//! `check`: the same law. `workload`: another one.

mod check;
mod workload;

pub use check::{Difference, Gap, Replay, UnknownLaw, law_of, replay};
pub use workload::{ARRIVALS_MAX, NothingServed, Workload, WorkloadError};
