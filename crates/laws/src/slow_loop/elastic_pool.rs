//! A worker for each event that comes, as long as more workers make no answer longer.
//!
//! **Intuition.** A café that hands out numbers needs no more tills than it has cooks, and one
//! whose guests only wait for the post needs a chair for each. Nobody can see from the line at the
//! door which of them it is. But if each guest who is let in stays as long as the first did, there is
//! no reason to keep one outside.
//!
//! **Why the obvious way fails.** Workers that are added one a second (`PoolSizing` of `tamarisk-laws-papers`)
//! come a minute too late for work that only waits: meanwhile the admission law rejects what nothing
//! is short of. A worker for each event, without a bound, is right for such work; where events share a
//! processor, a lock or a database, all of them then take as long as the queue would have been, out of
//! sight of the law that decides who waits.
//!
//! **Mechanism.** An event that finds no idle worker gets a new one at once. What the service time s
//! and the rate of completions X say is looked at in *rounds*: a round lasts for as long as its events
//! took, and for as many as there are workers (4 to 8).
//! ```text
//! s ≤ 2·b                                        free: n ← as many as are wanted
//! s > 2·b, where n has grown by a quarter        contended: n ← 1.5·X·b
//! ```
//! b is the *base*, the service time while workers crowd nothing: that of the first round, and of
//! each that is shorter. By Little's law \[Little61\] X·b are those of the n workers that work; the
//! others wait in the service for each other.
//!
//! *A step back is a trial.* Longer answers may come from the service itself, a slow disk or another
//! kind of events; then fewer workers do less. If X falls by a quarter, b is what answers take now, and
//! the pool is free again. If instead answers become shorter, there is a bottleneck: from then on the
//! pool at most doubles in a round, also when it is free. While it is contended and still short, a
//! trial of twice as many after 8 rounds (then 16, … 128) shows whether they are of use again.
//!
//! Until a trial has shown otherwise, answers longer than the target are contended whatever the base is, and
//! of this no more than a quarter of the target counts: what the first round measured may be crowded itself.
//!
//! *How much may be started on trust* before the first round is over is what a worker costs: any
//! number of tasks; of threads and processes twice as many a round.
//!
//! *Where next to nothing ends*, a round never does. After half a target the pool stops growing, for workers
//! that take turns at a processor may keep each other from ever coming to an end.
//!
//! *Back* it goes, besides, by those that were idle for 5 s, and at once by those that were idle at two
//! ticks in which events waited: what runs them is short of something else.
//!
//! **Source.** Our own. A limit that follows from a base and the present response time is that of
//! gradient limiters (`Gradient2` of `tamarisk-laws-rivals`); growth that is geometric while nothing speaks
//! against it is slow start \[Jacobson88\]; a smaller pool as a trial is from [Welsh02 §5.4.1].
//!
//! **Limits.** A base that was measured while another stage crowded the same bottleneck is too long, and
//! with it the pool too large, up to answers as long as the target. Service that becomes slow by itself
//! costs one round with too few workers, if the pool has to grow then.

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, Classes, Concurrency, Ending, Finished, Leeway, Reading, Strain, Timestamp,
    WorkersLaw,
};

use super::idle_workers::IdleWorkers;
use crate::constants::constants;

constants! {
    /// Of [`ElasticPool`].
    pub(crate) struct ElasticPoolConstants {
        /// the fewest, and the first
        workers_min_count: Concurrency = 1.0 in 1.0..=32_768.0,
        /// the most
        workers_max_count: Concurrency = 64.0 in 1.0..=32_768.0,
        // Doubling finds any number within a few rounds, and costs twice of what was needed.
        /// how many times as many may start before answers tell whether they grow longer
        trust_ratio: f64 = 2.0 in 1.0..=32_768.0,
    }
}

