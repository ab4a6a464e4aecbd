//! The HTTP front of Tamarisk.

pub mod classify;
mod deadline;
pub mod guard;
pub mod protect;
pub mod proxy;
pub mod server;
