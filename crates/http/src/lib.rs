//! The HTTP front of Tamarisk.

pub mod guard;
pub mod server;
