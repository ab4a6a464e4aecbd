//! What the status port shows: stages, and the server before them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::panics;
use crate::profile::ProfileLog;
use http::StatusCode;
use tamarisk_stage::{Gate, StageObservation};

use super::{Rejection, Rejections, Token};

/// What the status shows: stages, and the server before them.
pub struct Board {
    stages: Vec<Observe>,
    gates: Vec<Gate>,
    counters: Vec<Counter>,
    profile: Option<ProfileLog>,
    rejections: Option<Rejections>,
    token: Option<Token>,
    traffic: Option<Traffic>,
    is_open: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    hosts: Vec<String>,
    started: Instant,
}

/// Something else that is counted.
pub(super) struct Counter {
    /// As in `lines_lost`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// How many connections there are, and the responses so far.
struct Traffic {
    connections: Box<dyn Fn() -> usize + Send + Sync>,
    responses: Box<dyn Fn() -> Vec<(StatusCode, u64)> + Send + Sync>,
}

type Observe = Box<dyn Fn() -> Vec<StageObservation> + Send + Sync>;

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// A board that shows nothing yet.
    pub fn new() -> Self {
        let board = Self {
            stages: Vec::new(),
            gates: Vec::new(),
            counters: Vec::new(),
            profile: None,
            rejections: None,
            token: None,
            traffic: None,
            is_open: None,
            hosts: Vec::new(),
            started: Instant::now(),
        };
        let help = "Panics of the process: mistakes of the program, each of which is in the log.";
        board.counter("panics", help, panics::count)
    }

    /// Shows a stage of any kind, which `observe` looks at.
    #[must_use]
    pub fn stage(self, observe: impl Fn() -> StageObservation + Send + Sync + 'static) -> Self {
        self.stages(move || vec![observe()])
    }

    /// Shows stages that come and go.
    #[must_use]
    pub fn stages(
        mut self,
        observe: impl Fn() -> Vec<StageObservation> + Send + Sync + 'static,
    ) -> Self {
        self.stages.push(Box::new(observe));
        self
    }

    /// Shows a gate. Its targets can be changed with the token.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        let gate = gate.clone();
        self.gates.push(gate.clone());
        self.stage(move || gate.observe())
    }

    /// Shows a count that only grows, which `read` reads: `name` is what is counted, as in
    /// `log_lines_lost`, and `help` a sentence about it.
    #[must_use]
    pub fn counter(
        mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.counters.push(Counter { name, help, read: Box::new(read) });
        self
    }

    /// Shows the log of the profiler, which can be switched with the token.
    #[must_use]
    pub fn profile_log(mut self, log: &ProfileLog) -> Self {
        self.profile = Some(log.clone());
        self
    }

    /// Shows these rejections, one by one. Those that they only count are left out of verdicts.
    #[must_use]
    pub fn rejections(mut self, rejections: &Rejections) -> Self {
        self.rejections = Some(rejections.clone());
        self
    }

    /// Allows changes with this token.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Answers requests for this host name, besides those for addresses, `localhost` and the name of
    /// the machine.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// The host names that [`host`](Self::host) has added.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Is unhealthy when this no longer holds, so that balancers look elsewhere.
    #[must_use]
    pub fn open_while(mut self, is_open: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_open = Some(Box::new(is_open));
        self
    }

    /// Shows how many connections there are, and the responses sent so far.
    #[cfg(feature = "server")]
    pub(super) fn traffic(
        mut self,
        connections: impl Fn() -> usize + Send + Sync + 'static,
        responses: impl Fn() -> Vec<(StatusCode, u64)> + Send + Sync + 'static,
    ) -> Self {
        let (connections, responses) = (Box::new(connections), Box::new(responses));
        self.traffic = Some(Traffic { connections, responses });
        self
    }

    /// Those whose targets may be changed.
    pub(super) fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// The token that allows changes, if anything does.
    pub(super) fn allowed(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Says that the process has served since then, and not from now on.
    #[must_use]
    pub fn since(mut self, started: Instant) -> Self {
        self.started = started;
        self
    }

    /// All stages at this instant.
    pub fn observe(&self) -> Vec<StageObservation> {
        self.stages.iter().flat_map(|observe| observe()).collect()
    }

    /// The log of the profiler, if there is one.
    pub(super) fn profile(&self) -> Option<&ProfileLog> {
        self.profile.as_ref()
    }

    pub(super) fn counters(&self) -> &[Counter] {
        &self.counters
    }

    pub(super) fn connections(&self) -> Option<usize> {
        self.traffic.as_ref().map(|traffic| (traffic.connections)())
    }

    /// The responses sent so far, by status; none if no server is shown.
    pub(super) fn responses(&self) -> Vec<(StatusCode, u64)> {
        self.traffic.as_ref().map_or_else(Vec::new, |traffic| (traffic.responses)())
    }

    /// The latest first.
    pub(super) fn latest_rejections(&self) -> Vec<Rejection> {
        self.rejections.as_ref().map_or_else(Vec::new, Rejections::latest)
    }

    /// How many requests `stage` has rejected because their clients left no time for an answer.
    pub(super) fn overdue(&self, stage: &str) -> u64 {
        self.rejections.as_ref().map_or(0, |rejections| rejections.overdue(stage))
    }

    /// The same of each stage.
    pub(super) fn all_overdue(&self) -> HashMap<Arc<str>, u64> {
        self.rejections.as_ref().map_or_else(HashMap::new, Rejections::all_overdue)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether no drain has started.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.as_ref().is_none_or(|is_open| is_open())
    }
}
