//! The solution of a network in equilibrium: utilisation, bottleneck, response times.

use tamarisk_control::{Concurrency, PerSecond};

use super::{Network, Station, Workers};
use crate::queueing::{
    Accuracy, Equilibrium, LoadDependent, MultiServer, PhaseServer, PhaseType, ResponseTime,
    Unstable, rate,
};
use crate::seconds::Seconds;

/// What a network does in the long run.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Each stage, in the order of the network.
    pub stages: Vec<StageSolution>,
    /// Of all means.
    pub means: Accuracy,
    /// From an event's arrival to its exit.
    pub response: ResponseTime,
    /// Of the percentiles of `response`.
    pub percentiles: Accuracy,
}

/// One stage of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSolution {
    /// The stage's name.
    pub name: String,
    /// How often an event comes here, on average.
    pub visits: f64,
    /// What the stage does, at the rate at which events come to it.
    pub equilibrium: Equilibrium,
}

/// The network has no equilibrium, since one of its stages has none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("stage `{stage}` is {unstable}")]
pub struct Overloaded {
    /// The stage with the highest utilisation.
    pub stage: String,
    /// What comes to it and what it can do.
    pub unstable: Unstable,
}

/// What a network can bear.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The bottleneck: the stage that gives way first as arrivals grow.
    pub stage: String,
    /// The maximum stable rate of arrivals from outside, which itself is not
    /// stable [Welsh02 §4.1]. Zero if the stage can do nothing in the long run.
    pub arrivals: PerSecond,
}

impl Solution {
    /// How long an event is inside, on average.
    pub fn mean(&self) -> Seconds {
        let per_stage = self.stages.iter();
        let times = per_stage.map(|s| s.visits * s.equilibrium.response.mean().get());
        Seconds::computed(times.sum())
    }

    /// `E[N]`: events inside, on average.
    pub fn number(&self) -> f64 {
        self.stages.iter().map(|stage| stage.equilibrium.number).sum()
    }
}

/// A stage as queueing theory sees it.
enum Centre {
    MultiServer(MultiServer),
    LoadDependent(LoadDependent),
    PhaseServer(PhaseServer),
    /// Nothing leaves in the long run.
    Stuck,
}

impl Centre {
    fn capacity(&self) -> PerSecond {
        match self {
            Self::MultiServer(centre) => centre.capacity(),
            Self::LoadDependent(centre) => centre.capacity(),
            Self::PhaseServer(centre) => centre.capacity(),
            Self::Stuck => PerSecond::ZERO,
        }
    }

    fn at(&self, arrivals: PerSecond) -> Result<Equilibrium, Unstable> {
        match self {
            Self::MultiServer(centre) => centre.at(arrivals),
            Self::LoadDependent(centre) => centre.at(arrivals),
            Self::PhaseServer(centre) => centre.at(arrivals),
            Self::Stuck => Err(Unstable { arrivals, capacity: PerSecond::ZERO }),
        }
    }
}

impl Network {
    /// The network in equilibrium.
    ///
    /// # Errors
    /// [`Overloaded`] if there is none.
    pub fn solve(&self) -> Result<Solution, Overloaded> {
        let visits = self.visits();
        let centres = self.centres();
        let total = self.arrivals().get();
        let flow = |index: usize| rate(visits[index] * total);
        let solved: Result<Vec<StageSolution>, _> = (0..self.stages.len())
            .map(|index| {
                let equilibrium = centres[index].at(flow(index)).map_err(|_| index)?;
                let name = self.stages[index].name.clone();
                Ok::<_, usize>(StageSolution { name, visits: visits[index], equilibrium })
            })
            .collect();
        let stages = solved.map_err(|found| {
            let load = |i: &usize| flow(*i).get() / centres[*i].capacity().get();
            let worst = (0..centres.len()).filter(|i| visits[*i] > 0.0);
            let worst = worst.max_by(|a, b| load(a).total_cmp(&load(b))).unwrap_or(found);
            let unstable = Unstable { arrivals: flow(worst), capacity: centres[worst].capacity() };
            Overloaded { stage: self.stages[worst].name.clone(), unstable }
        })?;
        Ok(Solution {
            means: self.accuracy_of_means(&stages),
            percentiles: self.accuracy_of_percentiles(&stages),
            response: self.end_to_end(&stages),
            stages,
        })
    }

    /// The bottleneck, and what the network can bear with it.
    pub fn limit(&self) -> Limit {
        let visits = self.visits();
        let centres = self.centres();
        let bearable = |i: &usize| centres[*i].capacity().get() / visits[*i];
        let visited = (0..self.stages.len()).filter(|i| visits[*i] > 0.0);
        let bottleneck = visited.min_by(|a, b| bearable(a).total_cmp(&bearable(b)));
        let bottleneck = bottleneck.expect("what arrives comes to a stage");
        Limit { stage: self.stages[bottleneck].name.clone(), arrivals: rate(bearable(&bottleneck)) }
    }

