//! Resources of a run: processor sharing, and pools of connections.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::sim::plan::intervals::Intervals;
use crate::sim::plan::resolved::ResourcePlan;
use crate::sim::plan::resource::ResourceKind;
use crate::sim::plan::speed::Speed;

#[derive(Debug)]
pub(super) enum ResourceRun {
    Shared(Shared),
    Pool(Pool),
}

impl ResourceRun {
    pub(super) fn new(plan: &ResourcePlan) -> Self {
        match &plan.kind {
            ResourceKind::Shared(speed) => {
                Self::Shared(Shared::new(speed.clone(), plan.pauses.clone()))
            }
            ResourceKind::Pool(connections) => {
                Self::Pool(Pool { free: *connections, waiting: VecDeque::new() })
            }
        }
    }
}

/// Everybody's work at once, at one speed for all. What each has got since the
/// resource last stood empty is the same number for all; so a job is done when that
/// number reaches where it stood at its coming and the job's work, and nobody's
/// end has to be reckoned again when somebody comes or goes.
#[derive(Debug)]
pub(super) struct Shared {
    speed: Speed,
    /// Nothing is done in these.
    pauses: Intervals,
    /// What each has got, in nanoseconds of work; and when that was.
    served: f64,
    at: u64,
    /// By what must have been served, then in order of coming: one word, for
    /// positive numbers are ordered as their bits are.
    jobs: BinaryHeap<Reverse<(u64, u64, u32)>>,
    came: u64,
    /// The earliest entry in the calendar that is meant; others are void.
    scheduled: u64,
}

impl Shared {
    fn new(speed: Speed, pauses: Intervals) -> Self {
        let jobs = BinaryHeap::new();
        Self { speed, pauses, served: 0.0, at: 0, jobs, came: 0, scheduled: u64::MAX }
    }

    /// Takes on `job` with so much work, in nanoseconds.
    pub(super) fn begin(&mut self, now: u64, job: u32, work: f64) {
        self.serve(now);
        self.came += 1;
        let until = (self.served + work.max(0.0)).to_bits();
        self.jobs.push(Reverse((until, self.came, job)));
    }

    /// An entry in the calendar that was made for now has come up: whose work is done?
    pub(super) fn due(&mut self, now: u64) -> Option<u32> {
        if self.scheduled != now {
            return None;
        }
        self.scheduled = u64::MAX;
        if self.next_end(now) != Some(now) {
            return None;
        }
        let Reverse((until, _, job)) = self.jobs.pop()?;
        self.serve_with(now, self.jobs.len() as u32 + 1);
        // Rounding must not leave a hair of the work.
        self.served = self.served.max(f64::from_bits(until));
        if self.jobs.is_empty() {
            self.served = 0.0;
        }
        Some(job)
    }

    /// Lets go of `job`, whatever is left of its work.
    pub(super) fn withdraw(&mut self, now: u64, job: u32) {
        self.serve(now);
        self.jobs.retain(|Reverse((.., other))| *other != job);
        if self.jobs.is_empty() {
            self.served = 0.0;
        }
    }

    /// When the calendar is to come back, if it does not know yet.
    pub(super) fn schedule(&mut self, now: u64) -> Option<u64> {
        let end = self.next_end(now)?;
        if end >= self.scheduled {
            return None;
        }
        self.scheduled = end;
        Some(end)
    }

    fn next_end(&self, now: u64) -> Option<u64> {
        let Reverse((until, ..)) = self.jobs.peek()?;
        let left = f64::from_bits(*until) - self.served;
        if left <= 0.0 {
            return Some(now);
        }
        let speed = self.speed.of_each(self.jobs.len() as u32);
        if speed <= 0.0 {
            return None;
        }
        // A fraction of a nanosecond takes all of it.
        let end = self.pauses.after(self.at, (left / speed).ceil() as u64);
        Some(end.max(now))
    }

    fn serve(&mut self, now: u64) {
        self.serve_with(now, self.jobs.len() as u32);
    }

    fn serve_with(&mut self, now: u64, running: u32) {
        self.served += self.pauses.outside(self.at, now) as f64 * self.speed.of_each(running);
        self.at = now;
    }
}

/// Lent to one at a time; who comes first goes first.
#[derive(Debug)]
pub(super) struct Pool {
    free: u32,
    waiting: VecDeque<u32>,
}

impl Pool {
    /// Whether `job` can begin now; if not, it waits.
    pub(super) fn begin(&mut self, job: u32) -> bool {
        if self.free > 0 {
            self.free -= 1;
            return true;
        }
        self.waiting.push_back(job);
        false
    }

    /// Lets go of `job`, which waits.
    pub(super) fn withdraw(&mut self, job: u32) {
        self.waiting.retain(|&other| other != job);
    }

    /// Somebody's work is done: who is next?
    pub(super) fn end(&mut self) -> Option<u32> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.free += 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs jobs of (coming, work) through one resource; when each ends.
    fn ends(speed: Speed, jobs: &[(u64, f64)]) -> Vec<u64> {
        let mut shared = Shared::new(speed, Intervals::default());
        let mut ends = vec![0; jobs.len()];
        let mut coming = jobs.iter().enumerate().peekable();
        let mut calendar = std::collections::BTreeSet::new();
        loop {
            let next = calendar.first().copied().unwrap_or(u64::MAX);
            let now = match coming.peek() {
                Some(&(index, &(at, work))) if at <= next => {
                    coming.next();
                    shared.begin(at, index as u32, work);
                    at
                }
                _ if next == u64::MAX => return ends,
                _ => {
                    calendar.pop_first();
                    if let Some(job) = shared.due(next) {
                        ends[job as usize] = next;
                    }
                    next
                }
            };
            calendar.extend(shared.schedule(now));
        }
    }

    #[test]
    fn two_on_one_core_run_at_half_the_speed() {
        // Alone until 10, then together: the first has 10 left, which takes 20.
        assert_eq!(ends(Speed::Cores(1.0), &[(0, 20.0), (10, 30.0)]), [30, 50]);
    }

    #[test]
    fn a_short_job_overtakes_a_long_one() {
        assert_eq!(ends(Speed::Cores(1.0), &[(0, 100.0), (10, 5.0)]), [105, 20]);
    }

    #[test]
    fn two_cores_run_two_at_full_speed() {
        assert_eq!(ends(Speed::Cores(2.0), &[(0, 20.0), (0, 20.0)]), [20, 20]);
        assert_eq!(ends(Speed::Cores(2.0), &[(0, 20.0), (0, 20.0), (0, 20.0)]), [30; 3]);
    }

    #[test]
    fn equal_jobs_end_in_the_order_of_their_coming_and_none_is_lost() {
        assert_eq!(ends(Speed::Full, &[(0, 0.0), (0, 0.0), (3, 7.0), (3, 7.0)]), [0, 0, 10, 10]);
    }

    #[test]
    fn what_stands_still_moves_on_when_more_come() {
        // One thread alone loses all to the penalty, two get one worker's work done.
        let speed = Speed::Threads { parallelism: 4.0, threads: 2, free: 1, loss: 1.0 };
        assert_eq!(ends(speed, &[(0, 10.0), (50, 10.0)]), [70, 70]);
    }
}
