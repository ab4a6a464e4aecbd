//! Arashi over HTTP, on SQLite.

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod served;

mod tour;
