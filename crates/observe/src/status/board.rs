//! What the status port shows: stages, and the server before them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::access_log::Log;
use crate::panics;
use crate::profile::ProfileLog;
use http::StatusCode;
use tamarisk_server::{Drain, Rejected, Server};
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
    server: Option<Server>,
    drain: Option<Drain>,
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

type Count = fn(Rejected) -> u64;

/// What is shown of whom a server rejects.
const REJECTED: [(&str, &str, Count); 6] = [
    (
        "connections_turned_away",
        "Connections rejected because the limit of connections or of open files was reached.",
        |rejected| rejected.turned_away,
    ),
    (
        "connections_gave_way",
        "Connections that let the server wait and were closed for new clients, because the limit of connections was reached.",
        |rejected| rejected.gave_way,
    ),
    (
        "connections_flooded",
        "HTTP/2 connections closed because of too many frames such as PING that bring nothing further.",
        |rejected| rejected.flooded,
    ),
    (
        "requests_malformed",
        "Requests rejected as malformed, before any stage received them.",
        |rejected| rejected.malformed,
    ),
    (
        "requests_too_large",
        "Requests rejected as too large, before any stage received them.",
        |rejected| rejected.too_large,
    ),
    (
        "requests_too_slow",
        "HTTP/1 requests rejected because they did not arrive in time.",
        |rejected| rejected.too_slow,
    ),
];

/// The same of a server that speaks TLS.
const HANDSHAKES: [(&str, &str, Count); 2] = [
    ("handshakes_rejected", "TLS handshakes that their stage rejected.", |rejected| {
        rejected.handshakes_rejected
    }),
    (
        "handshakes_failed",
        "TLS handshakes that failed: the client closed the connection, was too slow, or has no common version or cipher.",
        |rejected| rejected.handshakes_failed,
    ),
];

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
            server: None,
            drain: None,
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

    /// Shows a gate, whose targets whoever has the token may change.
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

    /// Counts the lines that `log` has lost.
    #[must_use]
    pub fn log(self, log: &Log) -> Self {
        let log = log.clone();
        let help = "Lines of the access log that could not be written.";
        self.counter("log_lines_lost", help, move || log.lost())
    }

    /// Shows the log of the profiler, which whoever has the token may switch.
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

    /// Allows changes to whoever has this token.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Shows how many connections a server has, what it has answered by status, and whom it has
    /// rejected before there was a request.
    #[must_use]
    pub fn server(mut self, server: &Server) -> Self {
        self.server = Some(server.clone());
        let handshakes = HANDSHAKES.into_iter().filter(|_| server.speaks_tls());
        REJECTED.into_iter().chain(handshakes).fold(self, |board, (name, help, of)| {
            let server = server.clone();
            board.counter(name, help, move || of(server.rejected()))
        })
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

    /// Is unhealthy from when this drain starts, so that balancers look elsewhere.
    #[must_use]
    pub fn drain(mut self, drain: &Drain) -> Self {
        self.drain = Some(drain.clone());
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
        self.server.as_ref().map(Server::connections)
    }

    /// The responses sent so far, by status; none if no server is shown.
    pub(super) fn responses(&self) -> Vec<(StatusCode, u64)> {
        self.server.as_ref().map_or_else(Vec::new, |server| server.responses().read())
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
        !self.drain.as_ref().is_some_and(Drain::has_started)
    }
}