/// Answers are contended when they take this many times the base: a mean of eight service times that vary as
/// much as exponential ones is twice as long as it should be once in a hundred rounds.
const CONTENDED: f64 = 2.0;
/// Contended workers are cut to this many times those that work. Some then wait for the bottleneck, so
/// that it never idles.
const HEADROOM: f64 = 1.5;
/// A pool crowds nothing while its answers take at most this many times the base, …
const FREE: f64 = 1.25;
/// … and one that has grown by less than this has not made its answers longer.
const GROWN: f64 = 1.25;
/// Where there is a bottleneck, the pool grows by so much in a round.
const GROWTH: f64 = 2.0;

/// Fewer workers do less if they do this share of what more did …
const LESS: f64 = 0.75;
/// … and twice as many do more if they do this many times as much.
const MORE: f64 = 1.25;

/// A round has as many completions as there are workers, within these: four are two of each of
/// two workers, and in the time of more than eight a pool of tasks outgrows what it waits for.
const COMPLETIONS: RangeInclusive<u32> = 4..=8;

/// In seconds: while all that is inside is less work than this, another worker is of no use, for waking
/// it may take as long.
const WORK: f64 = 0.001;

/// When no round has ended for half a target, or twice the base, no workers are added for this many
/// times as long: they may keep each other from it. After that events just take long, and the pool grows
/// by a quarter in each such time.
const SILENCE: f64 = 8.0;

/// A base of more than this share of the target may have been crowded when it was measured, until a
/// trial shows otherwise. With 1.5 times as much, most of the target is left to the queue.
const UNPROVEN: f64 = 0.25;

/// The weight of a round that is shorter than the base: one lucky round is not it.
const BASE_GAIN: f64 = 0.25;

/// Rounds from one trial of more workers to the next: at first, and at most.
const TRIALS_APART: u32 = 8;
const TRIALS_APART_MAX: u32 = 128;

/// As many workers as there are events, while answers do not grow longer.
#[derive(Clone, Debug)]
pub struct ElasticPool {
    least: u32,
    most: u32,
    size: u32,
    /// How many it may grow to before the round is over.
    limit: u32,
    /// How many times as many may start in a round that is free.
    trust: f64,
    growth: f64,
    /// The longest target, in seconds.
    target: f64,
    base: BaseService,
    round: Round,
    /// The size that it had when its answers were last not contended.
    proven: u32,
    is_held: bool,
    trial: Option<Trial>,
    /// Rounds until a trial of more workers, while it is held.
    until_trial: u32,
    trials_apart: u32,
    /// Since when workers have been short in this round, and when they were last.
    short: Option<(Timestamp, Timestamp)>,
    idle: IdleWorkers,
    /// Workers that were idle at the last tick, at which events waited.
    useless: u32,
}

/// The service time while workers crowd nothing.
#[derive(Clone, Copy, Debug, Default)]
struct BaseService {
    seconds: Option<f64>,
    /// A trial has shown that it is what an event takes, however few others are in service.
    is_proven: bool,
}

/// Completions since an instant. Events that ended together count as one.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Option<Timestamp>,
    ended: f64,
    completed: f64,
    service: f64,
    /// No worker was idle for an event that came.
    was_short: bool,
}

/// What a round showed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Completions a second.
    rate: f64,
    /// In seconds, on average.
    service: f64,
    size: u32,
}

/// A change of the size that is to show what workers are worth: what was seen before it.
#[derive(Clone, Copy, Debug)]
enum Trial {
    Fewer(Seen),
    /// What the further workers do comes out a round later.
    More {
        before: Seen,
        is_settled: bool,
    },
}

impl ElasticPool {
    /// Between the ends of `workers`, beginning with the fewer. Before answers tell anything, it
    /// starts up to `trust` times as many. `target` is the longest response time that is promised.
    ///
    /// A range whose end lies below its start has one size, its start.
    pub fn new(workers: RangeInclusive<Concurrency>, trust: f64, target: Duration) -> Self {
        let constants = ElasticPoolConstants {
            workers_min_count: *workers.start(),
            workers_max_count: *workers.end(),
            trust_ratio: trust.max(1.0),
        };
        Self::with(&constants, target)
    }

