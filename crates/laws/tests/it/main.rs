//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod clients;
mod every_ability;
mod predict_gate_trim;
mod together;
mod work_limit;
mod work_limit_streams;
mod wrapped;
