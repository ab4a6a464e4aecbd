//! Every integration test of the crate, in one binary: linking one for each file takes minutes.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod browser;
mod collections;
mod hostile_html;
mod hostile_mail;
mod import;
mod mail;
mod store;
mod support;
mod web;
