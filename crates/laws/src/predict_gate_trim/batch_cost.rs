//! What a batch costs: so much as such, and so much for each event.
//!
//! Where a worker works on several events at once, all of them take as long as the batch. To an event that
//! waits behind them they cost less: a share of it each. And a longer queue makes larger batches, in which
//! the share is smaller: of a group commit next to nothing. So the time of a batch of n is taken to be
//! a + b·n, fitted to what batches took, and a queue is counted in batches of the size that it will make.
//! As long as all batches have had one size, b is taken to be none: a cold stage is to let in rather too
//! many than too few.

use tamarisk_control::{Backlog, Together};

/// The weight of a batch against those before: some sixteen speak.
const GAIN: f64 = 1.0 / 16.0;

/// The times of recent batches, and how many events these had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchCost {
    /// The most events of a batch; 1 where each has its worker to itself.
    most: f64,
    count: f64,
    seconds: f64,
    /// Of the counts, and of these and the times.
    variance: f64,
    covariance: f64,
    /// b as a share of what an event costs in a batch of `count`, 0 to 1.
    each_share: f64,
}

/// How the work that waits and runs compares with the mean work of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BatchPace {
    /// Of an event that waits: what it costs in the batches to come.
    pub(crate) queued: f64,
    /// Of one that runs: it takes as long as all of its batch.
    pub(crate) running: f64,
}

impl BatchPace {
    const ALONE: Self = Self { queued: 1.0, running: 1.0 };
}

impl Default for BatchCost {
    fn default() -> Self {
        Self {
            most: 1.0,
            count: 1.0,
            seconds: 0.0,
            variance: 0.0,
            covariance: 0.0,
            each_share: 0.0,
        }
    }
}

impl BatchCost {
    /// An event has ended whose batch took `seconds`.
    pub(crate) fn learn(&mut self, together: Together, seconds: f64) {
        if self.most == 1.0 && together == Together::ALONE {
            return;
        }
        let most = f64::from(together.most.get());
        if self.most == 1.0 {
            let count = f64::from(together.count.get());
            *self = Self { most, count, seconds, ..Self::default() };
            return;
        }
        self.most = most;
        // Each event of the batch comes here.
        let gain = together.share(GAIN);
        let (from_count, from_seconds) =
            (f64::from(together.count.get()) - self.count, seconds - self.seconds);
        self.count += gain * from_count;
        self.seconds += gain * from_seconds;
        self.variance += gain * (from_count * from_count * (1.0 - gain) - self.variance);
        self.covariance += gain * (from_count * from_seconds * (1.0 - gain) - self.covariance);
        // Batches of one size say nothing of another.
        let varies = self.variance > 1e-6 * self.count * self.count;
        self.each_share = if varies && self.seconds > 0.0 {
            (self.covariance * self.count / (self.variance * self.seconds)).clamp(0.0, 1.0)
        } else {
            0.0
        };
    }

    /// How many events a batch has had, on average.
    #[inline]
    pub(crate) fn count(&self) -> f64 {
        self.count
    }

    /// Of the events in `backlog` and `more` that are to wait with them.
    #[inline]
    pub(crate) fn pace(&self, backlog: &Backlog<'_>, more: u32) -> BatchPace {
        if self.most == 1.0 { BatchPace::ALONE } else { self.pace_of_batches(backlog, more) }
    }

    fn pace_of_batches(&self, backlog: &Backlog<'_>, more: u32) -> BatchPace {
        let queued = f64::from(backlog.queued_total) + f64::from(more);
        let next = (queued / f64::from(backlog.workers.get())).clamp(1.0, self.most.max(1.0));
        let queued = (1.0 - self.each_share) * self.count / next + self.each_share;
        BatchPace { queued, running: self.count }
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{BatchSize, Concurrency};

    use super::*;

    fn learned(counts: &[u32], seconds: impl Fn(u32) -> f64) -> BatchCost {
        let mut cost = BatchCost::default();
        for &count in counts.iter().cycle().take(200) {
            let together = Together { count: BatchSize::new(count), most: BatchSize::new(100) };
            (0..count).for_each(|_| cost.learn(together, seconds(count)));
        }
        cost
    }

    fn pace(cost: &BatchCost, queued: u32) -> f64 {
        let backlog = Backlog {
            queued: &[queued],
            running: &[0],
            queued_total: queued,
            running_total: 0,
            workers: Concurrency::ONE,
        };
        let BatchPace { queued, running } = cost.pace(&backlog, 0);
        assert!((running - cost.count()).abs() < 1e-12);
        queued * cost.seconds / cost.count
    }

    #[test]
    fn an_event_that_has_its_worker_to_itself_is_no_batch() {
        let mut cost = BatchCost::default();
        cost.learn(Together::ALONE, 1.0);
        assert_eq!(
            cost.pace(
                &Backlog {
                    queued: &[9],
                    running: &[1],
                    queued_total: 9,
                    running_total: 1,
                    workers: Concurrency::ONE,
                },
                0
            ),
            BatchPace::ALONE
        );
    }

    #[test]
    fn what_a_batch_costs_as_such_is_shared_by_its_events() {
        // 10 ms, and 1 ms for each: of 2 events 6 ms, of 100 1.1 ms.
        let cost = learned(&[1, 5, 20], |count| 0.010 + 0.001 * f64::from(count));
        assert!((pace(&cost, 2) - 0.006).abs() < 1e-4, "{cost:?}");
        assert!((pace(&cost, 1000) - 0.0011).abs() < 1e-4, "{cost:?}");
    }

    #[test]
    fn batches_that_were_all_of_one_event_may_be_larger() {
        let cost = learned(&[1], |_| 0.010);
        assert!((pace(&cost, 50) - 0.0002).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn events_that_cost_as_much_in_any_batch_are_not_cheaper_in_a_large_one() {
        let cost = learned(&[1, 10], |count| 0.002 * f64::from(count));
        assert!((pace(&cost, 1000) - 0.002).abs() < 1e-5, "{cost:?}");
    }
}
