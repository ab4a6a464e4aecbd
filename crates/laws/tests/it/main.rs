//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod any_activity;
mod any_observations;
mod clients;
mod every_ability;
mod fair_figures;
mod fair_step_responses;
mod new_targets;
mod operating_manual;
mod predict_gate_trim;
mod throughput_batching;
mod together;
mod work_limit;
mod work_limit_streams;
mod wrapped;
