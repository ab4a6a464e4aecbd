//! Useful workers: how many of a stage's workers raise its throughput.
//!
//! **Intuition.** Sixty-four clerks who share eight telephones serve no more callers than
//! eight do. Each call only takes eight times as long, and who is let into the
//! line of telephones can no longer be rejected, overtaken or dropped. So the rest had
//! better wait in the stage's queue, where the law decides about them.
//!
//! **Why the obvious way fails.** From service times alone it cannot be told whether service
//! has become slower or the workers crowd something: both look alike until fewer
//! work. Limits that compare with the best time ever seen shut a stage whose service
//! has drifted.
//!
//! **Mechanism.** Only while there is something to gain, in an overload in which an event
//! takes much longer than when nobody waits, a *trial* sends half of the workers away. If
//! they were of use, half of the output is gone, which shows within some thirty
//! events, and all come back. If the output stays, where another stage on
//! the same bottleneck has had the time to come to rest as well, half of them are enough, and the
//! next trial halves again, until service is short or a trial fails. From time to time a trial
//! of twice as many shows whether they are of use again. When work runs short, all come back.
//!
//! Outputs are compared by their likelihoods (`output.rs`): a trial lasts as long as it has to.
//! Events count by what their class takes, so that a trial which shifts the mix
//! of classes is no trial of that.
//!
//! **Source.** Our own. That throughput under a higher limit tells what a limit is worth is
//! how thread pools are sized by [Welsh02 §5.4.1]; the test of two rates is
//! that of two Poisson counts \[Przyborowski40\].
//!
//! **Limits.** Events that come out in bursts, and a neighbour whose load swings, say less
//! than they seem to; a wrong verdict lasts until the next trial. Where the
//! output is as good with a little less than half of the workers only, all are used. A stage
//! that is given more workers finds that out when it is no longer overloaded.

mod base_response;
mod output;
#[cfg(test)]
mod tests;
mod work;

use std::time::Duration;

use base_response::BaseResponse;
use output::Output;
use work::Work;

use tamarisk_control::{Backlog, ClassId, Concurrency, Timestamp};

use super::service_model::ServiceModel;

/// Workers crowd nothing of note while events take so many times as long as when nobody
/// waits …
const CROWDING: f64 = 3.0;
/// … or at most this share of the target; where it is not known how long they take when
/// nobody waits, …
const SERVICE_SHORT: f64 = 0.125;
/// … at most this one.
const SERVICE_LONG: f64 = 1.0 / 3.0;

/// What was measured longer ago than so many events is forgotten.
const EVENTS_KEPT: f64 = 512.0;
/// An output of fewer is not worth a trial yet.
const EVENTS_KNOWN: f64 = 100.0;
/// Where a trial has so many times the events that it is compared with, more would not make the
/// comparison more certain.
const ENOUGH_EVENTS: f64 = 2.0;

/// Twice as many workers are of use if they do this many times as much …
const GROWTH: (f64, f64) = (1.15, 1.5);
/// … and the logarithm of the likelihoods must differ by so much to say so, or not: one
/// error in 150 if events came out at random, and some room for those that do not.
const EVIDENCE: f64 = 5.0;
/// Half of the workers crowd nothing if they do half as much, and something if they do
/// two thirds, which a neighbour as busy takes from them at first.
const FUTILE: (f64, f64) = (1.5, 2.0);
/// Where a trial has gone on for long enough, more cannot be had than this.
const EVIDENCE_AT_LAST: f64 = 1.0;
/// That a trial is to change nothing is believed sooner: it may cost half of the output.
const EVIDENCE_AGAINST: f64 = 3.0;

/// A trial that passed leaves so many times its workers: a loss of a fifth passes as well as
/// none.
const MARGIN: f64 = 1.25;

/// After a trial that failed the next one comes after so many windows, …
const RETRY_AFTER: u32 = 8;
/// … after one that passed, …
const CONFIRM_AFTER: u32 = 8;
/// … and twice as many after each that changed nothing, up to these.
const TRIALS_APART_MAX: u32 = 128;

/// A neighbour on the same bottleneck has come to rest after so many targets …
const SETTLING: f64 = 1.0;
/// … and its load is that of its clients on average over so many.
const MEASURING: f64 = 2.0;

/// The search for the number of workers that are of use.
#[derive(Clone, Debug)]
pub(super) struct UsefulWorkers {
    /// The least target of all classes, in seconds.
    target: f64,
    phase: Phase,
    work: Work,
    /// How long an event takes when nobody waits.
    base: BaseResponse,
    /// All workers that there are.
    all: u32,
    /// As many work between trials.
    kept: u32,
    /// What these get done.
    output: Output,
    /// As many work in the present trial.
    tried: u32,
    stretches_to_trial: u32,
    trials_apart: u32,
    /// Half of the kept have been tried, and were too few.
    least: bool,
    /// Since the last completion somebody found all workers busy.
    turned_away: bool,
    /// So many more completions are those of an overload, since an event was rejected: where
    /// next to nobody is let in to wait, workers idle for moments.
    overloaded_for: u32,
}

