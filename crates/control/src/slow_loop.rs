//! What the laws of the slow loops are told, and what they answer.
//!
//! An admission law answers for each event. These laws are asked once a tick, by the
//! governor of a stage, and change what the stage is: how many workers it has
//! ([`WorkersLaw`]), how many events a worker takes at once ([`BatchLaw`]), how well each
//! event is served ([`QualityLaw`]) and how long one may run ([`TerminationLaw`]).
//!
//! All four read the same [`Activity`], and all four can be told which way they may move
//! ([`Leeway`]) and asked how far they have gone ([`Strain`]): without that, laws that
//! answer the same symptom undo each other's work.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{
    Backlog, BatchSize, ClassId, Classes, Concurrency, Finished, PerSecond, Ratio, Reading,
    Timestamp,
};

/// What a stage has done, and what stands in it now, counted by the stage itself.
///
/// The counts only grow. A law works with their differences, and takes a count
/// that went back (the stage was replaced) for no difference.
#[derive(Clone, Copy, Debug)]
pub struct Activity<'a> {
    /// What is queued and running now.
    pub backlog: Backlog<'a>,
    /// Events that have asked to enter since the stage was made.
    pub offered: u64,
    /// Of these, the ones that were rejected, dropped or terminated.
    pub lost: u64,
    /// Of these, the ones whose work is done.
    pub completed: u64,
    /// Workers that have had nothing to do at all since the last tick: the workers
    /// less the most that ran at once.
    pub workers_idle: u32,
}

/// Which way a law may move when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leeway {
    /// As it sees fit.
    Either,
    /// Only against overload: more workers, less quality, shorter runs.
    Press,
    /// Only back: fewer workers, more quality, longer runs.
    Ease,
}

impl Leeway {
    /// Whether the law may do more against overload.
    #[inline]
    pub const fn may_press(self) -> bool {
        matches!(self, Self::Either | Self::Press)
    }

    /// Whether the law may give back what it has taken.
    #[inline]
    pub const fn may_ease(self) -> bool {
        matches!(self, Self::Either | Self::Ease)
    }
}

/// How far a law has gone against overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strain {
    /// It takes nothing that it could give back.
    Eased,
    /// It has gone some way, and can go further.
    Partial,
    /// It has done what it can.
    Spent,
    /// It goes nowhere: a law that changes nothing.
    Fixed,
}

impl Strain {
    /// Whether the law can do more against overload.
    #[inline]
    pub const fn can_press(self) -> bool {
        matches!(self, Self::Eased | Self::Partial)
    }

    /// Whether the law has something to give back.
    #[inline]
    pub const fn can_ease(self) -> bool {
        matches!(self, Self::Partial | Self::Spent)
    }
}

/// How many workers a stage has.
pub trait WorkersLaw: Send {
    /// The name that configuration files and status pages use.
    fn name(&self) -> &'static str;

    /// A tick: how many workers there are to be from now on.
    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> Concurrency;

    /// An event ended in whatever way after it had run.
    fn on_finish(&mut self, _now: Timestamp, _finished: &Finished) {}

    /// An event has come for which no worker is idle; with `wanted` workers none would wait. How
    /// many there are to be from now on, at least `workers`, which there are. It is admitted or
    /// rejected afterwards. By default nothing is started between ticks.
    fn on_shortage(
        &mut self,
        _now: Timestamp,
        _wanted: Concurrency,
        workers: Concurrency,
    ) -> Concurrency {
        workers
    }

    /// How many workers there will be, where there are `workers` now, if the next answers are no
    /// longer than those before: what an event that arrives now may count on.
    fn reach(&self, workers: Concurrency) -> Concurrency {
        workers
    }

    /// Whether the law acts when it is needed: it is then asked at each tick, and takes no turns
    /// with other laws.
    fn is_self_paced(&self) -> bool {
        false
    }

    /// As [`AdmissionLaw::set_targets`](crate::AdmissionLaw::set_targets).
    fn set_targets(&mut self, _classes: &Classes) {}

    /// A law over the whole graph has found how many events a second this stage is to
    /// complete; it counts until another is set.
    fn set_throughput(&mut self, _target: PerSecond) {}

    /// Something else changed what an event costs, or the law was not asked for a
    /// while: throughput from before must not be compared with what follows.
    fn on_shift(&mut self, _now: Timestamp, _activity: &Activity<'_>) {}

    /// The fewest and the most workers that it ever asks for, the fewest first.
    fn range(&self) -> RangeInclusive<Concurrency> {
        Concurrency::ONE..=Concurrency::new(u32::MAX)
    }

    /// For how long it has to be asked until it may move: the length of its sample. Zero if it may
    /// at each tick.
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether more workers can still be had, and whether some can be given back.
    fn strain(&self) -> Strain;

    /// The law's knobs and estimates, as [`AdmissionLaw::readings`](crate::AdmissionLaw::readings).
    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>));
}

/// How many events a worker may take at once.
pub trait BatchLaw: Send {
    /// The name that configuration files and status pages use.
    fn name(&self) -> &'static str;

    /// A tick: the greatest batch from now on. A queue that holds less makes a
    /// smaller one.
    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> BatchSize;

    /// As [`WorkersLaw::on_shift`].
    fn on_shift(&mut self, _now: Timestamp, _activity: &Activity<'_>) {}

    /// The greatest batch that it ever asks for, and begins with.
    fn most(&self) -> BatchSize {
        BatchSize::new(u32::MAX)
    }

    /// Whether the law is still looking for a better size. There is nothing to
    /// give back: without a queue a batch is one event, whatever its bound.
    fn strain(&self) -> Strain;

    /// The law's knobs and estimates, as [`AdmissionLaw::readings`](crate::AdmissionLaw::readings).
    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>));
}

/// How well events are served: a factor that a handler may read.
pub trait QualityLaw: Send {
    /// The name that configuration files and status pages use.
    fn name(&self) -> &'static str;

    /// An event ended in whatever way after it had run.
    fn on_finish(&mut self, now: Timestamp, finished: &Finished);

    /// A tick: the quality from now on, where [`Ratio::ONE`] is full quality.
    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> Ratio;

    /// Whether quality is full, and whether it is at its least.
    fn strain(&self) -> Strain;

    /// As [`AdmissionLaw::set_targets`](crate::AdmissionLaw::set_targets).
    fn set_targets(&mut self, _classes: &Classes) {}

    /// The law's knobs and estimates, as [`AdmissionLaw::readings`](crate::AdmissionLaw::readings).
    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>));
}

/// How long an event may run before it is ended.
pub trait TerminationLaw: Send {
    /// The name that configuration files and status pages use.
    fn name(&self) -> &'static str;

    /// Time has passed; [`limit`](Self::limit) may answer otherwise from now on.
    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway);

    /// How long an event of `class` may run, counted from leaving the queue. None
    /// if only its own deadline ends it.
    fn limit(&self, class: ClassId) -> Option<Duration>;

    /// As [`WorkersLaw::interval`].
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether every class has its greatest limit, and whether every one has its least.
    fn strain(&self) -> Strain;

    /// As [`AdmissionLaw::set_targets`](crate::AdmissionLaw::set_targets).
    fn set_targets(&mut self, _classes: &Classes) {}

    /// The law's knobs and estimates, as [`AdmissionLaw::readings`](crate::AdmissionLaw::readings).
    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>));
}
