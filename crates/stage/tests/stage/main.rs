//! What a stage promises, a file for each theme.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod calls;
mod drain;
mod gates;
mod inline;
mod observation;
mod panics;
mod pipeline;
mod processors;
mod queues;
mod rig;
mod runtime_shutdown;
mod schedules;
mod slow_laws;
mod stress;
mod termination;
mod workers;
