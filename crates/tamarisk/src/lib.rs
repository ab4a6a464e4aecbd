//! Services that stay well-conditioned to load: offered far more work than they
//! can do, they keep their throughput, keep the response times that they promise,
//! and tell the rest of their clients so at once.
//!
//! State a target; everything else is found by control.
//!
//! ```
//! use std::time::Duration;
//! use tamarisk::{Context, Request, StageBuilder, Target, stage_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let thumbnails = StageBuilder::new("thumbnails")
//!     .target(Target::p90(Duration::from_millis(200))?)
//!     .workers(2)
//!     .tasks(stage_fn(|request: Request<u32, u32>, _cx: Context| async move {
//!         let _ = request.reply.send(request.body / 8);
//!         Ok(())
//!     }))?;
//!
//! assert_eq!(thumbnails.sink().call(1024).await?, 128);
//! # Ok(())
//! # }
//! ```
//!
//! - Stages, sinks, gates, graphs: everything of `tamarisk-stage` is here at the root.
//! - Targets, classes and laws: the ones that describe a stage are at the root, all of
//!   them in [`control`].
//! - To put a tower service (axum, tonic, hyper) behind a stage in one line: [`tower`].
//!
//! What this crate does not do: it has no code of its own.

pub use tamarisk_control as control;
pub use tamarisk_control::{Class, ClassId, Classes, Priority, Target};
pub use tamarisk_stage::*;
#[cfg(feature = "tower")]
pub use tamarisk_tower as tower;
