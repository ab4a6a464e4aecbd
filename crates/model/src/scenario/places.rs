//! Positions in the scenario file of the faults that the simulator finds.

use std::ops::Range;

use tamarisk_settings::Fault;

use crate::sim::{ClientProblem, InvalidScenario, StageProblem};

/// Places in the text, in bytes.
#[derive(Debug)]
pub(super) struct Places {
    duration: Range<usize>,
    batches: Range<usize>,
    pub(super) global: Range<usize>,
    pub(super) kinds: Range<usize>,
    /// In the scenario's order.
    pub(super) stages: Vec<StagePlace>,
    /// In the scenario's order.
    pub(super) clients: Vec<ClientPlace>,
}

/// Where a stage's parts stand; its name where a part is not said.
#[derive(Debug)]
pub(super) struct StagePlace {
    pub(super) name: String,
    pub(super) key: Range<usize>,
    pub(super) workers: Range<usize>,
    pub(super) service: Range<usize>,
    pub(super) speed: Range<usize>,
    pub(super) slow: Range<usize>,
    pub(super) batching: Range<usize>,
    pub(super) batch_cost: Range<usize>,
    pub(super) quality: Range<usize>,
    pub(super) clean_up: Range<usize>,
    pub(super) outages: Range<usize>,
    pub(super) pauses: Range<usize>,
    pub(super) kinds: Range<usize>,
    /// For all classes, and for those that differ.
    pub(super) routes: Vec<(Option<String>, Range<usize>)>,
}

/// The same of a group of clients.
#[derive(Debug)]
pub(super) struct ClientPlace {
    pub(super) name: String,
    pub(super) key: Range<usize>,
    pub(super) load: Range<usize>,
    pub(super) changes: Range<usize>,
    pub(super) mix: Range<usize>,
    pub(super) greedy: Range<usize>,
    pub(super) leaves: Range<usize>,
    pub(super) calls: Range<usize>,
    pub(super) resend: Range<usize>,
}

impl StagePlace {
    /// Where the routes of `class` stand.
    fn routes_of(&self, class: &str) -> Range<usize> {
        let own = self.routes.iter().find(|(name, _)| name.as_deref() == Some(class));
        own.map_or_else(|| self.routes[0].1.clone(), |(_, span)| span.clone())
    }
}

impl Places {
    pub(super) const fn new(duration: Range<usize>, batches: Range<usize>) -> Self {
        Self {
            duration,
            batches,
            global: 0..0,
            kinds: 0..0,
            stages: Vec::new(),
            clients: Vec::new(),
        }
    }

    /// The mistake that the simulator found, at its place.
    pub(super) fn fault(&self, error: &InvalidScenario) -> Fault {
        let message = error.to_string();
        match error {
            InvalidScenario::Count { what: "batches", most, .. } => {
                let expected = format!("expected a whole number from 1 to {most}");
                Fault::new(self.batches.clone(), message, expected)
            }
            InvalidScenario::Span(_) => {
                Fault::new(self.duration.clone(), message, "expected a valid duration")
            }
            InvalidScenario::Global(_) => {
                Fault::new(self.global.clone(), message, "expected another law, or fewer stages")
            }
            InvalidScenario::Stage { stage, problem } => self.stage_fault(stage, problem, message),
            InvalidScenario::Client { client, problem } => {
                self.client_fault(client, problem, message)
            }
            InvalidScenario::SameName(_) => {
                Fault::new(self.kinds.clone(), message, "expected another name")
            }
            _ => Fault::new(0..0, message, "expected another scenario"),
        }
    }

    fn stage_fault(&self, name: &str, problem: &StageProblem, message: String) -> Fault {
        let Some(place) = self.stages.iter().find(|place| place.name == name) else {
            return Fault::new(0..0, message, "expected another scenario");
        };
        let (span, expected) = match problem {
            StageProblem::Routes { class, .. } => {
                (place.routes_of(class), "expected probabilities of 1 in all, or less")
            }
            StageProblem::NoExit { class } => {
                (place.routes_of(class), "expected probabilities that add up to less than 1")
            }
            StageProblem::Steps { .. } | StageProblem::Service { .. } => {
                (place.service.clone(), "expected a valid distribution")
            }
            StageProblem::Speed(_) => (place.speed.clone(), "expected a positive speed"),
            StageProblem::BatchCost(_) => (place.batch_cost.clone(), "expected a valid duration"),
            StageProblem::CleanUp(_) => (place.clean_up.clone(), "expected a valid duration"),
            StageProblem::FirstData(_) => (place.kinds.clone(), "expected a valid duration"),
            StageProblem::Intervals("pauses") => {
                (place.pauses.clone(), "expected intervals in order of time")
            }
            StageProblem::Intervals(_) => {
                (place.outages.clone(), "expected intervals in order of time")
            }
            StageProblem::Stretch(_) => {
                (place.slow.clone(), "expected times in order, and finite factors")
            }
            _ => (place.key.clone(), "expected another stage"),
        };
        Fault::new(span, message, expected)
    }

    fn client_fault(&self, name: &str, problem: &ClientProblem, message: String) -> Fault {
        let Some(place) = self.clients.iter().find(|place| place.name == name) else {
            return Fault::new(0..0, message, "expected another scenario");
        };
        let (span, expected) = match problem {
            ClientProblem::Shares(_) => (place.mix.clone(), "expected shares that add up to 1"),
            ClientProblem::Rate(_) | ClientProblem::Users => {
                (place.changes.clone(), "expected changes in order of time")
            }
            ClientProblem::Greedy => {
                (place.greedy.clone(), "needs `open = \"100/s\"` and for example `flows = 100`")
            }
            ClientProblem::Leaves(_) => (place.leaves.clone(), "expected a valid duration"),
            ClientProblem::Calls(_) => (place.calls.clone(), "needs `open = \"10/s\"`"),
            ClientProblem::Resend => {
                (place.resend.clone(), "needs closed users, such as `closed = 250`")
            }
            ClientProblem::Unleaving => (place.leaves.clone(), "needs `open = \"100/s\"`"),
            _ => (place.key.clone(), "expected other clients"),
        };
        Fault::new(span, message, expected)
    }
}