    pub(crate) fn with(constants: &ElasticPoolConstants, target: Duration) -> Self {
        let least = constants.workers_min_count.get();
        let mut law = Self {
            least,
            most: constants.workers_max_count.get().max(least),
            size: least,
            limit: least,
            trust: constants.trust_ratio,
            growth: constants.trust_ratio,
            target: target.as_secs_f64(),
            base: BaseService::default(),
            round: Round::default(),
            proven: least,
            is_held: false,
            trial: None,
            until_trial: TRIALS_APART,
            trials_apart: TRIALS_APART,
            short: None,
            idle: IdleWorkers::default(),
            useless: 0,
        };
        law.limit = law.times(law.growth);
        law
    }

    /// A round is over.
    fn judge(&mut self, seen: Seen, was_short: bool) {
        self.base.learn(seen.service);
        self.conclude(seen);
        let base = self.base.within(self.target);
        if self.is_contended(&seen) {
            self.step_back(seen, base, was_short);
        } else if !self.is_held || seen.service <= FREE * base {
            self.release();
        }
    }

    /// Whether answers are longer than they would be with fewer workers, as far as can be told.
    fn is_contended(&self, seen: &Seen) -> bool {
        if self.is_held {
            return seen.service > CONTENDED * self.base.within(self.target);
        }
        let has_grown = f64::from(self.size) >= GROWN * f64::from(self.proven);
        let is_late = !self.base.is_proven && seen.service > self.target;
        let is_longer = self.base.seconds.is_some_and(|base| seen.service > CONTENDED * base);
        has_grown && (is_longer || is_late)
    }

    /// Ends the trial, if the round tells how it went.
    fn conclude(&mut self, seen: Seen) {
        match self.trial {
            Some(Trial::Fewer(before)) if seen.rate < LESS * before.rate => {
                self.prove(seen.service);
                self.growth = self.trust;
            }
            Some(Trial::Fewer(before)) if seen.service <= LESS * before.service => {
                self.growth = self.growth.min(GROWTH);
                self.trial = None;
            }
            Some(Trial::More { before, is_settled: false }) => {
                self.trial = Some(Trial::More { before, is_settled: true });
            }
            Some(Trial::More { before, .. }) if seen.rate >= MORE * before.rate => {
                self.prove(seen.service);
            }
            Some(Trial::More { before, .. }) => {
                (self.size, self.limit) = (self.size.min(before.size), before.size);
                self.trial = None;
            }
            Some(Trial::Fewer(_)) | None => {}
        }
    }

    /// Answers take so long by themselves.
    fn prove(&mut self, service: f64) {
        self.base = BaseService { seconds: Some(service), is_proven: true };
        self.trial = None;
        (self.trials_apart, self.until_trial) = (TRIALS_APART, TRIALS_APART);
        self.release();
    }

    /// As many may start as are wanted.
    fn release(&mut self) {
        self.is_held = false;
        self.proven = self.size;
        self.limit = self.times(self.growth);
    }

    // Free → held: workers wait for each other.
    fn step_back(&mut self, seen: Seen, base: f64, was_short: bool) {
        self.is_held = true;
        let useful = (HEADROOM * seen.rate * base).ceil() as u32;
        let useful = useful.clamp(self.least, self.most);
        if useful < self.size {
            self.trial.get_or_insert(Trial::Fewer(seen));
            self.size = useful;
            self.proven = self.proven.min(useful);
            self.limit = useful;
        } else if self.trial.is_none() && was_short {
            self.until_trial = self.until_trial.saturating_sub(1);
            if self.until_trial == 0 && self.size < self.most {
                self.trials_apart = (2 * self.trials_apart).min(TRIALS_APART_MAX);
                self.until_trial = self.trials_apart;
                self.trial = Some(Trial::More { before: seen, is_settled: false });
                self.limit = self.times(GROWTH);
            }
        }
    }

    /// Whether this number of events, one for each worker, is next to no work.
    fn is_soon_done(&self, events: u32) -> bool {
        self.base.seconds.is_some_and(|base| base * f64::from(events) <= WORK)
    }