    fn centres(&self) -> Vec<Centre> {
        self.stages.iter().map(|stage| self.centre(stage)).collect()
    }

    fn centre(&self, stage: &Station) -> Centre {
        let lost = self.penalty.lost(self.threads_on(stage.machine));
        let workers = match stage.workers {
            Workers::Bounded(workers) => workers,
            // With a penalty every event makes the stage slower, until none leaves.
            Workers::ThreadPerEvent if self.has_penalty() => {
                return Centre::Stuck;
            }
            Workers::ThreadPerEvent => Concurrency::new(u32::MAX),
        };
        let useful = stage.parallelism.map_or(workers, |parallelism| parallelism.min(workers));
        let service_rate = 1.0 / stage.service.mean_seconds();
        if stage.service.steps() > 1 || stage.variability.is_some() {
            // Deviation: the paper has no penalty for service of several steps. Ours
            // takes the same from the capacity, by making each step slower.
            let capacity = f64::from(useful.get()) * service_rate;
            let left = 1.0 - lost.get() / capacity;
            if left <= f64::EPSILON {
                return Centre::Stuck;
            }
            let service = stage.service.clone().accelerated(left);
            return Centre::PhaseServer(match stage.variability {
                Some(variability) => PhaseServer::general(service, variability, useful),
                None => PhaseServer::new(service, useful),
            });
        }
        let service_rate = rate(service_rate);
        let plain = lost == PerSecond::ZERO && useful == workers;
        let centre = if plain {
            MultiServer::new(service_rate, workers).map(Centre::MultiServer)
        } else {
            let parallelism = stage.parallelism.unwrap_or(workers);
            LoadDependent::new(service_rate, workers, parallelism, lost).map(Centre::LoadDependent)
        };
        centre.unwrap_or(Centre::Stuck)
    }

    /// m_t: the threads of a machine. Deviation: the printed sum begins with a stage
    /// 0 that there is none of [Welsh02 §4.2.1].
    fn threads_on(&self, machine: u32) -> u32 {
        let there = self.stages.iter().filter(|stage| stage.machine == machine);
        there.fold(0, |sum, stage| match stage.workers {
            Workers::Bounded(workers) => sum.saturating_add(workers.get()),
            Workers::ThreadPerEvent => sum,
        })
    }

    /// Whether anything goes from one stage to the other.
    fn goes(&self, stages: &[StageSolution], from: usize, to: usize) -> bool {
        stages[from].visits > 0.0 && self.routes[(from, to)] > 0.0
    }

    fn accuracy_of_means(&self, stages: &[StageSolution]) -> Accuracy {
        let size = stages.len();
        let harmless = |i: usize| {
            let Station { service, variability, .. } = &self.stages[i];
            service.steps() == 1 && variability.is_none()
                || (0..size).all(|to| !self.goes(stages, i, to))
        };
        let all = (0..size).filter(|&i| stages[i].visits > 0.0);
        all.map(|i| {
            let own = stages[i].equilibrium.means;
            if harmless(i) { own } else { Accuracy::Approximate }
        })
        .max()
        .unwrap_or(Accuracy::Exact)
    }

    fn accuracy_of_percentiles(&self, stages: &[StageSolution]) -> Accuracy {
        let size = stages.len();
        let exact = (0..size).filter(|&i| stages[i].visits > 0.0).all(|i| {
            let sources = (0..size).filter(|&from| self.goes(stages, from, i)).count();
            let outside = self.external[i] > 0.0;
            let fed_once = sources + usize::from(outside) == 1;
            let inner = sources > 0 && (0..size).any(|to| self.goes(stages, i, to));
            let single = self.stages[i].workers == Workers::Bounded(Concurrency::ONE);
            let own = stages[i].equilibrium.percentiles == Accuracy::Exact;
            own && !self.stages[i].reorders && fed_once && (single || !inner)
        });
        if exact { Accuracy::Exact } else { Accuracy::Approximate }
    }

    /// The time on an event's way, as if the stages were independent: one walk over
    /// the steps of all of them.
    fn end_to_end(&self, stages: &[StageSolution]) -> ResponseTime {
        if let [only] = stages
            && self.exits[0] == 1.0
        {
            return only.equilibrium.response.clone();
        }
        let walks: Vec<PhaseType> = stages.iter().map(|s| s.equilibrium.response.walk()).collect();
        let total = self.arrivals().get();
        let entry: Vec<f64> = self.external.iter().map(|rate| rate / total).collect();
        ResponseTime::phases(PhaseType::joined(&walks, &entry, &self.routes, &self.exits))
    }
}
