//! The HTTP front of Tamarisk: a strict server, a proxy under overload control, and
//! a layer that puts any tower service behind a gate.
//!
//! What this crate does not do: it decides nothing about admission (that is the laws'
//! business, in `tamarisk-control`, applied by the gates of `tamarisk-stage`), it knows
//! no service, and it speaks no HTTP/3.
//!
//! The way of a request through [`protect`]:
//!
//! ```text
//! socket ─ guard ─ hyper ─ classify ─ gate ─ line ─ upstream
//!          strict  parse    route,    law,   one connection,
//!          framing          class     queue  one pass
//! ```
//!
//! Start reading at [`protect`], which puts the parts together; then
//! [`server`], [`tls`] and [`guard`] for the way in, [`classify`] for what a request is, and
//! [`proxy`] for the way out. [`config`] makes the options of a file, [`status`] shows
//! what goes on. [`StageLayer`] is for services written in Rust, and needs none of the others.
//!
//! # Examples
//!
//! A service on port 3000, whose clients are promised that nine of ten answers come
//! within 200 ms:
//!
//! ```no_run
//! use std::time::Duration;
//! use tamarisk_control::Target;
//! use tamarisk_http::protect::{self, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::p90(Duration::from_millis(200))?;
//! let options =
//!     Options::single("127.0.0.1:8080".parse()?, "http://127.0.0.1:3000".parse()?, target);
//! let running = protect::start(options).await?;
//! tokio::signal::ctrl_c().await?;
//! running.shutdown(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```

mod deadline;
mod error_pages;
mod hold;
mod layer;
mod outlet;
mod refusal;

pub mod access_log;
pub mod classify;
pub mod config;
pub mod date;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod protect;
pub mod proxy;
pub mod server;
pub mod status;
pub mod tls;

pub use error_pages::{ErrorPageError, ErrorPages};
pub use layer::{StageBody, StageLayer, StageService};
pub use refusal::error_page;
