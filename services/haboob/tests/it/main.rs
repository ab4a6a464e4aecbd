//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod config;
mod open_files;
mod reload;
mod site;
mod stalled_streams;
mod support;
mod tls;
mod whole;
