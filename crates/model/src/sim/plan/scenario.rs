//! A scenario as plain data: classes, stages, resources, clients, time.

use std::time::Duration;

use tamarisk_control::{Classes, GlobalLaw};
use tamarisk_laws::Named;

use super::client::Client;
use super::resource::Resource;
use super::stage::Stage;

/// Everything that a simulation is made of, except the stages' laws and the seed. Plain
/// data: [`Simulation::new`](crate::sim::Simulation::new) says what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What requests are told apart by; their targets are for the whole way through.
    pub classes: Classes,
    /// What laws tell apart besides.
    pub kinds: Vec<Kind>,
    /// Where they go.
    pub stages: Vec<Stage>,
    /// What stages share.
    pub resources: Vec<Resource>,
    /// Whom they come from.
    pub clients: Vec<Client>,
    /// The law over all stages together, if there is one.
    pub global: Option<Named<dyn GlobalLaw>>,
    /// What happens in this time counts for nothing but the state it leaves.
    pub warm_up: Duration,
    /// How long is measured after that.
    pub duration: Duration,
    /// Into so many parts the measured time is cut for confidence intervals by
    /// batch means, at most [`BATCHES_MAX`].
    pub batches: u32,
    /// How often the governors of the stages tick.
    pub tick: Duration,
}

/// More parts than this would be too short to be independent.
pub const BATCHES_MAX: u32 = 1000;

impl Scenario {
    /// An empty scenario: no warm-up, twenty batches, a tick each 100 ms as the live
    /// runtime's governor has it.
    pub fn new(classes: Classes, duration: Duration) -> Self {
        Self {
            classes,
            kinds: Vec::new(),
            stages: Vec::new(),
            resources: Vec::new(),
            clients: Vec::new(),
            global: None,
            warm_up: Duration::ZERO,
            duration,
            batches: 20,
            tick: Duration::from_millis(100),
        }
    }

    /// With one more kind of requests, of the class named `class`.
    #[must_use]
    pub fn kind(mut self, name: impl Into<String>, class: impl Into<String>) -> Self {
        self.kinds.push(Kind { name: name.into(), class: class.into() });
        self
    }

    /// With one more stage.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// With one more shared resource.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// With one more group of clients.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.clients.push(client);
        self
    }

    /// With this law over all stages together.
    #[must_use]
    pub fn global(mut self, law: Named<dyn GlobalLaw>) -> Self {
        self.global = Some(law);
        self
    }

    /// With stages that do `times` as much: their work takes as much less time. What comes stays
    /// as it is.
    #[must_use]
    pub fn capacity_times(mut self, times: f64) -> Self {
        for stage in &mut self.stages {
            stage.stretch = stage.stretch.clone().times(1.0 / times);
        }
        self
    }

    /// With this time before the measured one.
    #[must_use]
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }
}

/// A kind of requests: those of one kind take about as long. Laws see the place of the kind in
/// the scenario, counted from 1, and 0 for requests of no kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What mixes and stages call it; no class has the same name.
    pub name: String,
    /// The name of its class.
    pub class: String,
}
