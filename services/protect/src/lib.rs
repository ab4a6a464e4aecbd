//! A service under overload control: the server, the gates and the proxy put together.
//!
//! What this crate does not do: it decides nothing about admission (that is the laws' business, in
//! `tamarisk-control`, applied by the gates of `tamarisk-stage`), and it speaks no HTTP/3.
//!
//! The way of a request:
//!
//! ```text
//! socket ─ h1 ─────── classify ─ gate ─ connection ─ upstream
//!          strict     route,    law,   pooled,
//!          reading    class     queue  head in one pass
//! ```
//!
//! Start reading at [`start`], which puts the parts together; then [`tamarisk_server`] for the way
//! in, [`tamarisk_proxy::classify`] for what a request is, and [`tamarisk_proxy`] for the way out.
//! [`config`] makes the options of a file.
//!
//! # Examples
//!
//! A service on port 3000, whose clients are promised that nine of ten answers come
//! within 200 ms:
//!
//! ```no_run
//! use std::time::Duration;
//! use tamarisk_control::Target;
//! use tamarisk_protect::Options;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::p90(Duration::from_millis(200))?;
//! let options =
//!     Options::single("127.0.0.1:8080".parse()?, "http://127.0.0.1:3000".parse()?, target);
//! let running = tamarisk_protect::start(options).await?;
//! tokio::signal::ctrl_c().await?;
//! running.shutdown(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```

pub mod config;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod options;
mod reload;
mod running;

pub use options::Options;
pub use running::{Running, StartError, check, start, start_on};
