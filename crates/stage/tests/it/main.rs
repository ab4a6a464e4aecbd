//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod abandoned;
mod calls;
mod departure_rate;
mod drain;
mod gates;
mod graph;
mod inline;
mod named_laws;
mod observation;
mod overdue_threads;
mod panics;
mod pipeline;
mod queues;
mod resources;
mod rig;
mod runtime_shutdown;
mod schedules;
mod shared_throughput;
mod slow_laws;
mod stress;
mod termination;
mod timers;
mod workers;
