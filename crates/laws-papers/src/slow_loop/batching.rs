//! Sandstorm's batching controller: the smallest batch that keeps the throughput high.
//!
//! **Intuition.** A postman who walks to each house when its letter comes wears out
//! his shoes; one who waits for a full bag delivers yesterday's news. The bag that
//! is just full enough is found by making it smaller until fewer letters a day
//! arrive, and then a little larger again.
//!
//! **Why the obvious way fails.** A large fixed batch gives one worker all events
//! while the others look on, and makes the last of them wait for all before it. A
//! small one pays the fixed cost of each round too often. Where the fair middle
//! lies depends on the handler, and nobody knows the number.
//!
//! **Mechanism** [Welsh02 §5.4.2]. Once a second, with X the throughput and X* its
//! greatest in a recent window, the batching factor b begins at its most, and
//! ```text
//! shrinking:  b ← 0.8·b    until X < 0.9·X*, then growing
//! growing:    b ← 1.2·b    until X approaches X*, then shrinking
//! X drops suddenly:        b ← its most, and shrinking
//! ```
//! and so on, as printed: the law does not damp its response, and swings about the
//! best size [Welsh02 fig. 32].
//!
//! **What the paper leaves open, and we chose.**
//! - The interval (a second, as for workers), the window (20 of them: the swing of
//!   fig. 32 fits into it twice) and the smoothing of X (as for workers).
//! - "Approaches" is 0.95·X*: half of the margin. A step of a fifth may jump over a
//!   narrow best. So a larger batch that gave 5 % less is taken back, and one that gave 5 %
//!   more is followed by another the same way, whatever X* says.
//! - A sudden drop is an interval with less than half of the average before it.
//!   A fifth of size costs a fifth of throughput at most, so it is not the law's
//!   own doing.
//! - Without a queue a batch is as large as what came in, not as its bound. Such an
//!   interval says nothing, and changes nothing.
//! - A bound above the length of the queue bounds nothing. The search shrinks from
//!   the one that does.
//! - Sizes are whole: a step is one event at least.

use tamarisk_control::{Activity, BatchLaw, BatchSize, Reading, Strain, Timestamp};

use super::throughput::{Throughput, ThroughputSample};
use tamarisk_laws::constants::constants;

/// "20% by default", and "also 20%" [Welsh02 §5.4.2]
const STEP: f64 = 0.2;
/// "10% by default" [Welsh02 §5.4.2]
const MARGIN: f64 = 0.1;
/// What it takes to have approached the best.
const APPROACH: f64 = 0.05;
/// What is left of the average after a sudden drop.
const SUDDEN: f64 = 0.5;
/// The "recent time window", in intervals.
const WINDOW: usize = 20;

constants! {
    /// Of [`ThroughputBatching`].
    pub(crate) struct ThroughputBatchingConstants {
        // "1000 events by default" [Welsh02 §5.4.2]
        /// the greatest, and the first
        batch_events_max_count: BatchSize = 1000.0 in 1.0..=1e6,
    }
}

/// Searches for the smallest batch that sustains the best throughput.
#[derive(Clone, Debug)]
pub struct ThroughputBatching {
    most: u32,
    size: u32,
    way: Way,
    throughput: Throughput,
    recent: Recent,
    /// The last interval alone.
    latest: f64,
    /// The search has passed the best size at least once.
    found: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Shrinking,
    Growing,
}

/// The averages of the last intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    averages: [f64; WINDOW],
    next: usize,
}

impl Default for ThroughputBatching {
    fn default() -> Self {
        Self::new(ThroughputBatchingConstants::default().batch_events_max_count)
    }
}

impl ThroughputBatching {
    /// Batches of at most `most` events, beginning with that.
    pub fn new(most: BatchSize) -> Self {
        Self {
            most: most.get(),
            size: most.get(),
            way: Way::Shrinking,
            throughput: Throughput::default(),
            recent: Recent::default(),
            latest: 0.0,
            found: false,
        }
    }

    fn search(&mut self, sample: ThroughputSample, queued: u32) {
        let ThroughputSample { before, latest, smoothed } = sample;
        if before.is_some_and(|before| latest < SUDDEN * before) {
            self.size = self.most;
            self.way = Way::Shrinking;
            self.recent = Recent::default();
            return;
        }
        self.recent.push(smoothed);
        let best = self.recent.best();
        let last = std::mem::replace(&mut self.latest, latest);
        let (is_less, is_more) =
            (latest < (1.0 - APPROACH) * last, latest > (1.0 + APPROACH) * last);
        match self.way {
            Way::Shrinking if smoothed < (1.0 - MARGIN) * best && !is_more => {
                // Shrinking → growing: the last step cost throughput.
                self.way = Way::Growing;
                self.grow();
            }
            Way::Shrinking => self.shrink(queued),
            Way::Growing if smoothed >= (1.0 - APPROACH) * best => {
                // Growing → shrinking: what was lost is regained.
                self.way = Way::Shrinking;
                self.found = true;
            }
            Way::Growing if is_less => {
                // Growing → shrinking: the best size is passed.
                self.way = Way::Shrinking;
                self.found = true;
                self.shrink(queued);
            }
            Way::Growing => self.grow(),
        }
    }

