//! The papers' slow loops: workers by [`PoolSizing`], batches by [`ThroughputBatching`], and the
//! [`TerminationThreshold`] of SERT06.

mod batching;
mod pool_sizing;
mod termination_threshold;
mod throughput;

pub use batching::ThroughputBatching;
pub(crate) use batching::ThroughputBatchingConstants;
pub use pool_sizing::PoolSizing;
pub(crate) use pool_sizing::PoolSizingConstants;
pub(crate) use termination_threshold::TerminationThresholdConstants;
pub use termination_threshold::{
    InvalidTerminationThreshold, TerminationThreshold, TerminationThresholdBuilder,
};
