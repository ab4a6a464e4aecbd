//! What a network of stages will do, before it runs.
//!
//! - [`sim`]: a discrete-event simulator that drives the laws of `tamarisk-control`
//!   with exactly what the live runtime tells them.

pub mod sim;
