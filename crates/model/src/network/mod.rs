//! Networks of stages: open Jackson networks [Welsh02 §4.3, eq. 4.16–4.21].
//!
//! **Intuition.** In the long run as much leaves a stage as comes to it, so
//! what comes to each follows from what comes from outside and from the
//! probabilities of the ways between. And, which is Jackson's theorem, every
//! stage then behaves as if it stood alone under Poisson arrivals.
//!
//! **What is exact.** Flows, utilisations, the bottleneck and the greatest stable
//! rate: always. Mean response times: if service is exponential everywhere, also
//! with saturation and penalty; a stage of several steps keeps them exact only if
//! nothing that leaves it goes to another stage, since what leaves it does not come
//! as Poisson arrivals do. End-to-end percentiles are those of a sum of
//! *independent* times at the stages of an event's way. That is exact where
//! nobody can overtake: every stage is fed from one place only and serves in the order of arrival, and
//! those that are neither first nor last have one worker [Burke69 pp. 754–755; Walrand80 pp. 1000–1018].
//! Elsewhere it is an approximation, and [`Solution::percentiles`] says so.
//!
//! **Limits.** No classes, no time that passes between stages, and stages whose
//! threads get in each other's way only through the penalty φ of their machine.

mod pattern;
mod solution;

use tamarisk_control::{Concurrency, PerSecond, Ratio};

pub use self::pattern::{Effect, Evaluation, InvalidPattern, Machines, Pattern};
pub use self::solution::{Limit, Overloaded, Solution, StageSolution};
use crate::matrix::{Matrix, visits};
use crate::queueing::{PhaseType, SUM_TOLERANCE, ThreadPenalty, rate};

/// Most stages of a network. The largest service of the papers has some twenty;
/// percentiles of a whole network take the cube of this.
pub const STAGES_MAX: usize = 64;

/// A station of a queueing network: one stage, with its service and its workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// What it is called, uniquely.
    pub name: String,
    /// What an event takes, alone with its worker.
    pub service: PhaseType,
    /// Of service that is not made of steps: its variance over the square of its mean. `service` is
    /// then like it, and waits are [approximate](crate::queueing::PhaseServer::general).
    pub variability: Option<f64>,
    /// How many are worked on at once.
    pub workers: Workers,
    /// α: how many workers at once make it faster; `None` if all do.
    pub parallelism: Option<Concurrency>,
    /// Where it runs: threads slow down those of their own machine.
    pub machine: u32,
    /// Whether its queue lets some events go before others, as priorities do. Means stay as they are.
    pub reorders: bool,
}

/// How many events a stage works on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// So many threads, and a queue before them.
    Bounded(Concurrency),
    /// A thread for each event: what there is before the pattern *Wrap*.
    ThreadPerEvent,
}

impl Station {
    /// A stage with `workers` that do not get in each other's way, first come, first served.
    pub fn new(name: &str, service: PhaseType, workers: Concurrency) -> Self {
        Self {
            name: name.to_owned(),
            service,
            variability: None,
            workers: Workers::Bounded(workers),
            parallelism: None,
            machine: 0,
            reorders: false,
        }
    }
}

/// Stages, what comes to them, and the ways between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    stages: Vec<Station>,
    /// r, in events a second
    external: Vec<f64>,
    /// P
    routes: Matrix,
    /// P_out
    exits: Vec<f64>,
    penalty: ThreadPenalty,
}

/// Why stages and ways are no network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNetwork {
    /// None, or more than [`STAGES_MAX`].
    #[error("a network of {0} stages: it has one to {STAGES_MAX}")]
    Stages(usize),
    /// Ways name stages, so names must differ.
    #[error("two stages are called `{0}`")]
    Duplicate(String),
    /// A way from, to or into a stage that there is none of.
    #[error("there is no stage `{name}`; there are: {}", .known.join(", "))]
    Unknown {
        /// What was named.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// After a stage an event goes somewhere, or leaves: say so with `exit`.
    #[error("the ways out of `{stage}` have probabilities that sum to {sum}, not to 1")]
    Sum {
        /// The stage whose ways they are.
        stage: String,
        /// What they sum to.
        sum: f64,
    },
    /// Events that come to these stages would never leave.
    #[error("what comes to {} never leaves the network", .0.join(", "))]
    NoExit(Vec<String>),
    /// Nothing comes from outside, so there is nothing to ask.
    #[error("no stage has arrivals from outside")]
    NoArrivals,
}

/// Collects the parts of a [`Network`].
///
/// A stage without any way out is one after which events leave.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct NetworkBuilder {
    stages: Vec<Station>,
    arrivals: Vec<(String, PerSecond)>,
    /// From, to (or out) and how often.
    ways: Vec<(String, Option<String>, Ratio)>,
    penalty: ThreadPenalty,
}

impl NetworkBuilder {
    /// Adds a stage.
    pub fn stage(mut self, stage: Station) -> Self {
        self.stages.push(stage);
        self
    }

    /// Poisson arrivals from outside at `stage`; what is said twice adds up.
    pub fn arrivals(mut self, stage: &str, rate: PerSecond) -> Self {
        self.arrivals.push((stage.to_owned(), rate));
        self
    }

    /// After `from` a share of the events goes on to `to`.
    pub fn route(mut self, from: &str, to: &str, share: Ratio) -> Self {
        self.ways.push((from.to_owned(), Some(to.to_owned()), share));
        self
    }

    /// After `from` a share of the events leaves the network.
    pub fn exit(mut self, from: &str, share: Ratio) -> Self {
        self.ways.push((from.to_owned(), None, share));
        self
    }

