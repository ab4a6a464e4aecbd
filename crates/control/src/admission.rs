//! What every admission law is told, and what it answers.
//!
//! A stage, live or simulated, tells its law of each arrival, each event taken
//! from the queue and each one finished, in the order in which they happen, and
//! does as the law says. The law keeps estimates; the stage keeps the accounts
//! (who is queued, who runs), so the two can never disagree about what is inside.

use std::time::Duration;

use crate::{ClassId, Classes, Concurrency, Ratio, Timestamp};

/// A control law that decides who may enter a stage.
///
/// One method for each thing that can happen, called under the stage's lock:
/// each does a bounded amount of arithmetic and allocates nothing.
pub trait AdmissionLaw: Send {
    /// The name that configuration files and status pages use.
    fn name(&self) -> &'static str;

    /// An event asks to enter. An answer of [`Decision::Admit`] is binding: the
    /// stage queues or starts the event (`backlog` counts it from then on).
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision;

    /// The event that is next to run, about to leave the queue; `backlog` still
    /// counts it as queued. The answer says whether running it is still of use.
    fn on_dequeue(
        &mut self,
        _now: Timestamp,
        _waiting: &Waiting,
        _backlog: &Backlog<'_>,
    ) -> Dequeue {
        Dequeue::Run
    }

    /// `count` events like `arrival`, at least two, ask to enter together. `true` admits
    /// all of them, as binding as [`Decision::Admit`] for each; `false` decides nothing,
    /// and the stage asks for one after the other. A law that can judge many at the cost
    /// of one says `true` where it would have admitted each of them.
    fn admits_all(
        &mut self,
        _now: Timestamp,
        _arrival: &Arrival,
        _count: u32,
        _backlog: &Backlog<'_>,
    ) -> bool {
        false
    }

    /// `count` events of one class are next to run; none entered before `waiting`, and
    /// none is due before it. `true` runs all of them, `false` decides nothing, as with
    /// [`admits_all`](Self::admits_all).
    fn runs_all(
        &mut self,
        _now: Timestamp,
        _waiting: &Waiting,
        _count: u32,
        _backlog: &Backlog<'_>,
    ) -> bool {
        false
    }

