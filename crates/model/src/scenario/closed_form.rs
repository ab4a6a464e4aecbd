//! The stages of a scenario as a queueing network with a closed form.

use std::ops::Range;
use std::time::Duration;

use tamarisk_control::{BatchSize, ClassId, Concurrency, PerSecond, Ratio, Strain};
use tamarisk_laws::Laws;
use tamarisk_settings::{ConfigError, Fault};

use super::File;
use super::places::StagePlace;
use crate::network::{InvalidNetwork, Network, Overloaded};
use crate::queueing::PhaseType;
use crate::seconds::Seconds;
use crate::sim::{Client, Discipline, Distribution, Load, Profile, Speed, Stage};

impl File {
    /// The same stages as a network, at the rate of the scenario's open clients or `at`
    /// another one. Queues have no bounds there, and nobody is rejected, loses patience
    /// or tries again.
    ///
    /// # Errors
    /// [`ConfigError`] shows what has no closed form: service without a variance, resources that stages share or have too little of, classes that are served
    /// differently, laws that change workers, batches or quality, loads that change, that answers slow
    /// down or of which several requests come at once.
    pub fn network(&self, at: Option<PerSecond>) -> Result<Network, ConfigError> {
        self.built(at).map_err(|fault| self.invalid(fault))
    }

    /// A network of this file without equilibrium, shown where its stage stands.
    pub fn overloaded(&self, error: &Overloaded) -> ConfigError {
        let stage = self.scenario.stages.iter().position(|stage| stage.name == error.stage);
        let (span, expected) = match stage {
            Some(index) => {
                let busy = error.unstable.utilisation().unwrap_or(f64::INFINITY);
                let workers = (f64::from(self.scenario.stages[index].workers) * busy).floor() + 1.0;
                let place = &self.places.stages[index];
                match self.scenario.stages[index].speed {
                    Speed::Full => (
                        place.workers.clone(),
                        format!("expected at least {workers} workers, or fewer arrivals"),
                    ),
                    _ => (place.speed.clone(), "expected more, or fewer arrivals".to_owned()),
                }
            }
            None => (0..0, "expected fewer arrivals".to_owned()),
        };
        self.invalid(Fault::new(span, error.to_string(), expected))
    }

    fn invalid(&self, fault: Fault) -> ConfigError {
        ConfigError::invalid(&self.name, &self.text, fault)
    }

    fn built(&self, at: Option<PerSecond>) -> Result<Network, Fault> {
        let mut builder = Network::builder();
        for (stage, place) in self.scenario.stages.iter().zip(&self.places.stages) {
            builder = builder.stage(self.closed_form(stage, place)?);
            for route in &stage.routes {
                builder =
                    builder.route(&stage.name, &route.to, Ratio::saturating(route.probability));
            }
            let gone: f64 = stage.routes.iter().map(|route| route.probability).sum();
            builder = builder.exit(&stage.name, Ratio::saturating(1.0 - gone));
        }
        for (stage, rate) in self.arrivals(at)? {
            builder = builder.arrivals(stage, rate);
        }
        let network = builder.build().map_err(|error| self.no_network(&error))?;
        match at {
            Some(at) => network.with_arrivals(at).map_err(|error| self.no_network(&error)),
            None => Ok(network),
        }
    }

    /// What comes by which stage. With a rate `at` which all is to be asked, only the
    /// proportions count.
    fn arrivals(&self, at: Option<PerSecond>) -> Result<Vec<(&str, PerSecond)>, Fault> {
        let clients = &self.scenario.clients;
        let places = clients.iter().zip(&self.places.clients);
        if let Some((client, place)) = places.clone().find(|(client, _)| client.calls > 1) {
            let Client { name, calls, .. } = client;
            let message =
                format!("the load of {name:?} has no closed form: {calls} requests come at once");
            let fault = Fault::new(place.calls.clone(), message, "expected one at a time");
            return Err(fault.help("simulate it: `tamarisk sim run`"));
        }
        let one_door = clients.iter().all(|client| client.entry == clients[0].entry);
        if let (Some(at), true) = (at, one_door) {
            return Ok(vec![(&clients[0].entry, at)]);
        }
        let rates = places.map(|(client, place)| {
            let rate = steady_rate(client).ok_or_else(|| {
                let message = format!("the load of {:?} has no closed form", client.name);
                let expected = "expected Poisson arrivals at a rate that stays";
                Fault::new(place.load.clone(), message, expected)
                    .help("ask at a rate (`--at 500/s`), or simulate it")
            })?;
            Ok((&*client.entry, rate))
        });
        rates.collect()
    }

