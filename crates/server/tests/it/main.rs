//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod any_stream;
mod crowd;
mod header_blocks;
mod responses;
mod server;
mod server_name;
mod support;
mod waiting;