/// Where the search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// All work.
    All,
    /// Fewer do, and are enough.
    Held,
    /// More work than are to in the trial.
    Draining,
    /// The trial has begun, and others may have to come to rest.
    Settling,
    Measuring,
}

/// Whether each worker has an event, or there is one that it is about to take: in a live
/// stage an event stands in the queue for a moment also if a worker is free. `more` are
/// about to come.
#[inline]
fn has_work_for_all(backlog: &Backlog<'_>, more: u32) -> bool {
    let inside = backlog.queued_total.saturating_add(backlog.running_total);
    inside.saturating_add(more) >= backlog.workers.get()
}

impl UsefulWorkers {
    pub(super) fn new(classes: usize, target: f64) -> Self {
        Self {
            target,
            phase: Phase::All,
            work: Work::new(classes),
            base: BaseResponse::new(),
            all: 1,
            kept: 1,
            output: Output::default(),
            tried: 1,
            stretches_to_trial: 0,
            trials_apart: RETRY_AFTER,
            least: false,
            turned_away: false,
            overloaded_for: 0,
        }
    }

    /// The least target of all classes is another one, in seconds.
    pub(super) fn set_target(&mut self, target: f64) {
        self.target = target;
    }

    /// How many are to work, if not all.
    #[inline]
    pub(super) fn limit(&self) -> Option<Concurrency> {
        let limit = match self.phase {
            Phase::All => return None,
            Phase::Held => self.kept,
            Phase::Draining | Phase::Settling | Phase::Measuring => self.tried,
        };
        Some(Concurrency::new(limit))
    }

    /// Events a second that come out, and how long one then takes, in seconds, where fewer
    /// than all have proved to be enough.
    #[inline]
    pub(super) fn known(&self) -> Option<(f64, f64)> {
        let limit = self.limit().filter(|_| self.kept < self.all)?;
        let rate = self.output.rate();
        (rate > 0.0).then(|| (rate, f64::from(limit.get()) / rate))
    }

    /// So many events ask to enter.
    #[inline]
    pub(super) fn on_arrival(&mut self, count: u32, backlog: &Backlog<'_>) {
        self.turned_away |= has_work_for_all(backlog, count - 1);
    }

    /// An event has been rejected: as many completions as there are workers are those of an
    /// overload.
    #[inline]
    pub(super) fn on_rejection(&mut self, backlog: &Backlog<'_>) {
        self.overloaded_for = backlog.workers.get();
    }

    /// Whether each event that ends is to be told: only while all go their way without a
    /// wait are a few of many enough.
    #[inline]
    pub(super) fn wants_each(&self, backlog: &Backlog<'_>) -> bool {
        let calm = self.phase == Phase::All && self.work.is_unpressed();
        !calm || self.turned_away || has_work_for_all(backlog, 0)
    }

    /// An event of `class` has been done after `service` and is no longer counted in
    /// `backlog`; what those of each class take is in `model`.
    #[inline]
    pub(super) fn on_completion(
        &mut self,
        now: Timestamp,
        class: ClassId,
        service: Duration,
        backlog: &Backlog<'_>,
        model: &ServiceModel,
    ) {
        if self.phase == Phase::All && backlog.workers == Concurrency::ONE {
            // There is nothing to try.
            self.all = 1;
        } else {
            self.search(now, class, service, backlog, model);
        }
    }

    fn search(
        &mut self,
        now: Timestamp,
        class: ClassId,
        service: Duration,
        backlog: &Backlog<'_>,
        model: &ServiceModel,
    ) {
        let turned_away = std::mem::take(&mut self.turned_away) || self.overloaded_for > 0;
        self.overloaded_for = self.overloaded_for.saturating_sub(1);
        let pressed = turned_away || has_work_for_all(backlog, 0);
        if self.limit().is_some_and(|limit| backlog.workers > limit) {
            // The stage does as another law says.
            self.put_off();
            self.enter(now, Phase::All);
        }
        if self.phase == Phase::All {
            let was_alone = self.all == 1;
            self.all = backlog.workers.get();
            self.kept = self.all;
            if was_alone || self.work.changes_by(pressed) {
                self.begin_anew(now, model);
            }
        }
        self.work.complete(now, class, service, pressed);
        match self.phase {
            Phase::All => self.watch(now),
            Phase::Held => self.hold(now),
            Phase::Draining if backlog.running_total < self.tried => {
                self.enter(now, Phase::Settling);
            }
            Phase::Draining => {}
            Phase::Settling => self.settle(now),
            Phase::Measuring => self.judge(now),
        }
    }

    /// An overload begins or ends: what was measured in another one is forgotten.
    fn begin_anew(&mut self, now: Timestamp, model: &ServiceModel) {
        self.work.weigh(model);
        self.output = Output::default();
        self.enter(now, Phase::All);
    }

