//! Models of a network of stages: closed forms of queueing theory and a discrete-event simulator.
//!
//! Two ways to know. In closed form [Welsh02 ch. 4]: given how fast stages are, how
//! many workers they have and how events go through them, how long events take,
//! which stage is the bottleneck and at which rate it gives way; what is unstable
//! is answered as [`Unstable`](queueing::Unstable), never as a number. And by
//! discrete events: the simulator drives the laws of `tamarisk-control` with exactly
//! what the live runtime tells them.
//!
//! # Example
//! How many workers hold the p90 below 200 ms at 500 events a second, if one
//! event takes 50 ms?
//! ```
//! use std::time::Duration;
//! use tamarisk_control::{PerSecond, Target};
//! use tamarisk_model::capacity::least_workers;
//!
//! let target = Target::p90(Duration::from_millis(200))?;
//! let workers = least_workers(PerSecond::new(500.0)?, PerSecond::new(20.0)?, target)?;
//! assert_eq!(workers.get(), 26);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules, in reading order
//! - [`queueing`]: one stage: M/M/m, load-dependent centres, service of many steps.
//! - [`network`]: stages and the ways between them, and the design patterns.
//! - [`capacity`]: the questions that operators ask.
//! - [`sim`]: the simulator.
//! - [`replay`]: recorded runs, checked and simulated.
//! - [`scenario`]: both from a TOML file.
//! - [`tune`]: constants of laws by search in the simulator.
//! - [`figures`]: figures of the papers that are solved, as data; [`controller_figures`]: those
//!   that are simulated.

pub mod capacity;
pub mod controller_figures;
pub mod figures;
mod matrix;
pub mod network;
pub mod queueing;
pub mod replay;
pub mod scenario;
mod seconds;
pub mod sim;
pub mod tune;

pub use seconds::Seconds;
