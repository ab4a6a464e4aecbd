//! Stall detection: notices that service has become much slower before the delayed events complete.
//!
//! **Intuition.** Who waits for a bus that comes every ten minutes, and has seen none for an
//! hour, does not wait for the next one in order to learn how long it took.
//!
//! **Why the obvious way fails.** An event tells how long it took when it is done. Where a
//! dependency has become five times as slow, for that long only quick ones are heard of,
//! and meanwhile a queue comes in that cannot be answered in time.
//!
//! **Mechanism.** Little's law \[Little61\]: workers that are all busy spend their number times the
//! time that passes, and what comes out is worth what its classes were measured to take. If over a
//! window that is less than a third, then service is *stalled*: the ratio is the *speed* of
//! service, and predictions heed it. A stall is over when measured times have caught up, when
//! as much comes out as should, or when half of the workers idle; and in any case once all measured
//! times are of events that have ended since. An event counts when it has ended, in whatever way: its
//! worker is free.
//!
//! A law that is not told what happens, as its ticks stay away, knows of no stall either.
//!
//! A window is as long as the longest recent event. Each worker has then ended an event, if service
//! is as it was: neither a batch that ends together nor long events that happen to meet are a stall.
//! Of service that is exponential, by chance less than a third of twenty events comes out in one window
//! of four thousand.
//!
//! **Limits.** What becomes less than three times as slow is left to the measured times, and so
//! are classes that are not known yet. Where a worker takes several events at once they all come out
//! in its time, and a stall has to be so much the worse to be noticed. Where one
//! event of hundreds takes seconds, so does noticing.

#[cfg(test)]
mod tests;

use std::time::Duration;

use tamarisk_control::{Backlog, ClassId, Timestamp};

use super::service_model::{SAMPLES_KEPT, ServiceModel};

/// Service is stalled at less than this speed, …
const STALLED: f64 = 1.0 / 3.0;
/// … until it has more than this one.
const CAUGHT_UP: f64 = 0.8;
/// No speed is less: a clock that jumps is no service.
const SPEED_MIN: f64 = 0.01;

/// A window lasts as long as the longest recent event, and until so many could have ended.
const WINDOW_EVENTS: f64 = 20.0;

/// At the promised percentile an event of a stalled service takes so many times what it does on
/// average. Where some sixty wait for one thing it is 1.2, for the sum of many waits varies little;
/// and the mean of the first window may be off by a fifth.
const QUANTILE: f64 = 1.3;

/// Twice as far apart as ticks may be ([`AdmissionLaw::on_tick`](tamarisk_control::AdmissionLaw::on_tick)): then
/// the law was not told what happened.
const TICKS_APART_MAX: Duration = Duration::from_secs(2);

/// Compares what workers spend with what comes out.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    /// Since then all workers have been busy …
    since: Timestamp,
    /// … and from then on that is long enough to say something: never, while one is idle.
    due: Timestamp,
    /// The last tick.
    ticked: Timestamp,
    workers: u32,
    /// Events of each class that have ended in the window.
    ended: Box<[u32]>,
    /// What an average event takes, in seconds, while service is stalled, or zero.
    seconds: f64,
    speed: f64,
    /// So many events more end until a stall that no window confirms is over.
    heeded_for: usize,
}

