//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod access_log;
mod accounts;
mod config;
mod error_pages;
mod forwarding;
mod http2;
mod live_changes;
mod loops;
mod overflow;
mod places;
mod real_servers;
mod rejected_input;
mod request_bodies;
mod status;
mod support;
mod synchronous_upstream;
mod upstream_connections;
