//! The slow loops: laws that change workers, batches, quality and termination.
//!
//! [`PoolSizing`], [`ThroughputBatching`], [`Degradation`] and
//! [`TerminationThreshold`] are the papers'; [`FixedWorkers`] and its like change
//! nothing; [`ElasticPool`] is our own. Those that are named act as printed ([`Independent`]); [`Composition`] makes
//! laws take turns. A stage carries all its laws as a [`Ruling`].

mod base;
mod batching;
mod composition;
mod degradation;
mod elastic_pool;
mod fixed;
mod idle_workers;
mod independent;
mod pool_sizing;
mod ruling;
mod slow_laws;
mod termination_threshold;
mod throughput;

pub use batching::ThroughputBatching;
pub(crate) use batching::ThroughputBatchingConstants;
pub use composition::{Composition, Knobs};
pub(crate) use degradation::DegradationConstants;
pub use degradation::{AdmissionWhenSpent, Degradation};
pub use elastic_pool::ElasticPool;
pub(crate) use elastic_pool::ElasticPoolConstants;
pub use fixed::{DeadlineOnly, FixedBatch, FixedWorkers, FullQuality};
pub(crate) use fixed::{FixedBatchConstants, FixedWorkersConstants};
pub use independent::Independent;
pub use pool_sizing::PoolSizing;
pub(crate) use pool_sizing::PoolSizingConstants;
pub use ruling::{Ruling, StageLaws};
pub use slow_laws::SlowLaws;
pub(crate) use termination_threshold::TerminationThresholdConstants;
pub use termination_threshold::{
    InvalidTerminationThreshold, TerminationThreshold, TerminationThresholdBuilder,
};