    /// The same question about any queued event, at any time: a stage clears out
    /// what is of no use any more, wherever it stands, for what waits behind a
    /// higher priority may never become next. By default the answer is that of
    /// [`on_dequeue`](Self::on_dequeue); a law that learns from what leaves the
    /// queue learns nothing from this.
    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.on_dequeue(now, waiting, backlog)
    }

    /// Which end of the queue to serve, asked when the stage's discipline leaves
    /// it open. `head_age` is how long the oldest event has waited.
    fn order(&self, _head_age: Duration) -> Order {
        Order::OldestFirst
    }

    /// An event ended in whatever way after it had run; `backlog` no longer counts it.
    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>);

    /// `count` events that entered, ran and ended together; `backlog` counts none of
    /// them any more.
    fn on_finish_all(
        &mut self,
        now: Timestamp,
        finished: &Finished,
        count: u32,
        backlog: &Backlog<'_>,
    ) {
        (0..count).for_each(|_| self.on_finish(now, finished, backlog));
    }

    /// Time has passed; called at least once a second, and as often as the
    /// governor of the stage ticks.
    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>);

    /// How much of the machine's processors has been in use of late, told about
    /// every 100 ms by whoever can see it; a law that does not ask for it ignores it.
    fn on_cpu(&mut self, _now: Timestamp, _busy: Ratio) {}

    /// What is promised has changed: the targets are those of `classes`, which are
    /// otherwise the classes that the law was made for. A law keeps what it has
    /// learned, and holds to the new targets from its next decision on. By default
    /// nothing happens: that is right for a law that looks at no target.
    fn set_targets(&mut self, _classes: &Classes) {}

    /// The place of an event has changed otherwise than by the calls above; `backlog` counts
    /// it where it is now. Events that the law itself dropped are among them.
    fn on_move(&mut self, _now: Timestamp, _moved: &Moved, _backlog: &Backlog<'_>) {}

    /// After how long in service an event gives up its place, if the law cannot learn from
    /// it any more what others will take. Asked about every running event at each tick.
    fn park_after(&self, _class: ClassId, _kind: u64) -> Option<Duration> {
        None
    }

    /// When a queued event is due, in a stage that serves its queue in order of due times.
    /// By default that is the order of arrival.
    fn due(&self, waiting: &Waiting) -> Timestamp {
        waiting.entered
    }

    /// Whether an event of this class and kind may take one of the free places now, or has
    /// to leave it to others. Asked where the stage serves its queue in order of due times,
    /// about the first event of each kind, and about events that find the queue empty.
    fn may_start(&self, _class: ClassId, _kind: u64, _backlog: &Backlog<'_>) -> bool {
        true
    }

    /// How many events the law wants in progress at once, if it has a say
    /// (a law for an upstream whose workers it cannot see). The answer may change
    /// with every call above; the stage starts no event beyond it, ends none
    /// because of it, and passes it as `backlog.workers`.
    fn concurrency(&self) -> Option<Concurrency> {
        None
    }

    /// How many of the stage's own workers are of use, if not all are (a law that has
    /// seen them crowd something behind the stage). The answer may change with every call
    /// above; the others idle meanwhile, and `backlog.workers` does not count them.
    fn useful_workers(&self) -> Option<Concurrency> {
        None
    }

    /// How many events may be in progress at once in a stage with so many workers:
    /// [`concurrency`](Self::concurrency), if the law decides it, or the
    /// [`useful`](Self::useful_workers) ones of the workers.
    fn places(&self, workers: Concurrency) -> Concurrency {
        match (self.concurrency(), self.useful_workers()) {
            (Some(limit), _) => limit,
            (None, Some(useful)) => useful.min(workers),
            (None, None) => workers,
        }
    }

    /// The law's knobs and estimates, for status pages and traces. Names are
    /// snake case and end in their unit.
    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>));
}

/// One number that a law shows: a knob or an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    /// Snake case, unit last: `gate_ratio`, `wait_predicted_seconds`.
    pub name: &'a str,
    /// Of which class, where the law keeps one for each.
    pub class: Option<ClassId>,
    /// In the unit that the name ends in.
    pub value: f64,
}

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
    /// From entering the stage to its end.
    pub response: Duration,
    /// How it ended.
    pub ending: Ending,
    /// What kind of work it was, as it was on arrival.
    pub kind: u64,
}

/// An event whose place has changed otherwise than by starting to run or ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its class.
    pub class: ClassId,
    /// What kind of work it is, as it was on arrival.
    pub kind: u64,
    /// What has changed.
    pub change: Change,
    /// How long it has been where it was: in the queue, or in service.
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
    /// [`park_after`](AdmissionLaw::park_after) says.
    Parked,
    /// It ended after it had been parked; it held no place any more.
    ParkedEnded,
    /// It gave up its place while its caller is waited for.
    Suspended,
    /// It has its place again after it was suspended.
    Resumed,
    /// The first data of a stream is out, which ends its response time. It keeps its place, and
    /// its end is [`Ending::Untimed`].
    FirstData,
}

impl Change {
    /// All of them. New ones are added at the end: traces name them by their place.
    pub const ALL: [Self; 7] = [
        Self::Dropped,
        Self::Abandoned,
        Self::Parked,
        Self::ParkedEnded,
        Self::Suspended,
        Self::Resumed,
        Self::FirstData,
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
    /// Ended early, overdue or abandoned: it took at least this long.
    Terminated,
    /// It no longer counts towards response times (a stream or tunnel after
    /// its head), but it did hold its place until now. Reported when the head is
    /// out: an event that keeps its place keeps it from others.
    Untimed,
}

/// What stands in the stage at this instant, counted by the stage itself.
#[derive(Clone, Copy, Debug)]
pub struct Backlog<'a> {
    /// Events in the queue, for each class.
    pub queued: &'a [u32],
    /// Events being worked on, for each class.
    pub running: &'a [u32],
    /// Events in the queue, of all classes.
    pub queued_total: u32,
    /// Events being worked on, of all classes.
    pub running_total: u32,
    /// How many can be worked on at once.
    pub workers: Concurrency,
}