impl Stall {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            since: Timestamp::ZERO,
            due: Timestamp::MAX,
            ticked: Timestamp::ZERO,
            workers: 0,
            ended: vec![0; classes].into(),
            seconds: 0.0,
            speed: 1.0,
            heeded_for: 0,
        }
    }

    /// The work that workers do, in parts of what was measured: 1 unless service is stalled.
    #[inline]
    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    /// What an event takes at least, in seconds, where on average it was measured to take
    /// `mean`; zero unless service is stalled.
    #[inline]
    pub(super) fn service_min(&self, mean: f64) -> f64 {
        if self.is_stalled() { QUANTILE * mean / self.speed } else { 0.0 }
    }

    /// A worker is idle, or may have been: a window begins when all are busy again.
    #[inline]
    pub(super) fn on_idle(&mut self) {
        self.due = Timestamp::MAX;
    }

    /// An event of `class` has ended and is no longer counted in `backlog`.
    #[inline]
    pub(super) fn on_finish(
        &mut self,
        now: Timestamp,
        class: ClassId,
        backlog: &Backlog<'_>,
        model: &ServiceModel,
    ) {
        if self.is_stalled() {
            self.follow(backlog, model);
        }
        if backlog.has_idle_worker() {
            self.on_idle();
        } else if self.is_open(backlog) {
            let ended = &mut self.ended[class.index()];
            *ended = ended.saturating_add(1);
            self.judge_if_due(now, backlog, model);
        } else {
            self.open(now, backlog, model);
        }
    }

    /// Time has passed in which perhaps nothing has come out.
    pub(super) fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>, model: &ServiceModel) {
        let is_told = self.is_told(now);
        self.ticked = now;
        if backlog.has_idle_worker() || !is_told {
            self.on_idle();
        } else if self.is_open(backlog) {
            self.judge_if_due(now, backlog, model);
        }
    }

    /// What is known otherwise need not be guessed.
    #[inline]
    pub(super) fn end(&mut self) {
        (self.seconds, self.speed) = (0.0, 1.0);
    }

    #[inline]
    fn is_stalled(&self) -> bool {
        self.speed < 1.0
    }

    #[inline]
    fn is_open(&self, backlog: &Backlog<'_>) -> bool {
        self.due < Timestamp::MAX && self.workers == backlog.workers.get()
    }

    fn is_told(&self, now: Timestamp) -> bool {
        now.since(self.ticked) <= TICKS_APART_MAX
    }

    /// All workers have been busy from now on.
    fn open(&mut self, now: Timestamp, backlog: &Backlog<'_>, model: &ServiceModel) {
        self.since = now;
        self.workers = backlog.workers.get();
        self.ended.fill(0);
        let classes = (0..self.ended.len()).map(ClassId::new);
        let longest = classes.map(|class| model.longest(class)).fold(0.0, f64::max);
        let events = WINDOW_EVENTS * model.stage_mean() / f64::from(self.workers);
        let window = Duration::try_from_secs_f64((longest).max(events));
        self.due = now + window.unwrap_or(Duration::MAX);
    }

    #[inline]
    fn judge_if_due(&mut self, now: Timestamp, backlog: &Backlog<'_>, model: &ServiceModel) {
        if now >= self.due {
            self.judge(now, backlog, model);
        }
    }

    /// Compares the window with what `model` expects. That of a stall goes on: the longer, the
    /// better it tells how slow service is.
    fn judge(&mut self, now: Timestamp, backlog: &Backlog<'_>, model: &ServiceModel) {
        let average = model.stage_mean().max(1e-9);
        let running = (0..self.ended.len()).map(ClassId::new).zip(backlog.running);
        let unknown = running.filter(|&(class, _)| model.is_unknown(class));
        let unknown = unknown.map(|(_, &running)| running).fold(0, u32::saturating_add);
        let workers = f64::from(self.workers.saturating_sub(unknown));
        let spent = workers * now.since(self.since).as_secs_f64();
        let events = self.ended.iter().zip(model.means());
        let done: f64 = events.map(|(&ended, mean)| f64::from(ended) * mean).sum();
        // With no event out yet, one is about to be.
        let speed = (done.max(average) / spent).max(SPEED_MIN);
        let most = if self.is_stalled() { CAUGHT_UP } else { STALLED };
        if speed < most && self.is_told(now) {
            (self.seconds, self.speed) = (average / speed, speed);
            self.heeded_for = SAMPLES_KEPT;
        } else {
            self.end();
            self.open(now, backlog, model);
        }
    }

    /// Measured times catch up with a stall, event by event.
    fn follow(&mut self, backlog: &Backlog<'_>, model: &ServiceModel) {
        self.speed = (model.stage_mean() / self.seconds).max(SPEED_MIN);
        self.heeded_for = self.heeded_for.saturating_sub(1);
        // A single worker idles when nothing runs.
        let idles = backlog.running_total < (backlog.workers.get() / 2).max(1);
        if self.speed > CAUGHT_UP || self.heeded_for == 0 || idles {
            self.end();
        }
    }
}
