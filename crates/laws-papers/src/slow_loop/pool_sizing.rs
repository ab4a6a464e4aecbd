//! Sandstorm's thread-pool controller: adds workers for a long queue, removes idle ones, and steps
//! back when throughput falls.
//!
//! **Intuition.** A shop opens another till when the line is long, and closes tills
//! where nobody has come for a while. If after opening one the *whole shop* serves
//! fewer customers (the clerks queue for one telephone), it goes back to the
//! number of tills that served most.
//!
//! **Why the obvious way fails.** A queue alone says nothing about whether another
//! worker helps. A stage that is overloaded always has a long queue, so a rule
//! that adds workers for a queue never stops adding them, and throughput falls with each
//! [Welsh02 fig. 31a].
//!
//! **Mechanism** [Welsh02 §5.4.1]. Once a second, with X the weighted moving average
//! of the throughput, and X* and n* the greatest on record and the size it had:
//! ```text
//! X > 1.2·X*:                         X* ← X, n* ← n
//! X < 0.8·X*:                         n ← n* − random(0 … 4)
//! otherwise, if more than 100 wait:   n ← n + 1
//! workers idle for 5 s:               n ← n − their number
//! ```
//! The random step back gets the pool out of a record that is no longer true: what
//! it then lacks the queue gives back.
//!
//! **What the paper leaves open, and we chose.**
//! - *Thrashing needs work that waits.* As printed, a lull looks like thrashing: X
//!   falls because nobody asks, and the pool would jump to n*, which may be larger.
//!   While nothing is queued, nothing is compared.
//! - *A record ages.* After a step back X* is lowered to the X that called for it.
//!   Else a stage whose events became dearer would be taken to thrash indefinitely.
//! - After a step back the average begins anew, as it speaks of another size.
//! - Workers are idle for 5 s if the least number of idle ones at any instant of
//!   5 s was so many. That takes between 5 and 10 s from a worker's last event.
//!
//! **Limits.** The record is found to a fifth: between 14 workers and the best 16
//! the law sees no difference. Its steps of a second are too slow for a spike. And
//! an admission law that keeps the queue short keeps this law from ever adding a
//! worker [Welsh02 §8.2.1]: see [`Composition`](tamarisk_laws::Composition).

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, Concurrency, Leeway, Ratio, Reading, Strain, Timestamp, WorkersLaw,
};

use super::throughput::Throughput;
use tamarisk_laws::constants::constants;
use tamarisk_laws::seeded::Seeded;
use tamarisk_laws::slow_loop::IdleWorkers;

constants! {
    /// Of [`PoolSizing`].
    pub(crate) struct PoolSizingConstants {
        /// the fewest, and the first
        workers_min_count: Concurrency = 1.0 in 1.0..=32_768.0,
        /// the most
        workers_max_count: Concurrency = 64.0 in 1.0..=32_768.0,
        // [Welsh02 §5.4.1]
        /// a longer queue asks for one more
        queued_count: u32 = 100.0 in 0.0..=1e6,
        // "Once per second by default" [Welsh02 §5.4.1]
        /// how often it samples
        interval_seconds: Duration = 1.0 in 0.1..=60.0,
        // "By some margin (20% by default)" [Welsh02 §5.4.1]
        /// throughput that differs by more is another; at 1 there is no thrashing
        margin_ratio: Ratio = 0.2 in 0.0..=1.0,
    }
}

/// "Between 0 and 4 threads by default" [Welsh02 §5.4.1]
const BACK_OFF_MAX: u32 = 4;

/// As many workers as the queue calls for and throughput rewards.
#[derive(Clone, Debug)]
pub struct PoolSizing {
    least: u32,
    most: u32,
    size: u32,
    queue_threshold: u32,
    margin: f64,
    throughput: Throughput,
    record: Option<Record>,
    idle: IdleWorkers,
    /// A larger pool proved worse, and the queue has not been short since.
    thrashed: bool,
    random: Seeded,
}

/// The greatest throughput seen, and the size that gave it.
#[derive(Clone, Copy, Debug)]
struct Record {
    throughput: f64,
    size: u32,
}

impl PoolSizing {
    /// Between the ends of `workers`, beginning with the fewer. Random steps follow
    /// from `seed`: the same seed and observations give the same decisions.
    ///
    /// A range whose end lies below its start has one size, its start.
    pub fn new(workers: RangeInclusive<Concurrency>, seed: u64) -> Self {
        let constants = PoolSizingConstants {
            workers_min_count: *workers.start(),
            workers_max_count: *workers.end(),
            ..PoolSizingConstants::default()
        };
        Self::with(&constants, seed)
    }

