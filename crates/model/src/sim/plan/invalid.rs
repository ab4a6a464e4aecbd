//! Why a scenario is invalid, and where.

use std::time::Duration;

use super::distribution::InvalidDistribution;
use super::profile::InvalidProfile;
use super::speed::InvalidSpeed;
use super::time::NANOS_MAX;

const DAYS_MAX: u64 = NANOS_MAX / (24 * 3600 * 1_000_000_000);

/// Why a scenario cannot be simulated. Each names the part that is to be changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScenario {
    /// Too few or too many of something.
    #[error("{count} {what}; a scenario has {least} to {most}")]
    Count {
        /// In the plural.
        what: &'static str,
        /// At least so many.
        least: usize,
        /// At most so many.
        most: usize,
        /// So many were given.
        count: usize,
    },
    /// One name for two stages, two resources or two clients.
    #[error("{what} name {name:?} is used twice; give each its own")]
    Duplicate {
        /// In the singular.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// One name for a class and a kind.
    #[error("kind {0:?} has the name of a class; rename one of them")]
    SameName(String),
    /// A kind of a class that does not exist.
    #[error("kind {kind:?}: there is no class {class:?}")]
    KindOfUnknownClass {
        /// The kind.
        kind: String,
        /// The name that is none.
        class: String,
    },
    /// Warm-up and measured time together are too long, or nothing is measured.
    #[error(
        "warm-up and duration are {0:?} together; the duration must be longer than 0s, and both at most \
         {DAYS_MAX} days"
    )]
    Span(Duration),
    /// Governors tick between once a second and a thousand times.
    #[error("tick {0:?} is out of range; use 1ms to 1s")]
    Tick(Duration),
    /// There can be no such law over the stages.
    #[error("the global law is invalid: {0}")]
    Global(String),
    /// Something about a stage.
    #[error("stage {stage:?}: {problem}")]
    Stage {
        /// Its name.
        stage: String,
        /// What it is.
        problem: StageProblem,
    },
    /// Something about a resource.
    #[error("resource {resource:?}: {problem}")]
    Resource {
        /// Its name.
        resource: String,
        /// What it is.
        problem: ResourceProblem,
    },
    /// Something about a group of clients.
    #[error("client {client:?}: {problem}")]
    Client {
        /// Its name.
        client: String,
        /// What it is.
        problem: ClientProblem,
    },
}

/// What is wrong with a stage.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StageProblem {
    /// A stage that works on nothing.
    #[error("no workers; set at least 1")]
    NoWorkers,
    /// There is nothing to do, or too much to do.
    #[error("class {class:?} has {count} service steps; use 1 to {most}")]
    Steps {
        /// For which class.
        class: String,
        /// So many were given.
        count: usize,
        /// At most so many.
        most: usize,
    },
    /// A service time.
    #[error("the service of class {class:?}: {why}")]
    Service {
        /// Of which class.
        class: String,
        /// What is wrong with it.
        why: InvalidDistribution,
    },
    /// How fast its workers work together.
    #[error("speed: {0}")]
    Speed(InvalidSpeed),
    /// How much longer its work takes over time.
    #[error("slow-down: {0}")]
    Stretch(InvalidProfile),
    /// What a batch costs.
    #[error("batch cost: {0}")]
    BatchCost(InvalidDistribution),
    /// What it says of a kind of requests that does not exist.
    #[error("there is no kind {0:?}")]
    UnknownKind(String),
    /// When the first data of a stream is out.
    #[error("first data of a kind: {0}")]
    FirstData(InvalidDistribution),
    /// Times in which it pauses, or in which all is lost.
    #[error("{0} overlap or are empty; each must end after it begins and before the next begins")]
    Intervals(&'static str),
    /// How long an event that was ended early keeps its worker.
    #[error("clean-up: {0}")]
    CleanUp(InvalidDistribution),
    /// A step on a resource that does not exist.
    #[error("there is no resource {0:?}")]
    UnknownResource(String),
    /// A route to a stage that does not exist.
    #[error("route to unknown stage {0:?}; name a stage of the scenario")]
    UnknownStage(String),
    /// A service or routes of a class that does not exist.
    #[error("there is no class {0:?}")]
    UnknownClass(String),
    /// Routes of negative probability, or of more than all events.
    #[error(
        "route probabilities of class {class:?} add up to {sum}; each must be positive, their sum at most 1"
    )]
    Routes {
        /// Of which class.
        class: String,
        /// What they add up to.
        sum: f64,
    },
    /// A cycle without exit.
    #[error(
        "events of class {class:?} never leave: no route leads to the exit; lower a route probability below 1"
    )]
    NoExit {
        /// Of which class.
        class: String,
    },
}

/// What is wrong with a resource.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceProblem {
    /// A pool of nothing.
    #[error("no connections; set at least 1")]
    NoConnections,
    /// How fast it is.
    #[error("speed: {0}")]
    Speed(InvalidSpeed),
}

/// What is wrong with a group of clients.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientProblem {
    /// It enters by a stage that does not exist.
    #[error("entry is unknown stage {0:?}; name a stage of the scenario")]
    UnknownStage(String),
    /// It sends requests of a class that does not exist.
    #[error("there is no class {0:?}")]
    UnknownClass(String),
    /// The shares of its mix.
    #[error("class shares add up to {0}; they must add up to 1")]
    Shares(f64),
    /// Its rate over time.
    #[error("rate: {0}")]
    Rate(InvalidProfile),
    /// The times between its requests.
    #[error("gaps: {0}")]
    Gaps(InvalidDistribution),
    /// Gaps that are always zero have no shape.
    #[error("the mean gap is 0s; it must be longer")]
    NoGap,
    /// Its thinking time.
    #[error("thinking time: {0}")]
    Think(InvalidDistribution),
    /// Its pause before a retry.
    #[error("retry pause: {0}")]
    Pause(InvalidDistribution),
    /// Its pauses would shrink, or grow beyond all numbers.
    #[error("retry growth {0} is invalid; use a finite number of at least 1")]
    Growth(f64),
    /// Too many retries.
    #[error("{0} retry attempts are too many")]
    Attempts(u32),
    /// None, or too many for accounts of each.
    #[error("{0} flows; use at least 1, and about a million in all")]
    Flows(u32),
    /// A deadline that has passed when the request comes.
    #[error("patience is 0s; it must be longer")]
    NoPatience,
    /// When they leave.
    #[error("time until clients leave: {0}")]
    Leaves(InvalidDistribution),
    /// Too many requests at once, or several of clients that wait for one answer.
    #[error("{0} calls at once; open clients make 1 to 1000, all others 1")]
    Calls(u32),
    /// Clients that wait for an answer before they go on, and leave.
    #[error(
        "closed loads and sessions wait for their answers; remove the time until clients leave"
    )]
    Unleaving,
    /// Who sends again without waiting, or never waits for an answer.
    #[error("`resend` is for closed clients, and longer than 0s")]
    Resend,
    /// A greedy flow among no others.
    #[error("a greedy flow needs an open load and at least 2 flows")]
    Greedy,
    /// Sessions that never end are a closed load.
    #[error("sessions never leave; use a closed load, or a probability to stay below 1")]
    NeverLeaves,
    /// The counts of users.
    #[error("user counts are empty or out of order; give at least one, in order of time")]
    Users,
    /// A line of a trace.
    #[error("arrival {0} of the trace is out of order, or of an unknown class, kind or flow")]
    Trace(usize),
}
