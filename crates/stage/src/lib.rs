//! Stages: services as parts that know their load.
//!
//! A stage is a boundary of control: it has a name, a queue, an admission law,
//! accounts in which every event has exactly one outcome, and a handler that sees
//! none of this. Where the handler runs is chosen when the stage is built:
//!
//! | runs | for | made by |
//! | --- | --- | --- |
//! | `inline` | short steps that do not wait | [`StageBuilder::inline`] |
//! | `gate` | async work run by its own caller under a permit | [`StageBuilder::gate`] |
//! | `tasks` | event-driven workers on the async runtime | [`StageBuilder::tasks`] |
//! | `threads` | blocking or CPU-bound work | [`StageBuilder::threads`] |
//!
//! What this crate does not do: it knows no protocol and no service, and it makes no
//! decisions: laws do, of which `tamarisk-control` has the traits.
//!
//! # Examples
//! ```
//! use tamarisk_stage::{Context, Request, StageBuilder, stage_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let square = StageBuilder::new("square").workers(2).tasks(stage_fn(
//!     |request: Request<u64, u64>, _cx: Context| async move {
//!         let _ = request.reply.send(request.body * request.body);
//!         Ok(())
//!     },
//! ))?;
//! assert_eq!(square.sink().call(12).await?, 144);
//!
//! let accounts = square.observe().total();
//! assert_eq!(accounts.completed, 1);
//! assert!(accounts.balance());
//! # Ok(())
//! # }
//! ```

// A stage in each of its forms, and a graph of them.
mod any_stage;
mod build_error;
mod builder;
mod drain;
mod gate;
mod graph;
mod inline;
mod pool;
mod stage;

// What users' code meets: the ways in, calls, handlers.
mod call;
mod entry;
mod handler;
mod sink;

// What is behind the ways in.
mod core;
mod queue;
mod termination;
mod worker;
mod workers;

// What a stage shows, and what a service signals.
mod observe;
pub mod pressure;
mod signal;

// Time, the system, panics and atomics, on which the others stand.
mod clock;
mod panics;
mod sync;
mod system;
mod timer;

pub use any_stage::AnyStage;
pub use build_error::BuildError;
pub use builder::{StageBuilder, StageClasses};
pub use call::{BoxError, CallError, Failure, Reply, Request};
pub use clock::Clock;
pub use entry::Entry;
pub use gate::{EnterError, Gate, GatePermit, RunError};
pub use graph::{EdgeObservation, GlobalObservation, Graph, GraphError, GraphObservation, Node};
pub use handler::{
    Batch, BlockingHandler, Context, Handler, Shield, StageFn, TestContext, blocking_fn, stage_fn,
};
pub use inline::{Inline, InlineError};
pub use observe::{
    Accounts, ClassObservation, DrainReport, LawObservation, LawReading, Outcome, Percentiles,
    Phase, Profile, SenderObservation, ServiceProfile, StageObservation, TimeHistogram,
};
pub use queue::Discipline;
pub use signal::{Level, Pressure, Signal, Signals};
pub use sink::{AdmissionContext, Envelope, Permit, Predicate, Reserve, SendError, Sink, TrySink};
pub use stage::{ReplaceError, Stage};
pub use termination::{EventId, Terminated};
pub use timer::{NoTimer, Timer, TimerError, Timers};
pub use worker::Running;