    // All → Draining: in an overload events take much longer than they would.
    fn watch(&mut self, now: Timestamp) {
        if !self.work.speaks() {
            return;
        }
        if self.work.is_unpressed() {
            self.base.learn(now, self.work.service());
            if self.is_trial_due() {
                self.trials_apart = RETRY_AFTER;
            }
        } else {
            self.output = self.output.and(self.work.done()).as_at_most(EVENTS_KEPT);
            let is_known = self.output.events >= EVENTS_KNOWN;
            if is_known && self.is_trial_due() && self.is_crowded() && self.kept > 1 {
                self.least = false;
                return self.try_out(now, self.kept / 2);
            }
        }
        self.enter(now, Phase::All);
    }

    fn hold(&mut self, now: Timestamp) {
        if !self.work.speaks() || self.releases(now) {
            return;
        }
        self.output = self.output.as_at_most(EVENTS_KEPT / 2.0).and(self.work.done());
        if !self.is_trial_due() {
            self.enter(now, Phase::Held);
        } else if self.is_crowded() && !self.least && self.kept > 1 {
            self.try_out(now, self.kept / 2);
        } else {
            self.try_out(now, self.kept.saturating_mul(2).min(self.all));
        }
    }

    fn try_out(&mut self, now: Timestamp, workers: u32) {
        self.tried = workers;
        self.enter(now, if self.is_of_fewer() { Phase::Draining } else { Phase::Settling });
    }

    fn settle(&mut self, now: Timestamp) {
        if !self.work.is_no_burst() {
            return;
        }
        let done = self.work.done();
        let futile = self.is_of_fewer()
            && done.evidence(self.output, FUTILE.0, FUTILE.1) < -EVIDENCE_AGAINST;
        if futile {
            self.conclude(now, false);
        } else if !self.releases(now) && done.seconds >= SETTLING * self.target {
            self.enter(now, Phase::Measuring);
        }
    }

    fn judge(&mut self, now: Timestamp) {
        let (done, of_fewer) = (self.work.done(), self.is_of_fewer());
        let (fewer, more) = if of_fewer { (done, self.output) } else { (self.output, done) };
        let evidence = fewer.evidence(more, GROWTH.0, GROWTH.1);
        let for_change = if of_fewer { evidence } else { -evidence };
        let is_over = done.events >= ENOUGH_EVENTS * self.output.events;
        // What changes nothing need not wait for others to have come to rest.
        let changes = done.seconds >= MEASURING * self.target
            && for_change >= if is_over { EVIDENCE_AT_LAST } else { EVIDENCE };
        let is_decided = changes || for_change <= -EVIDENCE_AGAINST || is_over;
        if self.work.is_no_burst() && is_decided && !self.releases(now) {
            self.conclude(now, changes == of_fewer);
        }
    }

    /// The fewer of the kept and the tried are `enough`, or not.
    fn conclude(&mut self, now: Timestamp, enough: bool) {
        let (done, of_fewer) = (self.work.done(), self.is_of_fewer());
        if enough != of_fewer {
            self.least = of_fewer;
            self.put_off();
        } else if of_fewer {
            self.output = self.output.and(done).as_at_most(EVENTS_KEPT);
            self.least = false;
            let before = std::mem::replace(&mut self.kept, self.tried);
            if self.is_crowded() && self.kept > 1 {
                return self.try_out(now, self.kept / 2);
            }
            self.kept = ((f64::from(self.tried) * MARGIN).ceil() as u32).min(before);
            (self.stretches_to_trial, self.trials_apart) = (CONFIRM_AFTER, CONFIRM_AFTER);
        } else {
            self.output = done;
            self.kept = self.tried;
            // Twice as many may not be all that are of use; half as many are too few.
            self.least = true;
            (self.stretches_to_trial, self.trials_apart) = (0, RETRY_AFTER);
        }
        self.enter(now, if self.kept < self.all { Phase::Held } else { Phase::All });
    }

    /// The last trial has changed nothing: the next one is in no hurry.
    fn put_off(&mut self) {
        self.stretches_to_trial = self.trials_apart;
        self.trials_apart = self.trials_apart.saturating_mul(2).min(TRIALS_APART_MAX);
    }

    fn is_trial_due(&mut self) -> bool {
        let due = self.stretches_to_trial == 0;
        self.stretches_to_trial = self.stretches_to_trial.saturating_sub(1);
        due
    }

    // Any → All: work has run short.
    fn releases(&mut self, now: Timestamp) -> bool {
        let releases = self.work.is_slack();
        if releases {
            self.enter(now, Phase::All);
        }
        releases
    }

    fn is_of_fewer(&self) -> bool {
        self.tried < self.kept
    }

    /// Whether events take long enough for fewer workers to be of advantage.
    fn is_crowded(&self) -> bool {
        let alone = self.base.get().map_or(f64::INFINITY, |base| CROWDING * base);
        let short = alone.clamp(SERVICE_SHORT * self.target, SERVICE_LONG * self.target);
        self.work.service() > short
    }

    fn enter(&mut self, now: Timestamp, phase: Phase) {
        self.phase = phase;
        self.work.begin(now);
    }
}
