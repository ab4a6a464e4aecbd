//! Services that stay well-conditioned to load: offered far more work than they
//! can do, they keep their throughput, keep the response times that they promise,
//! and reject the excess immediately.
//!
//! State a target; everything else is found by control.
//!
//! ```
//! use std::time::Duration;
//! use tamarisk::{BoxError, Context, Entry, Stage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // CPU-bound work, on threads. How many are of use is found by control.
//! let resize = Stage::builder("resize")
//!     .classes(["gold", "bronze"])
//!     .blocking_handler(|image: Vec<u8>, _: Context| Ok(image.into_iter().step_by(2).collect()))?;
//!
//! // Work that waits, in tasks, in front of it: two classes, one target.
//! let fetch = Stage::builder("fetch")
//!     .p90(Duration::from_millis(200))
//!     .classes(["gold", "bronze"])
//!     .handler(async move |url: String, cx: Context| {
//!         let image = url.into_bytes();
//!         let small: Vec<u8> = cx.call(&resize, image).await?;
//!         Ok(small.len())
//!     })?;
//!
//! let gold = Entry::new().class(fetch.class("gold").ok_or("no such class")?);
//! assert_eq!(fetch.call_as("http://a.org/b.png".to_owned(), gold).await?, 9);
//! # Ok(())
//! # }
//! ```
//!
//! What is not admitted, in whichever stage, reaches the caller as a [`CallError`] with the
//! stage, the reason and when to retry.
//!
//! - [`Stage`], [`Gate`] and [`Inline`], made by [`StageBuilder`]: where handlers run.
//! - [`Graph`]: stages by name, connected by typed edges; looked up, added, replaced and removed
//!   while they run.
//! - [`control`]: targets, classes, and what a law is. [`laws`]: those that a service has by itself.
//! - `catalogue` (feature `catalogue`): every law by name, those of the documents and of other systems, too.
//! - `tower` (feature `tower`, on by default): a tower service behind a gate, in one line.
//! - `axum` (feature `axum`): routes that stages answer. Feature `status`: a status port. Feature
//!   `http2`: HTTP/2 in clear text.
//! - `model` (feature `model`): what a network of stages will do before it runs, by queueing theory and
//!   by simulation of the laws that rule it.
//!
//! `docs/GUIDE.md` goes from nothing to a service of three stages.
//!
//! What this crate does not do: it has no code of its own.

pub use tamarisk_control as control;
pub use tamarisk_control::{
    AdmissionLaw, BatchLaw, Class, ClassId, Classes, Concurrency, Priority, QualityLaw, Ratio,
    Reason, Rejection, Target, TerminationLaw, Timestamp, Weight, WorkersLaw,
};
pub use tamarisk_laws as laws;
pub use tamarisk_laws::ResourceBounds;
pub use tamarisk_stage::pressure;
pub use tamarisk_stage::{
    Accounts, AdmissionContext, AnyStage, Batch, BlockingHandler, BoxError, BuildError, CallError,
    ClassObservation, Clock, Context, Discipline, DrainReport, EdgeObservation, EnterError, Entry,
    Envelope, EventId, Failure, Gate, GatePermit, GlobalObservation, Graph, GraphError,
    GraphObservation, Handler, Inline, InlineError, LawObservation, LawReading, Level, NoTimer,
    Node, Outcome, Percentiles, Permit, Phase, Predicate, Pressure, Profile, ReplaceError, Reply,
    Request, Reserve, RunError, Running, SendError, SenderObservation, ServiceProfile, Shield,
    Signal, Signals, Sink, Stage, StageBuilder, StageClasses, StageFn, StageObservation,
    Terminated, TestContext, TimeHistogram, Timer, TimerError, Timers, TrySink, blocking_fn,
    stage_fn,
};

#[cfg(feature = "axum")]
pub use tamarisk_axum as axum;
#[cfg(feature = "catalogue")]
pub use tamarisk_catalogue as catalogue;
#[cfg(feature = "model")]
pub use tamarisk_model as model;
#[cfg(feature = "tower")]
pub use tamarisk_tower as tower;

#[cfg(all(doctest, feature = "status"))]
#[doc = include_str!("../../../docs/GUIDE.md")]
struct Guide;
