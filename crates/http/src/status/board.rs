use std::time::{Duration, Instant};

use tamarisk_stage::{Gate, StageObservation};

use crate::server::{Drain, Server};

/// What the status shows: stages, and the server before them.
pub struct Board {
    stages: Vec<Observe>,
    server: Option<Server>,
    drain: Option<Drain>,
    started: Instant,
}

type Observe = Box<dyn Fn() -> StageObservation + Send + Sync>;

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// A board that shows nothing yet.
    pub fn new() -> Self {
        Self { stages: Vec::new(), server: None, drain: None, started: Instant::now() }
    }

    /// Shows a stage of any kind, which `observe` looks at.
    #[must_use]
    pub fn stage(mut self, observe: impl Fn() -> StageObservation + Send + Sync + 'static) -> Self {
        self.stages.push(Box::new(observe));
        self
    }

    /// Shows a gate.
    #[must_use]
    pub fn gate(self, gate: &Gate) -> Self {
        let gate = gate.clone();
        self.stage(move || gate.observe())
    }

    /// Shows how many connections a server has.
    #[must_use]
    pub fn server(mut self, server: &Server) -> Self {
        self.server = Some(server.clone());
        self
    }

    /// Is unhealthy from when this drain starts, so that balancers look elsewhere.
    #[must_use]
    pub fn drain(mut self, drain: &Drain) -> Self {
        self.drain = Some(drain.clone());
        self
    }

    pub(super) fn observe(&self) -> Vec<StageObservation> {
        self.stages.iter().map(|observe| observe()).collect()
    }

    pub(super) fn connections(&self) -> Option<usize> {
        self.server.as_ref().map(Server::connections)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether no drain has started.
    pub(super) fn is_open(&self) -> bool {
        !self.drain.as_ref().is_some_and(Drain::has_started)
    }
}
