//! Arashi over HTTP: what a user does on each kind of database, the rest on SQLite.

#![allow(clippy::unwrap_used, reason = "in a test, what does not hold should fail loudly")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "the tests of the store need more of it")]
mod support;

mod browser;
mod served;

mod digest;
mod foreign;
mod forged;
mod injection;
mod locked;
mod long_mail;
mod outage;
mod overload;
mod tour;
