//! The control laws that a service has by itself: the two defaults, the slow loops, and the plainest
//! to compare with.
//!
//! A law is a small state machine: observations and an instant in, a decision out. What
//! it is told and what it answers stands in `tamarisk-control`. This crate has no clock,
//! thread, lock, socket, log or randomness (the few laws that draw lots do so from a
//! sequence whose seed they are given); the same types drive the live runtime and the
//! simulator, so a law can be proven in virtual time before it meets a request.
//!
//! # Example
//! A stage with two workers, both busy, and more in the queue than can be
//! answered within the target:
//! ```
//! use std::time::Duration;
//! use tamarisk_control::*;
//! use tamarisk_laws::PredictGateTrim;
//!
//! let classes = Classes::single(Target::p90(Duration::from_millis(100))?);
//! let mut law = PredictGateTrim::new(&classes);
//!
//! let now = Timestamp::ZERO;
//! let empty = Backlog {
//!     queued: &[0],
//!     running: &[2],
//!     queued_total: 0,
//!     running_total: 2,
//!     workers: Concurrency::new(2),
//! };
//! // Thirty events have taken 20 ms each …
//! for _ in 0..30 {
//!     let finished = Finished {
//!         kind: 0,
//!         class: ClassId::DEFAULT,
//!         service: Duration::from_millis(20),
//!         response: Duration::from_millis(25),
//!         ending: Ending::Completed,
//!         together: Together::ALONE,
//!     };
//!     law.on_finish(now, &finished, &empty);
//! }
//! // … so behind forty of them a newcomer would wait for some 400 ms.
//! let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
//! let crowded = Backlog { queued: &[40], queued_total: 40, ..empty };
//! let Decision::Reject(rejection) = law.on_arrival(now, &arrival, &crowded) else {
//!     unreachable!("it cannot be answered within 100 ms");
//! };
//! assert_eq!(rejection.reason, Reason::PredictedLate);
//! assert!(rejection.retry_after > Some(Duration::from_millis(300)));
//! # Ok::<(), InvalidTarget>(())
//! ```
//!
//! # Modules, in reading order
//! - [`open`], [`threshold`], [`plain_queue`], [`token_bucket`], [`rate_limit`]: the simplest laws.
//! - [`predict_gate_trim`]: the default law of a stage, a file for each of its parts.
//! - [`work_limit`]: the law for a proxy, which counts work and not requests.
//! - [`resource_guard`]: rejects lower classes while memory, descriptors or CPU are scarce.
//! - [`slow_loop`]: workers, batches, quality and termination, asked once a tick.
//! - [`named`]: laws by name with their constants; [`entries`]: those of this crate.
//! - [`constants`](mod@constants), [`limit_range`], [`promise`], [`period_samples`], [`recent_samples`],
//!   [`smoothed_percentile`], [`seeded`]: what laws are made of, for laws of one's own, too.
//!
//! The laws of the documents are in `tamarisk-laws-papers`, those of other systems in
//! `tamarisk-laws-rivals`, and all of them by name in `tamarisk-catalogue`.
//! `docs/LAWS.md` compares them, `docs/DEFAULTS.md` says where their constants
//! come from, and `docs/REFERENCES.md` what the keys in brackets stand for.

pub mod constants;
pub mod entries;
pub mod limit_range;
pub mod named;
pub mod open;
pub mod period_samples;
pub mod plain_queue;
pub mod predict_gate_trim;
pub mod promise;
pub mod rate_limit;
pub mod recent_samples;
pub mod resource_guard;
pub mod seeded;
mod sharing;
pub mod slow_loop;
pub mod smoothed_percentile;
pub mod threshold;
pub mod token_bucket;
mod with_dropper;
pub mod work_limit;

pub use limit_range::{InvalidLimitRange, LimitRange};
pub use named::{Coordination, InvalidKnob, Knob, Laws, Named};
pub use open::Open;
pub use plain_queue::PlainQueue;
pub use predict_gate_trim::{InvalidPredictGateTrim, PredictGateTrim, PredictGateTrimBuilder};
pub use rate_limit::{Allowance, InvalidRateLimit, RateLimit};
pub use resource_guard::{ResourceBounds, ResourceGuard};
pub use slow_loop::{
    AdmissionWhenSpent, Composition, DeadlineOnly, Degradation, ElasticPool, FixedBatch,
    FixedWorkers, FullQuality, Independent, Knobs, Ruling, SlowLaws, StageLaws,
};
pub use threshold::Threshold;
pub use token_bucket::TokenBucket;
pub use with_dropper::WithDropper;
pub use work_limit::{WorkLimit, WorkLimitBuilder};
