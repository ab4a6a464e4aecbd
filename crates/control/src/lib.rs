//! The control laws of Tamarisk.
//!
//! A law is a small state machine: observations and an instant in, a decision
//! out. This crate has no clock, thread, lock, socket, log or randomness; the
//! same types drive the live runtime and the simulator.

mod admission;
mod class;
mod opaque_upstream;
mod predict_gate_trim;
mod recent_samples;
mod timestamp;
mod token_bucket;
mod units;

pub use admission::{
    AdmissionLaw, Arrival, Backlog, Decision, Dequeue, Ending, Finished, Order, Reading, Reason,
    Rejection, Waiting,
};
pub use class::{
    CLASSES_MAX, Class, ClassId, Classes, InvalidClasses, InvalidTarget, Priority, Target,
};
pub use opaque_upstream::{InvalidOpaqueUpstream, OpaqueUpstream, OpaqueUpstreamBuilder};
pub use predict_gate_trim::{InvalidPredictGateTrim, PredictGateTrim, PredictGateTrimBuilder};
pub use timestamp::Timestamp;
pub use token_bucket::TokenBucket;
pub use units::{Concurrency, OutOfRange, PerSecond, Ratio};
