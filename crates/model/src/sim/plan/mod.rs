//! The plan of a simulation: a scenario, and the same with its names resolved.
//!
//! # Modules, in reading order
//! `scenario` and its parts: `stage`, `resource`, `client`. What these state of times and rates:
//! `distribution`, `profile`, `speed`, `intervals`. `resolved`, `invalid`: whether all this can be
//! simulated. `random`, `time`: what random numbers and time are.

pub(in crate::sim) mod client;
pub(in crate::sim) mod distribution;
pub(in crate::sim) mod intervals;
pub(in crate::sim) mod invalid;
pub(in crate::sim) mod profile;
pub(in crate::sim) mod random;
pub(in crate::sim) mod resolved;
pub(in crate::sim) mod resource;
pub(in crate::sim) mod scenario;
pub(in crate::sim) mod speed;
pub(in crate::sim) mod stage;
pub(in crate::sim) mod time;
