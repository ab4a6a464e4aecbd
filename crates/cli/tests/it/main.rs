//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod certificates;
mod check;
#[cfg(all(feature = "png", feature = "services"))]
mod command_line;
mod conformance;
mod handover;
mod live;
#[cfg(feature = "services")]
mod mail;
mod memory_of_clients;
mod messages;
#[cfg(feature = "services")]
mod pytec;
#[cfg(all(feature = "png", feature = "services"))]
mod readme;
mod real_traffic;
mod reload;
mod reload_serve;
mod serve;
mod simulation;
mod slow_clients;
mod start;
mod support;
mod threads;
mod tuning;
