//! A discrete-event simulator of stages in a network, under the shipped laws.
//!
//! **Intuition.** Instead of waiting for things to happen, jump from one to the next:
//! an hour of a service takes seconds, and happens the same way each time.
//!
//! **What is modelled.** [`Stage`]s with workers, queues and laws; a service of one or
//! several [`Step`]s, done by the worker alone, on cores that are shared with other
//! stages, or over a connection out of a pool; [`Speed`]s that depend on how much
//! runs; routes with probabilities, cycles included; [`Client`]s that are open,
//! partly open, closed or recorded, with patience and retries; classes with targets
//! and priorities.
//!
//! **The laws are the shipped ones.** An admission law is told what the live runtime tells it, in
//! that order: each arrival with the backlog before it, each event that leaves the
//! queue with itself still counted, each end with itself no longer counted, a tick
//! every 100 ms, at which every event in the queue is asked about once more. A limit
//! that the law names holds from the end or tick after which it was named; whom it lets
//! through beyond the stage's workers waits for one of these behind the stage. A stage is
//! told of as a live *gate* is: an event that finds a place runs without being asked
//! about at the head of a queue. Two liberties: all stages tick at the same instants,
//! and laws that ask for the CPU are told of the workers as if each were a core.
//!
//! **Events that leave the queue or lose their place.** A law is told of every event that leaves the queue without running, once it is out of
//! the backlog. At each tick what has run for longer than the law says ([`park_after`]) is parked if
//! the law names a limit of its own: it runs on, holds no place, and is told of once more when it ends.
//! In a stage that serves the [earliest due](Discipline::EarliestDue) first, who may not start
//! leaves its place to others. A client that leaves takes its event out of the queue; what runs is
//! done for nobody and holds its place until then.
//!
//! [`park_after`]: tamarisk_control::PlaceLimits::park_after
//!
//! Over the whole network a law of another kind may stand, a [`GlobalLaw`]: asked about
//! each request that comes in, told of all stages and of what goes between them, it
//! sets what the stages promise.
//!
//! **Slow laws** ([`Run::laws`]) act once a tick as in a live stage: each as printed, or in turns
//! where that is their coordination. A worker that is too many ends what it has begun, and its
//! whole batch; one that is new takes from the queue at once. A worker takes up to a batch, at most its share of the queue, pays
//! the batch's cost, and serves one event after the other; what has passed its deadline before
//! it is begun is dropped. Quality makes the degradable share of a step's work shorter, from the
//! steps on that begin after it was set. Where there is a termination law, an event is
//! ended when it has run for as long as its class may, by the limit that held when it
//! began, or at its deadline; it lets go of what it holds or waits for, keeps its worker for the
//! clean-up, and counts as terminated then.
//!
//! **Comparable.** Whatever is drawn belongs to a client or a request, not to a stage:
//! under the same seed request number 1000 of an open client is the same request,
//! with the same work, under every law. A difference between two laws is then a
//! difference between the laws.
//!
//! **Reproducible.** The same scenario, laws and seed give the same events to the
//! nanosecond and the same [`Report`] to the last bit.
//!
//! **Bounded.** Statistics take the same memory for an hour as for a year: counts are
//! exact, means are exact, percentiles come from a histogram. Requests inside are
//! bounded by the capacities of the queues.
//!
//! **Limits.** Time is in whole nanoseconds. Handlers never fail, but replies may be lost. An event
//! that a worker takes in a batch behind another uses that worker whatever its kind. Means over time come with confidence intervals by
//! batch means, which are honest only if a batch is much longer than the memory of
//! the system; near saturation that is long. Replicate with other seeds, and
//! [`Estimate::of`] the results, where in doubt.
//!
//! # Examples
//! At twice the load that one worker can bear, with and without a law:
//! ```
//! use std::time::Duration;
//! use tamarisk_control::{Classes, Target};
//! use tamarisk_laws::PredictGateTrim;
//! use tamarisk_model::sim::{Client, Distribution, Scenario, Simulation, Stage};
//!
//! let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
//! let service = Distribution::Exponential(Duration::from_millis(10));
//! let scenario = Scenario::new(classes.clone(), Duration::from_secs(60))
//!     .stage(Stage::new("work", 1, service))
//!     .client(Client::poisson("users", "work", 200.0));
//! let simulation = Simulation::new(&scenario)?;
//!
//! let open = simulation.run(1);
//! let law = Box::new(PredictGateTrim::new(&classes));
//! let controlled = simulation.start(1).law("work", law)?.finish();
//! assert!(open.classes[0].goodput() < 5.0);
//! assert!(controlled.classes[0].goodput() > 90.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`GlobalLaw`]: tamarisk_control::GlobalLaw
//!
//! # Modules, in reading order
//! `plan`: what is stated, and whether it can be simulated. `run`: what happens. `report`: what
//! was seen. Each knows those before it.

mod plan;
mod report;
mod run;

pub use plan::client::{Client, Heed, Load, Retry, TraceArrival, UNANSWERED_MAX};
pub use plan::distribution::{Distribution, ERLANG_STAGES_MAX, InvalidDistribution};
pub use plan::invalid::{ClientProblem, InvalidScenario, ResourceProblem, StageProblem};
pub use plan::profile::{InvalidProfile, Profile};
pub use plan::resource::{Resource, ResourceKind};
pub use plan::scenario::{BATCHES_MAX, Kind, Scenario};
pub use plan::speed::{InvalidSpeed, Speed};
pub use plan::stage::{Discipline, KindAt, Route, Stage, Step};
pub use report::confidence::Estimate;
pub use report::{
    ClassReport, Durations, GlobalReport, GlobalStageReport, InvalidWindow, Report,
    StageClassReport, StageReport,
};
pub use run::Run;
pub use run::ledger::{FlowCounts, PageCounts};
pub use run::ruling::Governor;
pub use run::simulation::{Simulation, UnknownStage, UnsuitableLaws};
pub use run::tally::Counts;
pub use run::watch::{Outcome, Seen, TraceWriter, Watch, What};
