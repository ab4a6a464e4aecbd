//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod controller_figures;
mod fair07;
mod figures;
mod global;
mod laws;
mod network;
mod papers;
mod properties;
mod published;
mod reference;
mod replay;
mod scenario;
mod sim;
