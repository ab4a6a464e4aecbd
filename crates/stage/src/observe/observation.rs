//! The observation of a stage at one instant.

use std::collections::BTreeMap;
use std::time::Duration;

use tamarisk_control::{PerSecond, Ratio, Reason};

use super::{Accounts, Percentiles, Profile, SenderObservation, ServiceProfile, TimeHistogram};

/// A stage at one instant. All numbers are of the same instant, and the
/// [`Accounts`] balance.
#[derive(Clone, Debug)]
pub struct StageObservation {
    /// The stage's name.
    pub name: String,
    /// Where its handler runs: `inline`, `gate`, `tasks` or `threads`.
    pub runs: &'static str,
    /// `open`, `draining` or `closed`.
    pub phase: Phase,
    /// How many events may be worked on at once.
    pub workers: u32,
    /// The share of its workers' time that was spent on events, in the last 5 to 10 seconds.
    pub busy: Ratio,
    /// How well events are to be served: 1 in full, less where a law has degraded
    /// the stage. Handlers read it as [`Context::quality`](crate::Context::quality).
    pub quality: Ratio,
    /// What a model needs of it.
    pub profile: Profile,
    /// Bound on the queue, in events.
    pub queue_capacity: usize,
    /// Each class, in the stage's order.
    pub classes: Vec<ClassObservation>,
    /// The stages that send to it.
    pub senders: Vec<SenderObservation>,
    /// Rejections so far, by reason.
    pub rejections: BTreeMap<Reason, u64>,
    /// How many events a worker takes at once at most, where a law sets it.
    pub batch: Option<u32>,
    /// Name of the admission law.
    pub law: &'static str,
    /// The laws that rule the stage, the admission law first.
    pub laws: Vec<LawObservation>,
    /// The law's settings and estimates.
    pub readings: Vec<LawReading>,
    /// The error of the latest failed event, cut to 200 characters.
    pub last_failure: Option<String>,
}

/// One class of a stage at one instant.
#[derive(Clone, Debug)]
pub struct ClassObservation {
    /// The class's name.
    pub name: String,
    /// The response time of its target.
    pub target: Duration,
    /// The percentile of its target, as a ratio.
    pub percentile: Ratio,
    /// How long an event may run, where a law sets it.
    pub run_limit: Option<Duration>,
    /// Arrivals and outcomes since the stage was made, and who is inside.
    pub accounts: Accounts,
    /// Arrivals, in the last 5 to 10 seconds.
    pub arrivals: PerSecond,
    /// From leaving the queue to the end, in the last 5 to 10 seconds.
    pub service: Option<Percentiles>,
    /// From entering the stage to the end, in the last 5 to 10 seconds.
    pub response: Option<Percentiles>,
    /// The response time at the percentile of the target, in the last 5 to 10 seconds.
    pub response_at_percentile: Option<Duration>,
    /// Time from entering the stage to the start, since the stage was made. As the other two,
    /// of the completed events whose times count; an inline stage times one in 64.
    pub queue_times: TimeHistogram,
    /// Time from the start to the end without suspensions, since the stage was made.
    pub service_times: TimeHistogram,
    /// Time from entering the stage to the end without suspensions, since the stage was made.
    pub response_times: TimeHistogram,
    /// What a model needs of its service.
    pub profile: Option<ServiceProfile>,
}

/// A law that rules a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct LawObservation {
    /// What it rules: `admission`, `dropping`, `workers`, `batching`, `quality` or
    /// `termination`.
    pub rules: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its constants, in the units that their names end in, if it was chosen by name.
    pub knobs: Vec<(&'static str, f64)>,
}

/// A setting or estimate of an admission law.
#[derive(Clone, Debug, PartialEq)]
pub struct LawReading {
    /// Snake case, unit last.
    pub name: String,
    /// Of which class, where the law keeps one for each.
    pub class: Option<String>,
    /// In the unit that the name ends in.
    pub value: f64,
}

/// Whether a stage takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It does.
    Open,
    /// It takes no new ones and finishes what is inside.
    Draining,
    /// It has been destroyed.
    Closed,
}

impl Phase {
    /// Lower case, for status pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "draining",
            Self::Closed => "closed",
        }
    }
}

impl StageObservation {
    /// The accounts of all classes together.
    pub fn total(&self) -> Accounts {
        let mut total = Accounts::default();
        for class in &self.classes {
            total += class.accounts;
        }
        total
    }
}
