//! The design patterns as transformations of a network [Welsh02 §3.6, §4.4].
//!
//! | pattern | does | to response time |
//! | --- | --- | --- |
//! | *Wrap* | puts a queue before a bounded number of threads | bounds the penalty φ: without it, any penalty makes the stage unstable in the long run |
//! | *Pipeline* | makes each step of a sequence a stage | a wait before each; each can be given its own workers |
//! | *Partition* | makes the leaves of a branch stages | the fast no longer wait behind the slow |
//! | *Combine* | makes several stages one, the inverse of both | one wait, and workers go where work is |
//! | *Replicate* | puts copies beside one another, fed at random | longer waits than one queue for all, and a penalty of each machine's own |
//!
//! Flows stay as they were: what comes to the stages around does not change.
//! Combining keeps the shares that leave each way but not which steps led to which
//! way.

use tamarisk_control::Concurrency;

use super::{
    InvalidNetwork, Limit, Network, Overloaded, STAGES_MAX, Solution, Station, Workers, position,
};
use crate::matrix::Matrix;
use crate::queueing::{PhaseType, STEPS_MAX};

/// A change of a network's structure.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// A queue before `workers` threads, instead of a thread for each event.
    Wrap {
        /// The stage to be wrapped.
        stage: String,
        /// Its threads from then on.
        workers: Concurrency,
    },
    /// A stage for each step of a sequence: `name.1`, `name.2`, …
    Pipeline {
        /// The stage to be cut.
        stage: String,
        /// The workers of each step.
        workers: Vec<Concurrency>,
    },
    /// A stage for the first step, `name.1`, and for each of its choices.
    Partition {
        /// The stage to be cut.
        stage: String,
        /// The workers of each step.
        workers: Vec<Concurrency>,
    },
    /// One stage instead of several, on the machine of the first of them.
    Combine {
        /// The stages to be united.
        stages: Vec<String>,
        /// What their union is called.
        name: String,
        /// Its workers.
        workers: Concurrency,
    },
    /// Copies that are chosen at random: `name.1`, `name.2`, …
    Replicate {
        /// The stage to be copied.
        stage: String,
        /// How many there are then.
        copies: Concurrency,
        /// The workers of each.
        workers: Concurrency,
        /// Where they run.
        machines: Machines,
    },
}

/// Where replicas run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machines {
    /// All where the stage ran: a boundary of failure only.
    Shared,
    /// The first where the stage ran, each other on a machine of its own.
    Own,
}

/// Why a pattern does not apply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPattern {
    /// A stage that there is none of, or a name that is taken.
    #[error(transparent)]
    Network(#[from] InvalidNetwork),
    /// Only a sequence of steps can become a pipeline.
    #[error("the service of `{0}` is no sequence of two steps or more")]
    NoSequence(String),
    /// Only a step that is followed by one of several can be partitioned.
    #[error("the service of `{0}` is no step that branches")]
    NoBranch(String),
    /// Service of which only mean and variability are known has no steps to be cut or united.
    #[error("the service of `{0}` is not made of exponential steps")]
    NoSteps(String),
    /// Each step needs workers.
    #[error("`{stage}` has {steps} steps; workers are given for {given}")]
    Workers {
        /// The stage to be cut.
        stage: String,
        /// Its steps.
        steps: usize,
        /// Entries for them.
        given: usize,
    },
    /// One stage cannot be combined, nor the same twice.
    #[error("two different stages or more make one")]
    Few,
    /// More steps than a service can have.
    #[error("the stages have {0} steps together, more than {STEPS_MAX}")]
    Steps(usize),
    /// Nothing tells with which of them events begin.
    #[error("nothing comes to the stages from elsewhere")]
    NotVisited,
}

/// A network before and after a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The network as it was.
    pub before: Evaluation,
    /// And as the pattern makes it.
    pub after: Evaluation,
}

/// A network and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The network.
    pub network: Network,
    /// Its bottleneck and the greatest rate that it can bear.
    pub limit: Limit,
    /// What it does at the rate that it has.
    pub solution: Result<Solution, Overloaded>,
}

impl Evaluation {
    fn of(network: Network) -> Self {
        Self { limit: network.limit(), solution: network.solve(), network }
    }

    /// Workers in all, not counting threads that come and go with events.
    pub fn workers(&self) -> u32 {
        self.network.stages.iter().fold(0, |sum, stage| match stage.workers {
            Workers::Bounded(workers) => sum.saturating_add(workers.get()),
            Workers::ThreadPerEvent => sum,
        })
    }
}

impl Effect {
    /// What the pattern adds to the mean response time, in seconds: negative if
    /// it makes it shorter, `None` if there is no mean on one of the sides.
    pub fn added_seconds(&self) -> Option<f64> {
        let before = self.before.solution.as_ref().ok()?;
        let after = self.after.solution.as_ref().ok()?;
        Some(after.mean().get() - before.mean().get())
    }
}

