//! The HTTP front of Tamarisk.

pub mod classify;
pub mod config;
mod deadline;
pub mod guard;
mod hold;
mod layer;
pub mod protect;
pub mod proxy;
mod refusal;
pub mod server;
pub mod status;

pub use layer::{StageBody, StageLayer, StageService};
