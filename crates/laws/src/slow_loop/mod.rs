//! The slow loops: laws that change workers, batches, quality and termination.
//!
//! [`ElasticPool`] is our own, [`Degradation`] the papers'; [`FixedWorkers`] and its like change
//! nothing. Those that are named act as printed ([`Independent`]); [`Composition`] makes
//! laws take turns. A stage carries all its laws as a [`Ruling`].

mod base;
mod composition;
mod degradation;
mod elastic_pool;
mod fixed;
mod idle_workers;
mod independent;
mod ruling;
mod slow_laws;

pub use composition::{Composition, Knobs};
pub(crate) use degradation::DegradationConstants;
pub use degradation::{AdmissionWhenSpent, Degradation};
pub use elastic_pool::ElasticPool;
pub(crate) use elastic_pool::ElasticPoolConstants;
pub use fixed::{DeadlineOnly, FixedBatch, FixedWorkers, FullQuality};
pub(crate) use fixed::{FixedBatchConstants, FixedWorkersConstants};
pub use idle_workers::IdleWorkers;
pub use independent::Independent;
pub use ruling::{Ruling, StageLaws};
pub use slow_laws::SlowLaws;
