//! The records of a trace.

use std::time::Duration;

use tamarisk_control::{
    Arrival, ClassId, Classes, Concurrency, Decision, Dequeue, Finished, Moved, Order, Ratio,
    Target, Timestamp, Waiting,
};

/// Which law was listened to, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The stage that it ruled.
    pub stage: String,
    /// The law's name, as the catalogue has it.
    pub law: String,
    /// Its constants that were not the default ones.
    pub knobs: Vec<(String, f64)>,
    /// What it was made for.
    pub classes: Classes,
}

/// One thing that a law was told or asked, and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When, on the clock of the stage.
    pub at: Timestamp,
    /// What the law said of how many may be in progress, after this.
    pub limit: Option<Concurrency>,
    /// What happened.
    pub event: Event,
}

/// What a law can be told or asked: the methods of
/// [`AdmissionLaw`](tamarisk_control::AdmissionLaw).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An event asked to enter.
    Arrival {
        /// The event.
        arrival: Arrival,
        /// What the law said.
        decision: Decision,
    },
    /// An event was next to run.
    Dequeue {
        /// The event.
        waiting: Waiting,
        /// What the law said.
        answer: Dequeue,
    },
    /// A queued event was asked about.
    Sweep {
        /// The event.
        waiting: Waiting,
        /// What the law said.
        answer: Dequeue,
    },
    /// The stage asked for the end of the queue to serve.
    Order {
        /// How long the oldest event had waited.
        head_age: Duration,
        /// What the law said.
        answer: Order,
    },
    /// An event ended.
    Finish(Finished),
    /// The place of an event changed.
    Move(Moved),
    /// Time passed.
    Tick,
    /// How busy the processors were.
    Cpu(Ratio),
    /// Other targets were set, by one record for each class, all at once.
    Target {
        /// The class.
        class: ClassId,
        /// What it is promised from now on.
        target: Target,
        /// The next record is of the same change.
        more: bool,
    },
    /// So many records are missing here: the disk was too slow for them.
    Gap {
        /// How many.
        lost: u64,
    },
}

impl Event {
    /// Whether the law is told when it happens. What it is told without a time stands at that of the
    /// record before; as the first record of a trace, at none.
    pub const fn is_timed(&self) -> bool {
        !matches!(self, Self::Order { .. } | Self::Target { .. })
    }
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Why it ended.
    pub close: Close,
    /// How many were recorded, gaps not counted; of a full file the last of them are not
    /// in it.
    pub records: u64,
    /// How many are missing.
    pub lost: u64,
    /// The size of the file.
    pub bytes: u64,
}

/// Why a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Close {
    /// Whoever recorded it wanted no more.
    Finished,
    /// It had reached the size that it was given.
    Full,
}
