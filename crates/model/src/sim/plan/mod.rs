//! What is stated: a scenario, and the same with its names resolved.

pub(in crate::sim) mod distribution;
pub(in crate::sim) mod invalid;
pub(in crate::sim) mod profile;
pub(in crate::sim) mod random;
pub(in crate::sim) mod resolved;
pub(in crate::sim) mod scenario;
pub(in crate::sim) mod speed;
