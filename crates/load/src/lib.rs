//! A load generator for HTTP/1.1 services.
//!
//! Two kinds of load, each at a level that a [`Schedule`] steps, spikes and ramps:
//! a [`ClosedLoop`] of users, who wait for an answer before they ask again (or, *partly open*,
//! send another request when it is late), and
//! an [`OpenLoop`], a stream that does not care how the service is doing.
//!
//! **Latencies are honest.** They run from the instant when a request was *due*,
//! not from when the generator got round to sending it: while a server stalls,
//! every request that should have gone out in the meantime is late, and counts
//! as late ("coordinated omission" is the name of the mistake avoided here). How
//! late the generator itself was is reported beside it, so that its own limits
//! are not mistaken for the server's.
//!
//! Users of a closed loop ask for URLs, or are state machines that read each answer and decide what
//! to ask for next: a [`Population`] makes them.
//!
//! What it does not do: TLS, HTTP/2, or following redirects.
//!
//! ```no_run
//! use std::time::Duration;
//! use tamarisk_load::{ClosedLoop, Plan, RetryAfter, Schedule, Spread, Workload};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let crowd = Workload::Closed(ClosedLoop {
//!     users: Schedule::new(3.0, vec!["spike 1000@10s..40s".parse()?], None)?,
//!     think: Duration::from_millis(20),
//!     after_reject: Duration::from_secs(5),
//!     retry_after: RetryAfter::Ignore,
//!     spread: Spread::new(0.5)?,
//!     resend: None,
//! });
//! let plan = Plan::builder(crowd, vec!["http://127.0.0.1:8080/".parse()?])
//!     .target(Duration::from_millis(200))
//!     .build()?;
//! let until_the_end = std::future::pending();
//! let report = tamarisk_load::run(plan, until_the_end, |second| {
//!     println!("{:.0} answers a second", second.rate(second.completed));
//! })
//! .await?;
//! println!("goodput {:.0} a second, p90 {:.3} s", report.total.goodput, report.total.latency.p90);
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: [`schedule`] and [`arrivals`] say when, `workload` and `plan`
//! what, and `population` who decides for itself; `run` starts a `worker` on each thread, whose `closed_loop` or
//! `open_loop` asks over a `connection`: a `request` out, an `answer` in; `recorder` and `tally` count, by `groups` too; `report`
//! sums up. The schedule, the arrivals, the recorder and [`fairness_index`] are
//! pure: they are told the time.

mod answer;
pub mod arrivals;
mod connection;
mod descriptors;
mod fairness;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod groups;
mod outcome;
mod plan;
mod population;
mod recorder;
mod report;
mod request;
mod run;
pub mod schedule;
mod tally;
mod url;
mod worker;
mod workload;

pub use arrivals::Spacing;
pub use descriptors::TooFewDescriptors;
pub use fairness::fairness_index;
pub use plan::{InvalidPlan, Plan, PlanBuilder};
pub use population::{EmulatedUser, Population, RequestType, UserRequest};
pub use report::{
    ClassInterval, GroupSummary, Interval, Percentiles, PhaseSummary, Report, Summary,
};
pub use run::{RunError, run};
pub use schedule::{Change, Schedule};
pub use url::{InvalidUrl, WeightedUrl};
pub use workload::{ClosedLoop, InvalidSpread, OpenLoop, RetryAfter, Spread, Workload};
