//! What a law over a whole graph of stages is told, and what it answers.
//!
//! The laws of a stage know their own queue and nothing of the stages behind. A
//! global law sees the whole: it decides who may enter the graph at all, so that nothing
//! is begun that a later stage would have to reject, and what each stage is to promise
//! for the whole to keep its own promise.
//!
//! The runtime asks it about each event that comes from outside, tells it a few times a
//! second who is inside, and now and then what has happened at the stages and between
//! them. What goes from stage to stage within is not asked about.

use std::fmt;
use std::time::Duration;

use crate::{ClassId, Classes, Concurrency, Decision, PerSecond, Reading, Target, Timestamp};

/// Stages that a graph under a law may have: the equations of 64 are solved within a millisecond.
pub const STAGES_MAX: usize = 64;

/// A graph under a law has no stages, or more than [`STAGES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a graph of {0} stages is not between 1 and {STAGES_MAX}")]
pub struct InvalidStageCount(usize);

impl InvalidStageCount {
    /// Whether a graph with this number of stages may have a law.
    ///
    /// # Errors
    /// This error if it cannot.
    pub fn check(stages: usize) -> Result<(), Self> {
        if (1..=STAGES_MAX).contains(&stages) { Ok(()) } else { Err(Self(stages)) }
    }
}

/// A law over a graph of stages, which it knows by their position.
pub trait GlobalLaw: Send + fmt::Debug {
    /// Its name, kebab case.
    fn name(&self) -> &'static str;

    /// An event asks to enter the graph from outside. Whom it lets in, the law of the
    /// stage may still reject.
    fn on_entry(&mut self, now: Timestamp) -> Decision;

    /// Time has passed, and `inside` events are in all stages together. Called at least
    /// once a second.
    fn on_tick(&mut self, now: Timestamp, inside: u64);

    /// How long a sample is to last.
    fn period(&self) -> Duration;

    /// A sample has ended.
    fn on_sample(&mut self, sample: &GraphSample<'_>);

    /// Positions mean other stages from now on, because one was removed: what was learned of each
    /// position is void. A stage that comes anew has a position behind all others, and is no reason.
    fn stages_changed(&mut self) {}

    /// What falls to a stage; `None` as long as that is not known.
    fn share(&self, stage: usize) -> Option<Share>;

    /// How many events a second a stage is to complete, by the number of its workers; `None` if
    /// that is not for this law to say.
    fn throughput(&self, _stage: usize) -> Option<PerSecond> {
        None
    }

    /// What a stage is to promise a class; `None` as long as that is not known.
    fn target(&self, stage: usize, class: ClassId) -> Option<Target>;

    /// The whole promises something else from now on. What was learned stays.
    fn set_targets(&mut self, classes: &Classes);

    /// Shows its estimates, in the units that their names end in.
    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>));
}

/// What one sample showed of a graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphSample<'a> {
    /// How long it lasted.
    pub lasted: Duration,
    /// Each stage, by its position.
    pub stages: &'a [StageSample],
    /// From which stage to which how many events were sent, those included that the
    /// receiver rejected: they were asked for. Two entries of one edge add up.
    pub edges: &'a [(usize, usize, f64)],
}

/// What one sample showed of one stage, all classes together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSample {
    /// How many it let in from outside the graph.
    pub entered: u64,
    /// How many ran to an end of whatever kind.
    pub processed: u64,
    /// How many it works on at once.
    pub workers: Concurrency,
    /// From leaving its queue to the end, recently; `None` if nothing ended.
    pub service: Option<Times>,
    /// From entering it to the end.
    pub response: Option<Times>,
}

/// A distribution of times in two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The mean.
    pub mean: Duration,
    /// The percentile that promises are about, or one above it.
    pub percentile: Duration,
}

/// What falls to a stage of the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// How often one request of the whole visits it.
    pub visits: f64,
    /// T_j: how many events a second it has to do when the whole does as much as
    /// it can.
    pub throughput: PerSecond,
    /// Which share of the whole's spare time it may keep events waiting for, a visit.
    pub spare: f64,
}