    pub(crate) fn with(constants: &PoolSizingConstants, seed: u64) -> Self {
        let least = constants.workers_min_count.get();
        Self {
            least,
            most: constants.workers_max_count.get().max(least),
            size: least,
            queue_threshold: constants.queued_count,
            margin: constants.margin_ratio.get(),
            throughput: Throughput::every(constants.interval_seconds),
            record: None,
            idle: IdleWorkers::default(),
            thrashed: false,
            random: Seeded::new(seed),
        }
    }

    /// How many events may wait before a worker is added. Default 100.
    #[must_use]
    pub fn queue_threshold(mut self, events: u32) -> Self {
        self.queue_threshold = events;
        self
    }

    /// Thrashing detection: whether the pool was set back.
    fn compare(&mut self, now: Timestamp, activity: &Activity<'_>, smoothed: f64) -> bool {
        let record = *self.record.get_or_insert(Record { throughput: smoothed, size: self.size });
        if smoothed > (1.0 + self.margin) * record.throughput {
            self.record = Some(Record { throughput: smoothed, size: self.size });
        } else if smoothed < (1.0 - self.margin) * record.throughput {
            let fewer = self.random.up_to(BACK_OFF_MAX);
            self.size = record.size.saturating_sub(fewer).clamp(self.least, self.most);
            self.record = Some(Record { throughput: smoothed, ..record });
            self.thrashed = true;
            self.throughput.restart(now, activity);
            return true;
        }
        false
    }

    /// Whether the pool is as large as it has proved useful to be.
    fn at_record(&self) -> bool {
        self.thrashed && self.record.is_some_and(|record| self.size >= record.size)
    }
}

impl WorkersLaw for PoolSizing {
    fn name(&self) -> &'static str {
        "pool-sizing"
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> Concurrency {
        let idle = self.idle.on_tick(now, activity.workers_idle);
        if leeway.may_ease() {
            self.size = self.size.saturating_sub(idle).max(self.least);
        }
        if let Some(sample) = self.throughput.on_tick(now, activity) {
            let queued = activity.backlog.queued_total;
            let is_long = queued > self.queue_threshold;
            self.thrashed &= is_long;
            let was_set_back = queued > 0 && self.compare(now, activity, sample.smoothed);
            if is_long && !was_set_back && leeway.may_press() {
                self.size = self.size.saturating_add(1).min(self.most);
            }
        }
        Concurrency::new(self.size)
    }

    fn on_shift(&mut self, now: Timestamp, activity: &Activity<'_>) {
        self.throughput.restart(now, activity);
        self.record = None;
        self.thrashed = false;
        self.idle = IdleWorkers::default();
    }

    fn range(&self) -> RangeInclusive<Concurrency> {
        Concurrency::new(self.least)..=Concurrency::new(self.most)
    }

    fn interval(&self) -> Duration {
        self.throughput.interval()
    }

