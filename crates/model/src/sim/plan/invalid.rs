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
    #[error("a scenario has between {least} and {most} {what}, not {count}")]
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
    #[error("two of a kind ({what}) are named {name:?}")]
    Duplicate {
        /// In the singular.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// One name for a class and a kind.
    #[error("kind {0:?} has the name of a class")]
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
        "a warm-up and a duration of {0:?} together: there must be something to measure, \
         and no more than {DAYS_MAX} days of it"
    )]
    Span(Duration),
    /// Governors tick between once a second and a thousand times.
    #[error("a tick of {0:?} is not between 1ms and 1s")]
    Tick(Duration),
    /// There can be no such law over the stages.
    #[error("the global law cannot be: {0}")]
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
    #[error("it has no workers")]
    NoWorkers,
    /// There is nothing to do, or too much to do.
    #[error("for class {class:?} it has {count} steps; between 1 and {most} are possible")]
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
    #[error("its speed: {0}")]
    Speed(InvalidSpeed),
    /// How its work stretches over time.
    #[error("its stretch: {0}")]
    Stretch(InvalidProfile),
    /// What a batch costs.
    #[error("its batch cost: {0}")]
    BatchCost(InvalidDistribution),
    /// What it says of a kind of requests that does not exist.
    #[error("there is no kind {0:?}")]
    UnknownKind(String),
    /// When the first data of a stream is out.
    #[error("the first data of a kind: {0}")]
    FirstData(InvalidDistribution),
    /// Times in which it pauses, or in which all is lost.
    #[error("its {0} must each end after they begin, and before the next one begins")]
    Spans(&'static str),
    /// How long an event that was ended early keeps its worker.
    #[error("its clean-up: {0}")]
    CleanUp(InvalidDistribution),
    /// A step on a resource that does not exist.
    #[error("there is no resource {0:?}")]
    UnknownResource(String),
    /// A route to a stage that does not exist.
    #[error("it routes to {0:?}, and there is no such stage")]
    UnknownStage(String),
    /// A service or routes of a class that does not exist.
    #[error("there is no class {0:?}")]
    UnknownClass(String),
    /// Routes of negative probability, or of more than all events.
    #[error("the routes of class {class:?} have probabilities that add up to {sum}")]
    Routes {
        /// Of which class.
        class: String,
        /// What they add up to.
        sum: f64,
    },
    /// A cycle without exit.
    #[error("events of class {class:?} never get out of it: no way leads to the exit")]
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
    #[error("it has no connections")]
    NoConnections,
    /// How fast it is.
    #[error("its speed: {0}")]
    Speed(InvalidSpeed),
}

/// What is wrong with a group of clients.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientProblem {
    /// It enters by a stage that does not exist.
    #[error("it enters by {0:?}, and there is no such stage")]
    UnknownStage(String),
    /// It sends requests of a class that does not exist.
    #[error("there is no class {0:?}")]
    UnknownClass(String),
    /// The shares of its mix.
    #[error("the shares of its classes add up to {0}, not to 1")]
    Shares(f64),
    /// Its rate over time.
    #[error("its rate: {0}")]
    Rate(InvalidProfile),
    /// The times between its requests.
    #[error("its gaps: {0}")]
    Gaps(InvalidDistribution),
    /// Gaps that are always zero have no shape.
    #[error("the mean of its gaps is zero")]
    NoGap,
    /// Its thinking time.
    #[error("its thinking time: {0}")]
    Think(InvalidDistribution),
    /// Its pause before a retry.
    #[error("its pause: {0}")]
    Pause(InvalidDistribution),
    /// Its pauses would shrink, or grow beyond all numbers.
    #[error("a growth of {0} is not a finite number of 1 or more")]
    Growth(f64),
    /// Too many retries.
    #[error("{0} attempts are too many")]
    Attempts(u32),
    /// None, or too many for accounts of each.
    #[error("{0} flows; at least 1, and about a million in all, are possible")]
    Flows(u32),
    /// A deadline that has passed when the request comes.
    #[error("it has no patience at all")]
    NoPatience,
    /// When they leave.
    #[error("when its clients leave: {0}")]
    Leaves(InvalidDistribution),
    /// Clients that wait for an answer before they go on, and leave.
    #[error("clients that wait for an answer before they go on cannot leave")]
    Unleaving,
    /// A greedy flow among no others.
    #[error("a greedy flow needs an open load and at least 2 flows")]
    Greedy,
    /// Sessions that go on for ever are a closed load.
    #[error("its sessions never leave: they are users of a closed load")]
    NeverLeaves,
    /// The counts of users.
    #[error("its counts of users must be at least one, in order of time")]
    Users,
    /// A line of a trace.
    #[error("arrival {0} of its trace is out of order, or of a class or flow that does not exist")]
    Trace(usize),
}