impl Network {
    /// This network and what `pattern` makes of it.
    ///
    /// # Errors
    /// [`InvalidPattern`] if it does not apply.
    pub fn effect(&self, pattern: &Pattern) -> Result<Effect, InvalidPattern> {
        let after = self.apply(pattern)?;
        Ok(Effect { before: Evaluation::of(self.clone()), after: Evaluation::of(after) })
    }

    /// What `pattern` makes of this network.
    ///
    /// # Errors
    /// [`InvalidPattern`] if it does not apply.
    pub fn apply(&self, pattern: &Pattern) -> Result<Self, InvalidPattern> {
        match pattern {
            Pattern::Wrap { stage, workers } => Ok(self.with_workers(stage, *workers)?),
            Pattern::Pipeline { stage, workers } => {
                let index = position(&self.stages, stage)?;
                if !is_sequence(&self.stages[index].service) {
                    return Err(InvalidPattern::NoSequence(stage.clone()));
                }
                self.cut(index, workers)
            }
            Pattern::Partition { stage, workers } => {
                let index = position(&self.stages, stage)?;
                if !is_branch(&self.stages[index].service) {
                    return Err(InvalidPattern::NoBranch(stage.clone()));
                }
                self.cut(index, workers)
            }
            Pattern::Combine { stages, name, workers } => self.combine(stages, name, *workers),
            Pattern::Replicate { stage, copies, workers, machines } => {
                let index = position(&self.stages, stage)?;
                self.replicate(index, *copies, *workers, *machines)
            }
        }
    }

    /// A stage for each step of the stage at `index`.
    fn cut(&self, index: usize, workers: &[Concurrency]) -> Result<Self, InvalidPattern> {
        let stage = &self.stages[index];
        made_of_steps(stage)?;
        let service = &stage.service;
        if workers.len() != service.steps() {
            return Err(InvalidPattern::Workers {
                stage: stage.name.clone(),
                steps: service.steps(),
                given: workers.len(),
            });
        }
        let steps = workers.iter().zip(service.rates()).enumerate();
        let pieces = steps.map(|(step, (&workers, &rate))| Station {
            name: format!("{}.{}", stage.name, step + 1),
            service: PhaseType::step(rate),
            workers: Workers::Bounded(workers),
            ..stage.clone()
        });
        let inside = Subnetwork {
            stages: pieces.collect(),
            entry: service.entry().to_vec(),
            routes: service.routes().clone(),
            exits: service.exits().to_vec(),
        };
        self.replaced(index, inside)
    }

    fn replicate(
        &self,
        index: usize,
        copies: Concurrency,
        workers: Concurrency,
        machines: Machines,
    ) -> Result<Self, InvalidPattern> {
        let stage = &self.stages[index];
        let count = copies.get() as usize;
        if count > STAGES_MAX {
            return Err(InvalidNetwork::Stages(count).into());
        }
        let last_machine = self.stages.iter().map(|stage| stage.machine).max().unwrap_or(0);
        let copy = |copy: u32| Station {
            name: format!("{}.{}", stage.name, copy + 1),
            workers: Workers::Bounded(workers),
            machine: match machines {
                Machines::Own if copy > 0 => last_machine.saturating_add(copy),
                Machines::Own | Machines::Shared => stage.machine,
            },
            ..stage.clone()
        };
        let inside = Subnetwork {
            stages: (0..copies.get()).map(copy).collect(),
            entry: vec![1.0 / count as f64; count],
            routes: Matrix::zeros(count, count),
            exits: vec![1.0; count],
        };
        self.replaced(index, inside)
    }

    /// The network with a part in the place of the stage at `index`.
    fn replaced(&self, index: usize, inside: Subnetwork) -> Result<Self, InvalidPattern> {
        let pieces = inside.stages.len();
        let size = self.stages.len() - 1 + pieces;
        if size > STAGES_MAX {
            return Err(InvalidNetwork::Stages(size).into());
        }
        // An old stage's places in the new network, and how its events enter and
        // leave there.
        let places = |old: usize| {
            let first = if old > index { old + pieces - 1 } else { old };
            let count = if old == index { pieces } else { 1 };
            (0..count).map(move |piece| (first + piece, piece))
        };
        let enters =
            |old: usize, piece: usize| if old == index { inside.entry[piece] } else { 1.0 };
        let leaves =
            |old: usize, piece: usize| if old == index { inside.exits[piece] } else { 1.0 };

        let mut external = vec![0.0; size];
        let mut exits = vec![0.0; size];
        let mut routes = Matrix::zeros(size, size);
        for old in 0..self.stages.len() {
            for (from, piece) in places(old) {
                external[from] = self.external[old] * enters(old, piece);
                exits[from] = self.exits[old] * leaves(old, piece);
                for next in 0..self.stages.len() {
                    for (to, entered) in places(next) {
                        routes[(from, to)] +=
                            leaves(old, piece) * self.routes[(old, next)] * enters(next, entered);
                    }
                }
            }
        }
        for from in 0..pieces {
            for to in 0..pieces {
                routes[(index + from, index + to)] += inside.routes[(from, to)];
            }
        }
        let mut stages = self.stages.clone();
        stages.splice(index..=index, inside.stages);
        distinct(&stages)?;
        Ok(Self { stages, external, routes, exits, penalty: self.penalty }.checked()?)
    }