    fn strain(&self) -> Strain {
        if self.least == self.most {
            Strain::Fixed
        } else if self.size == self.most || self.at_record() {
            Strain::Spent
        } else if self.size == self.least {
            Strain::Eased
        } else {
            Strain::Partial
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let record = self.record.unwrap_or(Record { throughput: 0.0, size: self.size });
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("workers_count", f64::from(self.size));
        show("workers_best_count", f64::from(record.size));
        show("throughput_best_per_second", record.throughput);
        show("throughput_per_second", self.throughput.smoothed());
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Backlog;

    use super::*;

    /// A stage whose clock is in whole seconds.
    struct Stage {
        law: PoolSizing,
        second: u64,
        completed: u64,
    }

    impl Stage {
        fn new(workers: RangeInclusive<u32>) -> Self {
            let range = Concurrency::new(*workers.start())..=Concurrency::new(*workers.end());
            let law = PoolSizing::new(range, 1);
            let mut stage = Self { law, second: 0, completed: 0 };
            stage.second(0, 0, 0);
            stage
        }

        /// A second passes, with `completed` events done, `queued` waiting at its
        /// end and `idle` workers idle all along.
        fn second(&mut self, completed: u64, queued: u32, idle: u32) -> u32 {
            self.completed += completed;
            let backlog = Backlog {
                queued: &[queued],
                running: &[1],
                queued_total: queued,
                running_total: 1,
                workers: Concurrency::new(self.law.size),
            };
            let completed = self.completed;
            let activity =
                Activity { backlog, offered: completed, lost: 0, completed, workers_idle: idle };
            let now = Timestamp::ZERO + Duration::from_secs(self.second);
            self.second += 1;
            self.law.on_tick(now, &activity, Leeway::Either).get()
        }
    }

    #[test]
    fn more_than_a_hundred_in_the_queue_add_a_worker_a_second() {
        let mut stage = Stage::new(1..=20);
        assert_eq!(stage.second(100, 100, 0), 1);
        assert_eq!(stage.second(100, 101, 0), 2);
        assert_eq!(stage.second(100, 101, 0), 3);
    }

    #[test]
    fn it_is_asked_more_often_than_it_samples() {
        let mut stage = Stage::new(1..=20);
        let backlog = Backlog {
            queued: &[500],
            running: &[1],
            queued_total: 500,
            running_total: 1,
            workers: Concurrency::ONE,
        };
        let activity = Activity { backlog, offered: 0, lost: 0, completed: 0, workers_idle: 0 };
        for millis in 1..=3000 {
            let now = Timestamp::from_nanos(millis * 1_000_000);
            stage.law.on_tick(now, &activity, Leeway::Either);
        }
        assert_eq!(stage.law.size, 4);
    }

    #[test]
    fn it_stops_at_the_most() {
        let mut stage = Stage::new(1..=20);
        (0..100).for_each(|_| _ = stage.second(100, 1000, 0));
        assert_eq!((stage.law.size, stage.law.strain()), (20, Strain::Spent));
    }

    #[test]
    fn workers_idle_for_five_seconds_are_removed() {
        let mut stage = Stage::new(1..=20);
        (0..9).for_each(|_| _ = stage.second(100, 1000, 0));
        assert_eq!(stage.law.size, 10);
        // Three of them all along, up to six at times.
        let sizes: Vec<u32> = [3, 6, 4, 6, 5, 6].map(|idle| stage.second(100, 0, idle)).into();
        assert_eq!(sizes, [10, 10, 10, 10, 10, 7]);
    }

    #[test]
    fn a_moment_in_which_all_work_starts_the_five_seconds_anew() {
        let mut stage = Stage::new(1..=20);
        (0..9).for_each(|_| _ = stage.second(100, 1000, 0));
        for idle in [3, 3, 3, 3, 0, 3, 3, 3, 3, 3] {
            assert_eq!(stage.second(100, 0, idle), 10);
        }
        assert_eq!(stage.second(100, 0, 3), 7);
    }

    #[test]
    fn a_fifth_less_throughput_sets_the_pool_back_to_its_best_less_up_to_four() {
        let mut backs = Vec::new();
        for seed in 0..50 {
            let mut stage = Stage::new(1..=100);
            stage.law.random = Seeded::new(seed);
            // Each worker adds 100 a second up to ten of them …
            while stage.law.size < 12 {
                let rate = u64::from(stage.law.size.min(10)) * 100;
                stage.second(rate, 1000, 0);
            }
            let best = stage.law.record.unwrap().size;
            // … and then they hinder each other.
            while stage.law.size >= 12 {
                stage.second(300, 1000, 0);
            }
            backs.push(best - stage.law.size);
        }
        backs.sort_unstable();
        backs.dedup();
        assert_eq!(backs, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_margin_is_a_fifth() {
        let mut stage = Stage::new(5..=100);
        stage.second(1000, 1000, 0);
        // 0.5·1000 + 0.5·620 = 810
        assert_eq!(stage.second(620, 1000, 0), 7, "not yet a fifth less");
        // 0.5·810 + 0.5·760 = 785
        assert!(stage.second(760, 1000, 0) <= 5);
    }

    #[test]
    fn a_lull_is_not_thrashing() {
        let mut stage = Stage::new(1..=20);
        (0..9).for_each(|_| _ = stage.second(1000, 1000, 0));
        (0..4).for_each(|_| assert_eq!(stage.second(1, 0, 5), 10));
        assert!(!stage.law.thrashed);
    }

    #[test]
    fn it_outlives_a_record_that_is_no_longer_true() {
        let mut stage = Stage::new(1..=50);
        // A hundred a second and worker, then ten: no size gives the old rate again.
        (0..9).for_each(|_| _ = stage.second(u64::from(stage.law.size) * 100, 1000, 0));
        for _ in 0..100 {
            let completed = u64::from(stage.law.size) * 10;
            stage.second(completed, 1000, 0);
        }
        assert!(stage.law.size > 30, "stuck at {}", stage.law.size);
    }

    #[test]
    fn the_same_seed_gives_the_same_sizes() {
        let sizes = |seed| {
            let mut stage = Stage::new(1..=100);
            stage.law.random = Seeded::new(seed);
            let rate = |size: u32| 100 * u64::from(size).min(20 - u64::from(size).min(19));
            (0..200).map(|_| stage.second(rate(stage.law.size), 1000, 0)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(3), sizes(3));
        assert_ne!(sizes(3), sizes(4));
    }

    #[test]
    fn an_empty_range_has_one_size() {
        let mut stage = Stage::new(1..=20);
        stage.law = PoolSizing::new(Concurrency::new(7)..=Concurrency::new(3), 1);
        assert_eq!(stage.second(100, 1000, 0), 7);
        assert_eq!(stage.law.strain(), Strain::Fixed);
    }
}
