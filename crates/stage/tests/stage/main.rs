//! What a stage promises, a file for each theme.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod batches;
mod calls;
mod deadlines;
mod disciplines;
mod drain;
mod factories;
mod gate;
mod inline;
mod observation;
mod panics;
mod partitions;
mod pipeline;
mod places;
mod replace;
mod reserve;
mod resize;
mod rig;
mod runtime_shutdown;
mod schedules;
mod sinks;
mod slow_laws;
mod stress;
mod termination;
mod useful_workers;