    /// What threads cost on each machine; nothing if this is not called.
    pub fn penalty(mut self, penalty: ThreadPenalty) -> Self {
        self.penalty = penalty;
        self
    }

    /// The network.
    ///
    /// # Errors
    /// [`InvalidNetwork`] says which stage or way is wrong.
    pub fn build(self) -> Result<Network, InvalidNetwork> {
        let Self { stages, arrivals, ways, penalty } = self;
        let size = stages.len();
        if size == 0 || size > STAGES_MAX {
            return Err(InvalidNetwork::Stages(size));
        }
        for (index, stage) in stages.iter().enumerate() {
            if stages[..index].iter().any(|earlier| earlier.name == stage.name) {
                return Err(InvalidNetwork::Duplicate(stage.name.clone()));
            }
        }
        let mut external = vec![0.0; size];
        for (stage, rate) in &arrivals {
            external[position(&stages, stage)?] += rate.get();
        }
        let mut routes = Matrix::zeros(size, size);
        let mut exits = vec![0.0; size];
        for (from, to, share) in &ways {
            let from = position(&stages, from)?;
            match to {
                Some(to) => routes[(from, position(&stages, to)?)] += share.get(),
                None => exits[from] += share.get(),
            }
        }
        for (index, stage) in stages.iter().enumerate() {
            if ways.iter().all(|(from, ..)| *from != stage.name) {
                exits[index] = 1.0;
            }
        }
        Network { stages, external, routes, exits, penalty }.checked()
    }
}

fn position(stages: &[Station], name: &str) -> Result<usize, InvalidNetwork> {
    stages.iter().position(|stage| stage.name == name).ok_or_else(|| InvalidNetwork::Unknown {
        name: name.to_owned(),
        known: stages.iter().map(|stage| stage.name.clone()).collect(),
    })
}

impl Network {
    /// A network to be put together.
    pub fn builder() -> NetworkBuilder {
        NetworkBuilder::default()
    }

    /// One stage with all arrivals, after which events leave.
    ///
    /// # Errors
    /// [`InvalidNetwork::NoArrivals`].
    pub fn of_stage(stage: Station, arrivals: PerSecond) -> Result<Self, InvalidNetwork> {
        let name = stage.name.clone();
        Self::builder().stage(stage).arrivals(&name, arrivals).build()
    }

    /// Its stages, in the order in which they were added.
    pub fn stages(&self) -> &[Station] {
        &self.stages
    }

    /// What comes from outside, in all.
    pub fn arrivals(&self) -> PerSecond {
        rate(self.external.iter().sum())
    }

    /// The same with `total` from outside, spread over the stages as it was.
    ///
    /// # Errors
    /// [`InvalidNetwork::NoArrivals`] if `total` is zero.
    pub fn with_arrivals(&self, total: PerSecond) -> Result<Self, InvalidNetwork> {
        let factor = total.get() / self.arrivals().get();
        let external = self.external.iter().map(|rate| rate * factor).collect();
        Self { external, ..self.clone() }.checked()
    }

    /// The same with `workers` at `stage`.
    ///
    /// # Errors
    /// [`InvalidNetwork::Unknown`].
    pub fn with_workers(&self, stage: &str, workers: Concurrency) -> Result<Self, InvalidNetwork> {
        let index = position(&self.stages, stage)?;
        let mut network = self.clone();
        network.stages[index].workers = Workers::Bounded(workers);
        Ok(network)
    }

    /// Whether threads cost anything.
    pub(crate) fn has_penalty(&self) -> bool {
        self.penalty.per_thread > PerSecond::ZERO
    }

    /// How often an event comes to each stage, on average.
    pub fn visits(&self) -> Vec<f64> {
        let total = self.arrivals().get();
        let entry: Vec<f64> = self.external.iter().map(|rate| rate / total).collect();
        visits(&entry, &self.routes, &self.exits)
    }

    /// With probabilities that sum to 1 to the last digit, if this is a network.
    fn checked(mut self) -> Result<Self, InvalidNetwork> {
        let size = self.stages.len();
        if size == 0 || size > STAGES_MAX {
            return Err(InvalidNetwork::Stages(size));
        }
        for (index, stage) in self.stages.iter().enumerate() {
            let sum = self.exits[index] + self.routes.row(index).iter().sum::<f64>();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(InvalidNetwork::Sum { stage: stage.name.clone(), sum });
            }
            self.exits[index] /= sum;
            (0..size).for_each(|to| self.routes[(index, to)] /= sum);
        }
        let stuck = self.stuck();
        if !stuck.is_empty() {
            return Err(InvalidNetwork::NoExit(stuck));
        }
        let total = self.external.iter().sum::<f64>();
        if total <= 0.0 || !total.is_finite() {
            return Err(InvalidNetwork::NoArrivals);
        }
        Ok(self)
    }

    /// Stages from which no way leads out.
    fn stuck(&self) -> Vec<String> {
        let size = self.stages.len();
        let mut leaves: Vec<bool> = self.exits.iter().map(|&exit| exit > 0.0).collect();
        // Each round finds one stage more, or is the last.
        for _ in 0..size {
            for from in 0..size {
                leaves[from] |= (0..size).any(|to| leaves[to] && self.routes[(from, to)] > 0.0);
            }
        }
        let stuck = self.stages.iter().zip(leaves).filter(|(_, leaves)| !leaves);
        stuck.map(|(stage, _)| stage.name.clone()).collect()
    }
}
