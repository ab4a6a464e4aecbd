//! The events of a stage, as its law sees them.

use std::time::Duration;

use crate::{BatchSize, ClassId, Timestamp};

/// An event that asks to enter a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its class, one of the stage's.
    pub class: ClassId,
    /// After this instant its answer is of no use to anyone.
    pub deadline: Option<Timestamp>,
    /// Which client it is from, or what else it is one of many of; 0 if that is
    /// not known.
    pub flow: u64,
    /// What kind of work it is: events of one kind take about as long. 0 if that is not
    /// known.
    pub kind: u64,
}

/// An event that has reached the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its class.
    pub class: ClassId,
    /// When it entered the stage.
    pub entered: Timestamp,
    /// After this instant its answer is of no use to anyone.
    pub deadline: Option<Timestamp>,
    /// Which client it is from, as it was on arrival.
    pub flow: u64,
    /// What kind of work it is, as it was on arrival.
    pub kind: u64,
}

/// An event that has run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its class.
    pub class: ClassId,
    /// From leaving the queue to its end.
    pub service: Duration,
    /// From entering the stage to its end; or from entering the service, where the stage is so
    /// [set](crate::MeasuredFrom).
    pub response: Duration,
    /// How it ended.
    pub ending: Ending,
    /// What kind of work it was, as it was on arrival.
    pub kind: u64,
    /// With how many others it was worked on in this time.
    pub together: Together,
}

/// How many events a worker worked on at once: their service time is that of all of them.
///
/// A worker that works on one event after the other works on each [alone](Self::ALONE), however
/// many it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// How many there were, the event included.
    pub count: BatchSize,
    /// How many there might have been, if as many had been queued.
    pub most: BatchSize,
}

impl Together {
    /// The event had its worker to itself.
    pub const ALONE: Self = Self { count: BatchSize::ONE, most: BatchSize::ONE };

    /// What one event cost of a time that was spent on all.
    #[inline]
    pub fn share(self, seconds: f64) -> f64 {
        if self.count == BatchSize::ONE { seconds } else { seconds / f64::from(self.count.get()) }
    }
}

/// An event whose place has changed otherwise than by starting to run or ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its class.
    pub class: ClassId,
    /// Which client it is from, as it was on arrival.
    pub flow: u64,
    /// What kind of work it is, as it was on arrival.
    pub kind: u64,
    /// What has changed.
    pub change: Change,
    /// How long it has been where it was: in the queue, or in service. Of
    /// [`Progressed`](Change::Progressed), the time since the first data.
    pub time: Duration,
}

/// How the place of an event has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It left the queue without running: it was dropped.
    Dropped,
    /// It left the queue without running, because its caller left.
    Abandoned,
    /// It gave up its place while it runs: it has run for longer than
    /// [`park_after`](crate::PlaceLimits::park_after) says.
    Parked,
    /// It ended after it had been parked; it held no place any more.
    ParkedEnded,
    /// Its caller is waited for; a stream's, before its first data. Whether it has given up its place
    /// meanwhile, the backlog shows.
    Suspended,
    /// It goes on after it was suspended, with its place.
    Resumed,
    /// The first data of a stream is out, which ends its response time. It keeps its place, and
    /// its end is [`Ending::Untimed`].
    FirstData,
    /// A stream has had eight more pieces of data since its first. `time` is what these took, less
    /// the time for which it was suspended.
    Progressed,
    /// A stream that has had its first data gave up its place, while its caller is waited for or
    /// while it sends nothing.
    StreamSuspended,
    /// A stream whose first data is out has its place again after it was suspended. If its first
    /// data came meanwhile, [`FirstData`](Self::FirstData) is not told.
    StreamResumed,
}

impl Change {
    /// All of them. New ones are added at the end: traces name them by their place.
    pub const ALL: [Self; 10] = [
        Self::Dropped,
        Self::Abandoned,
        Self::Parked,
        Self::ParkedEnded,
        Self::Suspended,
        Self::Resumed,
        Self::FirstData,
        Self::Progressed,
        Self::StreamSuspended,
        Self::StreamResumed,
    ];
}

/// How an event that ran came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With its work done: the sample speaks for the service.
    Completed,
    /// Without it (an error, a panic, a fast 5xx or 429 from an upstream). Its
    /// short time says nothing good: laws count it as slow.
    Failed,
    /// Ended early, because it was overdue, or worked on after its caller had left: it took at least
    /// this long.
    Terminated,
    /// Its times say nothing: a stream or tunnel after its head, or an event whose handler says so.
    /// But it did hold its place until now.
    Untimed,
    /// Ended early, because its caller left: it took at least this long. That the caller had not the
    /// patience does not make it late: unless it was already, nothing is known of that.
    Abandoned,
}
