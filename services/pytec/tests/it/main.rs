//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod compiler;
mod fairness;
mod language;
mod processes;
mod site;
mod support;
