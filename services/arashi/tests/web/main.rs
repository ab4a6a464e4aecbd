//! Arashi over HTTP, on SQLite.

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod served;

mod digest;
mod foreign;
mod forged;
mod injection;
mod outage;
mod overload;
mod tour;