impl Backlog<'_> {
    /// Whether an event that arrives now would be worked on at once.
    #[inline]
    pub fn has_idle_worker(&self) -> bool {
        self.queued_total == 0 && self.running_total < self.workers.get()
    }
}

/// The answer to an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Let it in.
    Admit,
    /// Refuse it now.
    Reject(Rejection),
}

/// The answer to an event that is next to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dequeue {
    /// Work on it.
    Run,
    /// Drop it: it would come too late.
    Drop,
}

/// Which end of the queue is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// First in, first out.
    OldestFirst,
    /// Last in, first out: under overload the newest still have time left.
    NewestFirst,
}

/// A refusal, and when trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which rule refused.
    pub reason: Reason,
    /// When the same event may be let in, if that can be told.
    pub retry_after: Option<Duration>,
}

impl Rejection {
    /// A refusal that cannot say when to retry.
    pub const fn new(reason: Reason) -> Self {
        Self { reason, retry_after: None }
    }

    /// The same refusal with the time after which to try again.
    #[must_use]
    pub const fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

/// Which rule refused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No token is left: the admission rate is used up.
    RateExceeded,
    /// A fixed bound on the queue's length was reached.
    QueueFull,
    /// The event would miss its target or its deadline.
    PredictedLate,
    /// A queue has been standing for too long; it is being cleared.
    StandingQueue,
    /// As many are inside as the law lets in at once.
    ConcurrencyLimit,
    /// The load leaves room for higher priorities only.
    PriorityCutoff,
    /// Its client or class has had more than its share of the capacity.
    ShareExceeded,
    /// The lot fell on it: a share of all is refused early, before a bound is reached.
    Random,
    /// The owner's own predicate said no.
    Predicate,
    /// The stage is draining and takes nothing new.
    Draining,
    /// The stage has been destroyed.
    Closed,
}

impl Reason {
    /// All of them. New ones are added at the end: traces name them by their place.
    pub const ALL: [Self; 11] = [
        Self::RateExceeded,
        Self::QueueFull,
        Self::PredictedLate,
        Self::StandingQueue,
        Self::ConcurrencyLimit,
        Self::PriorityCutoff,
        Self::ShareExceeded,
        Self::Random,
        Self::Predicate,
        Self::Draining,
        Self::Closed,
    ];

    /// Snake case, for metrics and status pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateExceeded => "rate_exceeded",
            Self::QueueFull => "queue_full",
            Self::PredictedLate => "predicted_late",
            Self::StandingQueue => "standing_queue",
            Self::ConcurrencyLimit => "concurrency_limit",
            Self::PriorityCutoff => "priority_cutoff",
            Self::ShareExceeded => "share_exceeded",
            Self::Random => "random",
            Self::Predicate => "predicate",
            Self::Draining => "draining",
            Self::Closed => "closed",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::RateExceeded => "the admission rate is used up",
            Self::QueueFull => "the queue is full",
            Self::PredictedLate => "it would be answered too late",
            Self::StandingQueue => "a standing queue is being cleared",
            Self::ConcurrencyLimit => "as many are inside as may be at once",
            Self::PriorityCutoff => "there is room for higher priorities only",
            Self::ShareExceeded => "its client or class has had more than its share",
            Self::Random => "a share of all is refused, and the lot fell on it",
            Self::Predicate => "the stage's predicate refused it",
            Self::Draining => "the stage is draining",
            Self::Closed => "the stage is closed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_listed_in_its_place() {
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
        assert_eq!(Reason::Closed as usize, Reason::ALL.len() - 1, "the last one");
    }
}
