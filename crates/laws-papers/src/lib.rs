//! The control laws of the documents that Tamarisk implements, each under its name and with its
//! published constants. What of them a service has by itself stands in `tamarisk-laws`.
//!
//! # Modules, in reading order
//! - [`response_time`]: the papers' controller; [`multiclass`]: its form that rejects lower classes first.
//! - [`slow_loop`]: workers, batches and termination, asked once a tick.
//! - [`fair`]: models, pole placement, a dropper, and the laws made of them.
//! - [`entries`]: all of them by name.
//!
//! `docs/LAWS.md` compares them, `docs/DEFAULTS.md` says where their constants come from, and
//! `docs/REFERENCES.md` what the keys in brackets stand for.

pub mod entries;
pub mod fair;
pub mod multiclass;
pub mod response_time;
pub mod slow_loop;

pub use fair::{
    DepartureControl, DepartureRate, GlobalController, InvalidDepartureRate, InvalidSelfTuning,
    SelectiveDropper, SelfTuning, SelfTuningBuilder, ThroughputSharing,
};
pub use multiclass::{InvalidMulticlass, Multiclass, MulticlassBuilder};
pub use response_time::{InvalidResponseTime, ResponseTime, ResponseTimeBuilder};
pub use slow_loop::{
    InvalidTerminationThreshold, PoolSizing, TerminationThreshold, TerminationThresholdBuilder,
    ThroughputBatching,
};