    fn combine(
        &self,
        names: &[String],
        name: &str,
        workers: Concurrency,
    ) -> Result<Self, InvalidPattern> {
        let members: Result<Vec<usize>, _> =
            names.iter().map(|name| position(&self.stages, name)).collect();
        let members = members?;
        let repeated = members.iter().enumerate().any(|(i, member)| members[..i].contains(member));
        if members.len() < 2 || repeated {
            return Err(InvalidPattern::Few);
        }
        let others: Vec<usize> =
            (0..self.stages.len()).filter(|stage| !members.contains(stage)).collect();

        // Events begin with a member as often as they come to it from elsewhere.
        let flows: Vec<f64> =
            self.visits().iter().map(|visits| visits * self.arrivals().get()).collect();
        let inflow: Vec<f64> = members
            .iter()
            .map(|&m| {
                let from = others.iter().map(|&other| flows[other] * self.routes[(other, m)]);
                self.external[m] + from.sum::<f64>()
            })
            .collect();
        let total: f64 = inflow.iter().sum();
        if total <= 0.0 {
            return Err(InvalidPattern::NotVisited);
        }
        let entry: Vec<f64> = inflow.iter().map(|flow| flow / total).collect();
        let size = members.len();
        let mut routes = Matrix::zeros(size, size);
        for (i, &from) in members.iter().enumerate() {
            for (j, &to) in members.iter().enumerate() {
                routes[(i, j)] = self.routes[(from, to)];
            }
        }
        let outside = |m: &usize| {
            self.exits[*m] + others.iter().map(|&other| self.routes[(*m, other)]).sum::<f64>()
        };
        let exits: Vec<f64> = members.iter().map(outside).collect();
        members.iter().try_for_each(|&member| made_of_steps(&self.stages[member]))?;
        let services: Vec<PhaseType> =
            members.iter().map(|&m| self.stages[m].service.clone()).collect();
        let steps = services.iter().map(PhaseType::steps).sum();
        if steps > STEPS_MAX {
            return Err(InvalidPattern::Steps(steps));
        }
        let union = Station {
            name: name.to_owned(),
            service: PhaseType::joined(&services, &entry, &routes, &exits),
            workers: Workers::Bounded(workers),
            reorders: members.iter().any(|&m| self.stages[m].reorders),
            ..self.stages[members[0]].clone()
        };

        // The others first, in their order, and the union behind them.
        let last = others.len();
        let mut external: Vec<f64> = others.iter().map(|&other| self.external[other]).collect();
        external.push(members.iter().map(|&m| self.external[m]).sum());
        let mut left: Vec<f64> = others.iter().map(|&other| self.exits[other]).collect();
        left.push(members.iter().map(|&m| flows[m] * self.exits[m]).sum::<f64>() / total);
        let mut ways = Matrix::zeros(last + 1, last + 1);
        for (i, &from) in others.iter().enumerate() {
            for (j, &to) in others.iter().enumerate() {
                ways[(i, j)] = self.routes[(from, to)];
            }
            ways[(i, last)] = members.iter().map(|&m| self.routes[(from, m)]).sum();
            let back = members.iter().map(|&m| flows[m] * self.routes[(m, from)]);
            ways[(last, i)] = back.sum::<f64>() / total;
        }
        let mut stages: Vec<Station> =
            others.iter().map(|&other| self.stages[other].clone()).collect();
        stages.push(union);
        distinct(&stages)?;
        let penalty = self.penalty;
        Ok(Self { stages, external, routes: ways, exits: left, penalty }.checked()?)
    }
}

/// Stages that take the place of one.
struct Subnetwork {
    stages: Vec<Station>,
    /// With which of them an event begins.
    entry: Vec<f64>,
    routes: Matrix,
    /// After which of them it goes where it went from the one stage.
    exits: Vec<f64>,
}

fn distinct(stages: &[Station]) -> Result<(), InvalidNetwork> {
    for (index, stage) in stages.iter().enumerate() {
        if stages[..index].iter().any(|earlier| earlier.name == stage.name) {
            return Err(InvalidNetwork::Duplicate(stage.name.clone()));
        }
    }
    Ok(())
}

fn made_of_steps(stage: &Station) -> Result<(), InvalidPattern> {
    match stage.variability {
        None => Ok(()),
        Some(_) => Err(InvalidPattern::NoSteps(stage.name.clone())),
    }
}

fn is_sequence(service: &PhaseType) -> bool {
    let steps = service.steps();
    let leads_on = |i: usize| service.routes()[(i, i + 1)] == 1.0;
    steps >= 2 && service.entry()[0] == 1.0 && (0..steps - 1).all(leads_on)
}

fn is_branch(service: &PhaseType) -> bool {
    let steps = service.steps();
    let leaves = &service.exits()[1..];
    steps >= 3
        && service.entry()[0] == 1.0
        && service.exits()[0] == 0.0
        && leaves.iter().all(|&exit| exit == 1.0)
}
