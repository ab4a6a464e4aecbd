//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod any_activity;
mod any_observations;
mod new_targets;
mod operating_manual;