    fn closed_form(
        &self,
        stage: &Stage,
        place: &StagePlace,
    ) -> Result<crate::network::Station, Fault> {
        let no_form = |span: &Range<usize>, why: &str, expected: &str| {
            let message = format!("stage {:?} has no closed form: {why}", stage.name);
            Fault::new(span.clone(), message, expected).help("simulate it: `tamarisk sim run`")
        };
        if !stage.service_of.is_empty() || !stage.routes_of.is_empty() {
            let expected = "expected the same for all classes";
            return Err(no_form(&place.key, "service or routes differ between classes", expected));
        }
        let is_uniform = stage.kinds.is_empty() && stage.lost == Ratio::ZERO;
        if !is_uniform || !stage.outages.is_empty() || !stage.pauses.is_empty() {
            let expected = "expected no kinds, pauses, outages or lost replies";
            return Err(no_form(
                &place.key,
                "it has kinds, pauses, outages or lost replies",
                expected,
            ));
        }
        if stage.workers == Stage::UNLIMITED {
            let expected = "expected a number of them";
            return Err(no_form(&place.workers, "unlimited workers", expected));
        }
        if stage.stretch != Profile::constant(1.0) {
            return Err(no_form(&place.slow, "its service time changes", "expected no change"));
        }
        let laws = self.laws.iter().find(|(name, _)| *name == stage.name);
        let laws = laws.map(|(_, laws)| laws);
        if laws.is_some_and(|laws| self.is_resized(laws)) {
            let expected = "expected a number of them";
            return Err(no_form(&place.workers, "a law sets its workers", expected));
        }
        if laws.is_some_and(|laws| self.is_degraded(laws)) {
            return Err(no_form(&place.quality, "a law sets its quality", "expected none"));
        }
        if !stage.batch_cost.is_zero() {
            return Err(no_form(&place.batch_cost, "batches have a cost", "expected none"));
        }
        if laws.is_some_and(|laws| self.is_batched(laws)) {
            let expected = "expected one event at a time";
            return Err(no_form(&place.batching, "workers take events in batches", expected));
        }
        if stage.service.iter().any(|step| step.on.is_some()) {
            return Err(no_form(
                &place.service,
                "it shares a resource",
                "expected work of its own",
            ));
        }
        let (service, variability) = match phases(stage) {
            Some(service) => (service, None),
            None => {
                let steps_max = (FITTED_STEPS / self.scenario.stages.len()).max(1);
                let fitted = fitted(stage, steps_max).ok_or_else(|| {
                    let expected = "expected times with a finite variance";
                    no_form(&place.service, "its service has no variance", expected)
                })?;
                (fitted.0, Some(fitted.1))
            }
        };
        let parallelism = match stage.speed {
            Speed::Full => None,
            Speed::Cores(cores) if cores.fract() == 0.0 && cores < f64::from(u32::MAX) => {
                Some(Concurrency::new(cores as u32))
            }
            _ => {
                return Err(no_form(
                    &place.speed,
                    "its speed is neither full nor whole cores",
                    "expected whole cores without a knee",
                ));
            }
        };
        let workers = Concurrency::new(stage.workers);
        Ok(crate::network::Station {
            parallelism,
            variability,
            reorders: stage.discipline != Discipline::Fifo && self.has_priorities(),
            ..crate::network::Station::new(&stage.name, service, workers)
        })
    }