    /// A bound above what is queued bounds nothing, so that comes off first.
    fn shrink(&mut self, queued: u32) {
        let effective = self.size.min(queued);
        self.found |= self.size == 1;
        self.size = ((f64::from(effective) * (1.0 - STEP)) as u32).max(1);
    }

    fn grow(&mut self) {
        let larger = (f64::from(self.size) * (1.0 + STEP)).ceil();
        self.size = (larger as u32).clamp(1, self.most);
    }
}

impl Recent {
    fn push(&mut self, average: f64) {
        self.averages[self.next] = average;
        self.next = (self.next + 1) % WINDOW;
    }

    fn best(&self) -> f64 {
        self.averages.iter().copied().fold(0.0, f64::max)
    }
}

impl BatchLaw for ThroughputBatching {
    fn name(&self) -> &'static str {
        "throughput-batching"
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> BatchSize {
        if let Some(sample) = self.throughput.on_tick(now, activity) {
            if activity.backlog.queued_total > 0 {
                self.search(sample, activity.backlog.queued_total);
            } else {
                self.throughput.restart(now, activity);
            }
        }
        BatchSize::new(self.size)
    }

    fn on_shift(&mut self, now: Timestamp, activity: &Activity<'_>) {
        *self = Self::new(BatchSize::new(self.most));
        self.throughput.restart(now, activity);
    }

    fn most(&self) -> BatchSize {
        BatchSize::new(self.most)
    }

    fn strain(&self) -> Strain {
        match (self.most, self.found) {
            (1, _) => Strain::Fixed,
            (_, true) => Strain::Spent,
            (_, false) => Strain::Partial,
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("batch_events_count", f64::from(self.size));
        show("throughput_per_second", self.throughput.smoothed());
        show("throughput_best_per_second", self.recent.best());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Backlog, Concurrency};

    use super::*;

    struct Stage {
        law: ThroughputBatching,
        second: u64,
        completed: u64,
    }

    impl Stage {
        fn new(most: u32) -> Self {
            let law = ThroughputBatching::new(BatchSize::new(most));
            let mut stage = Self { law, second: 0, completed: 0 };
            stage.second(0, 0);
            stage
        }

        fn second(&mut self, completed: u64, queued: u32) -> u32 {
            self.completed += completed;
            let backlog = Backlog {
                queued: &[queued],
                running: &[1],
                queued_total: queued,
                running_total: 1,
                workers: Concurrency::ONE,
            };
            let completed = self.completed;
            let activity =
                Activity { backlog, offered: completed, lost: 0, completed, workers_idle: 0 };
            let now = Timestamp::ZERO + Duration::from_secs(self.second);
            self.second += 1;
            self.law.on_tick(now, &activity).get()
        }
    }

    #[test]
    fn it_begins_at_a_thousand_and_shrinks_by_a_fifth_while_throughput_lasts() {
        let mut stage = Stage::new(1000);
        assert_eq!(stage.law.size, 1000);
        let sizes = [(); 4].map(|()| stage.second(5000, 9999));
        assert_eq!(sizes, [800, 640, 512, 409]);
    }

    #[test]
    fn a_tenth_less_throughput_makes_it_grow_by_a_fifth_until_it_is_back() {
        let mut stage = Stage::new(1000);
        (0..4).for_each(|_| _ = stage.second(1000, 9999));
        // 0.5·1000 + 0.5·820 = 910: within the margin.
        assert_eq!(stage.second(820, 9999), 327);
        // 0.5·910 + 0.5·800 = 855: beyond it; 327 · 1.2 = 392.4.
        assert_eq!(stage.second(800, 9999), 393);
        // 0.5·855 + 0.5·1000 = 927.5; 393 · 1.2 = 471.6
        assert_eq!(stage.second(1000, 9999), 472);
        // 963.75: approached.
        assert_eq!(stage.second(1000, 9999), 472);
        assert_eq!(stage.law.strain(), Strain::Spent);
        assert_eq!(stage.second(1000, 9999), 377);
    }

    #[test]
    fn a_sudden_drop_sets_it_back_to_the_most() {
        let mut stage = Stage::new(1000);
        (0..8).for_each(|_| _ = stage.second(1000, 9999));
        assert_eq!(stage.second(499, 9999), 1000);
    }

    #[test]
    fn the_best_is_forgotten_after_the_window() {
        let mut stage = Stage::new(1000);
        stage.second(1000, 9999);
        // From now on events are dearer, whatever the size.
        (0..40).for_each(|_| _ = stage.second(700, 9999));
        assert!(stage.law.recent.best() < 710.0);
        assert_eq!(stage.law.way, Way::Shrinking);
    }

    #[test]
    fn without_a_queue_nothing_is_concluded() {
        let mut stage = Stage::new(1000);
        (0..4).for_each(|_| _ = stage.second(1000, 9999));
        (0..50).for_each(|_| assert_eq!(stage.second(1, 0), 409));
    }

    #[test]
    fn it_reaches_one_where_batches_do_not_matter() {
        let mut stage = Stage::new(1000);
        (0..60).for_each(|_| _ = stage.second(1000, 9999));
        assert_eq!((stage.law.size, stage.law.strain()), (1, Strain::Spent));
    }
}