    /// How many there may be as long as no round ends.
    fn silent_limit(&mut self, now: Timestamp, workers: u32) -> u32 {
        let patience = self.target / 2.0;
        let patience = self.base.seconds.map_or(patience, |base| patience.max(CONTENDED * base));
        let (since, last) = self.short.get_or_insert((now, now));
        if now.since(*last).as_secs_f64() > patience {
            *since = now;
        }
        *last = now;
        let silent = now.since(*since).as_secs_f64();
        if silent <= patience {
            self.most
        } else if silent <= SILENCE * patience {
            workers
        } else {
            *since = *since + Duration::from_secs_f64(patience);
            (f64::from(workers) * GROWN).ceil() as u32
        }
    }

    fn times(&self, growth: f64) -> u32 {
        // A conversion to a whole number saturates.
        ((f64::from(self.size) * growth) as u32).clamp(self.least, self.most)
    }
}

impl BaseService {
    fn learn(&mut self, service: f64) {
        let known = *self.seconds.get_or_insert(service);
        if service < known {
            self.seconds = Some(known + BASE_GAIN * (service - known));
        }
    }

    /// As far as it can be trusted.
    fn within(&self, target: f64) -> f64 {
        let seconds = self.seconds.unwrap_or(target);
        if self.is_proven { seconds } else { seconds.min(UNPROVEN * target) }
    }
}

impl Round {
    fn end(&mut self, now: Timestamp, finished: &Finished) {
        let seconds = finished.service.as_secs_f64();
        self.began.get_or_insert_with(|| {
            let service = u64::try_from(finished.service.as_nanos()).unwrap_or(u64::MAX);
            Timestamp::from_nanos(now.as_nanos().saturating_sub(service))
        });
        let share = finished.together.share(1.0);
        self.ended += share;
        if finished.ending == Ending::Completed {
            self.completed += share;
            self.service += share * seconds;
        }
    }

    /// What it showed, once it is over.
    fn seen(&self, now: Timestamp, size: u32) -> Option<Seen> {
        let enough = f64::from(size.clamp(*COMPLETIONS.start(), *COMPLETIONS.end()));
        // The shares of a batch need not add up to one.
        if self.completed < enough - 1e-6 {
            return None;
        }
        let (length, service) =
            (now.since(self.began?).as_secs_f64(), self.service / self.completed);
        (length > 0.0 && length >= service).then(|| Seen {
            rate: self.ended / length,
            service,
            size,
        })
    }
}

impl WorkersLaw for ElasticPool {
    fn name(&self) -> &'static str {
        "elastic-pool"
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> Concurrency {
        let waits = activity.backlog.queued_total > 0;
        let useless = if waits { activity.workers_idle } else { 0 };
        let removed = std::mem::replace(&mut self.useless, useless).min(useless);
        let idle = self.idle.on_tick(now, activity.workers_idle).max(removed);
        if leeway.may_ease() && idle > 0 {
            self.size = self.size.saturating_sub(idle).max(self.least);
            self.proven = self.proven.min(self.size);
        }
        Concurrency::new(self.size)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished) {
        self.round.end(now, finished);
        if let Some(seen) = self.round.seen(now, self.size) {
            let next = Round { began: Some(now), ..Round::default() };
            let round = std::mem::replace(&mut self.round, next);
            self.short = None;
            self.judge(seen, round.was_short);
        }
    }

    fn on_shortage(
        &mut self,
        now: Timestamp,
        wanted: Concurrency,
        workers: Concurrency,
    ) -> Concurrency {
        self.round.was_short = true;
        let limit = self.silent_limit(now, workers.get()).min(self.limit);
        let wanted = wanted.get().min(limit);
        if wanted <= workers.get() || self.is_soon_done(wanted) {
            return workers;
        }
        self.size = wanted;
        Concurrency::new(wanted)
    }

    fn reach(&self, workers: Concurrency) -> Concurrency {
        if self.is_held {
            return workers;
        }
        let reach = (f64::from(workers.get()) * self.growth) as u32;
        Concurrency::new(reach.clamp(workers.get(), self.most.max(workers.get())))
    }