    /// Whether a law changes the number of workers.
    fn is_resized(&self, laws: &Laws) -> bool {
        let law = laws.workers.as_ref().map(|law| law.make(&self.scenario.classes));
        law.is_some_and(|law| law.is_ok_and(|law| law.range().start() != law.range().end()))
    }

    /// Whether a law lets workers take several events at once.
    fn is_batched(&self, laws: &Laws) -> bool {
        let law = laws.batching.as_ref().map(|law| law.make(&self.scenario.classes));
        law.is_some_and(|law| law.is_ok_and(|law| law.most() > BatchSize::ONE))
    }

    /// Whether a law changes how much work events are.
    fn is_degraded(&self, laws: &Laws) -> bool {
        let law = laws.quality.as_ref().map(|law| law.make(&self.scenario.classes));
        law.is_some_and(|law| law.is_ok_and(|law| law.strain() != Strain::Fixed))
    }

    /// Whether events of one class go before those of another.
    fn has_priorities(&self) -> bool {
        let classes = &self.scenario.classes;
        let first = classes.at(ClassId::DEFAULT).priority;
        classes.iter().any(|(_, class)| class.priority != first)
    }

    fn no_network(&self, error: &InvalidNetwork) -> Fault {
        let place = match error {
            InvalidNetwork::NoArrivals => self.places.clients.first().map(|place| &place.load),
            InvalidNetwork::Sum { stage, .. } => {
                let place = self.places.stages.iter().find(|place| place.name == *stage);
                place.map(|place| &place.key)
            }
            _ => None,
        };
        Fault::new(place.cloned().unwrap_or(0..0), error.to_string(), "expected another network")
    }
}

fn steady_rate(client: &Client) -> Option<PerSecond> {
    let Load::Open { rate, gaps: Distribution::Exponential(_) } = &client.load else {
        return None;
    };
    let first = rate.value(Duration::ZERO);
    (*rate == Profile::constant(first)).then(|| PerSecond::new(first).ok())?
}

/// The service as exponential steps, if it is made of them.
fn phases(stage: &Stage) -> Option<PhaseType> {
    if let [step] = &stage.service[..]
        && let Distribution::HyperExponential(branches) = &step.work
    {
        let choice = |&(share, mean): &(f64, Duration)| Some((Ratio::new(share).ok()?, per(mean)?));
        return PhaseType::choice(&branches.iter().map(choice).collect::<Option<Vec<_>>>()?).ok();
    }
    let mut rates = Vec::new();
    for step in &stage.service {
        match &step.work {
            Distribution::Exponential(mean) => rates.push(per(*mean)?),
            Distribution::Erlang { stages, mean } => {
                let rate = PerSecond::new(per(*mean)?.get() * f64::from(*stages)).ok()?;
                rates.extend(std::iter::repeat_n(rate, *stages as usize));
            }
            _ => return None,
        }
    }
    PhaseType::sequence(&rates).ok()
}

/// Service of two moments in all stages together: percentiles of a network take the cube of its steps.
const FITTED_STEPS: usize = 128;

/// The service as a phase-type of the same mean and nearly the same variability, and that variability;
/// `None` if it has no variance. Steps are independent, so that their variances add up.
fn fitted(stage: &Stage, steps_max: usize) -> Option<(PhaseType, f64)> {
    let (mut mean, mut variance) = (0.0, 0.0);
    for step in &stage.service {
        let seconds = step.work.mean().ok()?.as_secs_f64();
        mean += seconds;
        variance += step.work.variation_squared().ok()? * seconds * seconds;
    }
    let variability = variance / (mean * mean);
    let service = PhaseType::of_moments(Seconds::computed(mean), variability, steps_max).ok()?;
    Some((service, variability))
}

fn per(mean: Duration) -> Option<PerSecond> {
    PerSecond::new(1.0 / mean.as_secs_f64()).ok()
}