    fn is_self_paced(&self) -> bool {
        true
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.target = classes.longest().as_secs_f64();
    }

    /// What an event takes has changed: so has the base.
    fn on_shift(&mut self, _: Timestamp, _: &Activity<'_>) {
        (self.base, self.round, self.trial) = (BaseService::default(), Round::default(), None);
        self.release();
    }

    fn range(&self) -> RangeInclusive<Concurrency> {
        Concurrency::new(self.least)..=Concurrency::new(self.most)
    }

    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    fn strain(&self) -> Strain {
        if self.least == self.most {
            Strain::Fixed
        } else if self.is_held || self.size == self.most {
            Strain::Spent
        } else if self.size == self.least {
            Strain::Eased
        } else {
            Strain::Partial
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("workers_count", f64::from(self.size));
        show("workers_limit_count", f64::from(self.limit));
        show("service_base_seconds", self.base.seconds.unwrap_or(0.0));
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{ClassId, Together};

    use super::*;

    const TARGET: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    /// A pool whose events all end at once, after as long as they took.
    struct Pool {
        law: ElasticPool,
        now: Timestamp,
        workers: u32,
    }

    impl Pool {
        fn new(trust: f64) -> Self {
            let range = Concurrency::new(2)..=Concurrency::new(1000);
            Self { law: ElasticPool::new(range, trust, TARGET), now: Timestamp::ZERO, workers: 2 }
        }

        /// So many want a worker each: how many get one.
        fn want(&mut self, workers: u32) -> u32 {
            let (wanted, there) = (Concurrency::new(workers), Concurrency::new(self.workers));
            self.workers = self.law.on_shortage(self.now, wanted, there).get();
            self.workers
        }

        /// A round passes in which `count` events end that took so long each.
        fn round(&mut self, count: u32, service: Duration) {
            self.now = self.now + service;
            let ending = Ending::Completed;
            let (class, together) = (ClassId::DEFAULT, Together::ALONE);
            let ended = Finished { class, service, response: service, ending, kind: 0, together };
            for _ in 0..count {
                self.law.on_finish(self.now, &ended);
            }
            self.workers = self.workers.min(self.law.size);
        }
    }

    #[test]
    fn tasks_are_started_on_trust() {
        assert_eq!(Pool::new(1e6).want(700), 700);
    }

    #[test]
    fn threads_double_in_a_round_as_long_as_answers_do_not_grow_longer() {
        let mut pool = Pool::new(2.0);
        for size in [4, 8, 16, 32] {
            assert_eq!(pool.want(1000), size);
            pool.round(size, 20 * MS);
        }
    }

    #[test]
    fn workers_that_wait_for_each_other_are_cut_to_those_that_work() {
        let mut pool = Pool::new(1e6);
        pool.round(8, 10 * MS);
        assert_eq!(pool.want(100), 100);
        // 8 in 100 ms: the base of 10 ms makes that 1.5 · 80/s · 10 ms = 1.2 workers.
        pool.round(8, 100 * MS);
        assert_eq!(pool.workers, 2);
        assert_eq!(pool.want(100), 2, "they are held");
    }

    #[test]
    fn service_that_has_become_slow_is_no_contention() {
        let mut pool = Pool::new(1e6);
        pool.round(8, 10 * MS);
        pool.want(100);
        // 100 in 100 ms, and then no more than 15, who take as long.
        pool.round(100, 100 * MS);
        let cut = pool.workers;
        assert!(cut < 100);
        for _ in 0..3 {
            pool.round(cut, 100 * MS);
        }
        assert_eq!(pool.want(100), 100);
    }

    #[test]
    fn after_half_a_target_in_which_nothing_ends_it_does_not_grow() {
        let mut pool = Pool::new(1e6);
        assert_eq!(pool.want(10), 10);
        pool.now = pool.now + 400 * MS;
        assert_eq!(pool.want(20), 20);
        pool.now = pool.now + 200 * MS;
        assert_eq!(pool.want(30), 20);
        pool.round(8, 600 * MS);
        assert_eq!(pool.want(30), 30);
    }
}
