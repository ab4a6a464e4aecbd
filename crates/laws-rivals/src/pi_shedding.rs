//! PI load shedding with a priority cut-off: a PI controller sets the share to reject, and the
//! least important events are rejected.
//!
//! **Intuition.** How much must go? As much as flows in beyond what flows out: look
//! at the queue twice a second, and turn the share that is rejected up while it
//! grows and down while places are free. Who must go? Look at the priorities of the
//! last thousand that came, and find the one below which that share of them lies.
//!
//! **Mechanism** (Uber's Cinnamon). Once the queue has not been empty for 10 s, every
//! T = 500 ms
//! ```text
//! e = (in − (out + free)) ÷ out       I ← I + e·T       share = Kp·e + Ki·I
//! ```
//! with what was there to leave the queue and what left it since the last time, and the
//! free places now; Kp = 0.1, Ki = 1.4, no derivative. An arrival is rejected if its level
//! lies in the least important `share` of the last 1000 that came, rejected ones
//! included. A level is its class's priority, split into 128 cohorts by client. What
//! has waited for too long is dropped when it is its turn.
//!
//! **Source.** \[Cinnamon23\], the published description; the code is closed. That it is
//! a PI controller without D, fed by inflow and outflow, with priorities cut by their
//! cumulative distribution is in the text; the constants and the exact form of e are
//! quoted second-hand, and could not be checked.
//!
//! **What we chose.** `in` counts what stood in the queue before, so that `in − out` is
//! the queue: counted without, a queue that merely stands would stay indefinitely, while the
//! text says that it is driven to empty. I stays where the share it stands for is
//! between 0 and 1. It rests again once nothing had to be rejected for 10 s. The cut-off is the level at
//! which *at least* 1 − share of the last events would still be let in, so that a
//! level with many events is not shut for the sake of a few. The longest wait,
//! which is said to be a part of a deadline, is the class's target. Events of no
//! flow get a cohort by a sequence with a seed.
//!
//! **Limits.** For ten seconds nothing is rejected; until then waiting out the target
//! is all that bounds the queue, and answers ride at the target. The share moves by
//! Ki·T = 0.7 for each half second's worth of queue: a queue of a second rejects
//! all, the empty one admits more by steps of what is free, and so the share
//! swings, the wider the further the load is beyond the capacity: at ten times all
//! are rejected every other second, the important ones among them. It knows how many come, not how long they take.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Decision, Dequeue, Finished, Reading, Reason,
    Rejection, Timestamp, Waiting,
};

use crate::cohorts::Cohorts;

/// How often the controller runs, T.
const PERIOD: Duration = Duration::from_millis(500);

/// A queue that has not been empty for so long is an overload.
const ONSET: Duration = Duration::from_secs(10);

/// Kp and Ki.
const PROPORTIONAL: f64 = 0.1;
const INTEGRAL: f64 = 1.4;

/// Arrivals of which the distribution of levels is taken.
const RECENT: usize = 1000;

/// Rejects the least important, in a share that a PI controller finds.
#[derive(Clone, Debug)]
pub struct PiShedding {
    patience: Box<[Duration]>,
    cohorts: Cohorts,
    recent: RecentLevels,
    last_empty: Timestamp,
    ran: Option<Timestamp>,
    admitted: u32,
    queued_before: u32,
    active: bool,
    /// When there last was something to reject.
    rejected: Timestamp,
    /// I.
    integral: f64,
    share: f64,
    /// The least important level that is let in.
    cutoff: usize,
}

/// How many of the last arrivals were of each level.
#[derive(Clone, Debug)]
struct RecentLevels {
    counts: Box<[u32]>,
    levels: Box<[u16]>,
    len: usize,
    oldest: usize,
}

impl RecentLevels {
    fn new(levels: usize) -> Self {
        let counts = vec![0; levels].into();
        Self { counts, levels: vec![0; RECENT].into(), len: 0, oldest: 0 }
    }

    fn push(&mut self, level: usize) {
        if self.len == RECENT {
            self.counts[usize::from(self.levels[self.oldest])] -= 1;
        } else {
            self.len += 1;
        }
        self.counts[level] += 1;
        // At most 64 classes of 128 cohorts.
        self.levels[self.oldest] = level as u16;
        self.oldest = (self.oldest + 1) % RECENT;
    }

    /// The first level up to which at least `share` of the arrivals lie.
    fn level_at(&self, share: f64) -> usize {
        let wanted = share * self.len as f64;
        let mut reached = 0.0;
        let enough = |&count: &u32| {
            reached += f64::from(count);
            reached >= wanted
        };
        self.counts.iter().position(enough).unwrap_or(self.counts.len() - 1)
    }
}

impl PiShedding {
    /// With the published constants.
    pub fn new(classes: &Classes) -> Self {
        Self::seeded(classes, 0)
    }

    /// The same with another sequence of cohorts for events of no flow.
    pub fn seeded(classes: &Classes, seed: u64) -> Self {
        let cohorts = Cohorts::new(classes, seed);
        let levels = cohorts.levels();
        Self {
            patience: classes.iter().map(|(_, class)| class.target.response_time()).collect(),
            cohorts,
            recent: RecentLevels::new(levels),
            last_empty: Timestamp::ZERO,
            ran: None,
            admitted: 0,
            queued_before: 0,
            active: false,
            rejected: Timestamp::ZERO,
            integral: 0.0,
            share: 0.0,
            cutoff: levels - 1,
        }
    }

    fn pass_time(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        let ran = *self.ran.get_or_insert_with(|| {
            self.last_empty = now;
            now
        });
        if backlog.queued_total == 0 {
            self.last_empty = now;
        }
        if now.since(ran) < PERIOD {
            return;
        }
        self.ran = Some(now);
        if now.since(self.last_empty) >= ONSET {
            self.active = true;
        }
        if self.active {
            self.run(now, backlog);
        }
        self.admitted = 0;
        self.queued_before = backlog.queued_total;
    }

    #[cold]
    fn run(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        let growth = f64::from(backlog.queued_total) - f64::from(self.queued_before);
        let left = (f64::from(self.admitted) - growth).max(1.0);
        let free = f64::from(backlog.workers.get().saturating_sub(backlog.running_total));
        let error = (f64::from(backlog.queued_total) - free) / left;
        self.integral += error * PERIOD.as_secs_f64();
        self.integral = self.integral.clamp(0.0, 1.0 / INTEGRAL);
        self.share = (PROPORTIONAL * error + INTEGRAL * self.integral).clamp(0.0, 1.0);
        if self.share > 0.0 {
            self.rejected = now;
            self.cutoff = self.recent.level_at(1.0 - self.share);
        } else {
            self.cutoff = self.cohorts.levels() - 1;
            // Overloaded → at ease: nothing had to be rejected for as long.
            self.active = now.since(self.rejected) < ONSET;
        }
    }
}

impl AdmissionLaw for PiShedding {
    fn name(&self) -> &'static str {
        "pi-shedding"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.pass_time(now, backlog);
        let level = self.cohorts.level(arrival, 0);
        self.recent.push(level);
        if level > self.cutoff || self.share >= 1.0 {
            return Decision::Reject(Rejection::new(Reason::PriorityCutoff).retry_after(PERIOD));
        }
        self.admitted = self.admitted.saturating_add(1);
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        if backlog.queued_total <= 1 {
            self.last_empty = now;
        }
        self.on_sweep(now, waiting, backlog)
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        let patience = self.patience.get(waiting.class.index()).unwrap_or(&self.patience[0]);
        if now.since(waiting.entered) > *patience { Dequeue::Drop } else { Dequeue::Run }
    }

    fn on_finish(&mut self, now: Timestamp, _: &Finished, backlog: &Backlog<'_>) {
        self.pass_time(now, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.pass_time(now, backlog);
    }

    fn set_targets(&mut self, classes: &Classes) {
        for (patience, target) in self.patience.iter_mut().zip(classes.targets()) {
            *patience = target.response_time();
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("rejected_ratio", self.share);
        show("cutoff_level_count", self.cutoff as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{arrival, at, backlog, classes, waiting};

    /// A law under overload: 1000 arrivals of one class are known.
    fn overloaded() -> PiShedding {
        let mut law = PiShedding::new(&classes(&[0]));
        let crowded = backlog(&[100], &[8]);
        (0..1000).for_each(|_| {
            law.on_arrival(at(10_000), &arrival(0), &crowded);
        });
        law.admitted = 0;
        law
    }

    /// Half a second in which 100 left the queue, and `queued` stand in it at the end.
    fn run(law: &mut PiShedding, queued: u32, running: u32) {
        law.admitted = 100;
        law.queued_before = queued;
        law.run(at(10_000), &backlog(&[queued], &[running]));
    }

    #[test]
    fn one_period_follows_the_published_rule() {
        let mut law = overloaded();
        // 200 were there to leave and 100 did: e = 1; I = 0.5; 0.1·1 + 1.4·0.5 = 0.8.
        run(&mut law, 100, 8);
        assert!((law.share - 0.8).abs() < 1e-12, "{}", law.share);
        // Then none is left behind: e = 0, and the integral alone remains, 0.7.
        run(&mut law, 0, 8);
        assert!((law.share - 0.7).abs() < 1e-12, "{}", law.share);
    }

    #[test]
    fn free_places_count_against_it() {
        let mut law = overloaded();
        law.integral = 0.5;
        // 100 left and 4 of 8 places are free: e = −0.04.
        run(&mut law, 0, 4);
        assert!((law.share - (0.1 * -0.04 + 1.4 * (0.5 - 0.02))).abs() < 1e-12);
    }

    #[test]
    fn the_share_is_cut_off_from_the_least_important() {
        let mut law = overloaded();
        run(&mut law, 100, 8);
        let crowded = backlog(&[100], &[8]);
        let now = at(10_001);
        let admitted = (0..10_000)
            .filter(|_| law.on_arrival(now, &arrival(0), &crowded) == Decision::Admit)
            .count();
        // A fifth, and at most one cohort of 128 more.
        assert!((1900..2300).contains(&admitted), "{admitted} of 10000");
    }

    #[test]
    fn a_more_important_class_goes_before_all_of_a_lesser_one() {
        let mut law = PiShedding::new(&classes(&[0, 1]));
        let crowded = backlog(&[50, 50], &[4, 4]);
        for index in 0..1000 {
            law.on_arrival(at(10_000), &arrival(usize::from(index % 5 != 0)), &crowded);
        }
        // Three quarters go: the fifth that is more important stays.
        law.cutoff = law.recent.level_at(0.25);
        law.share = 0.75;
        for _ in 0..1000 {
            assert_eq!(law.on_arrival(at(10_001), &arrival(0), &crowded), Decision::Admit);
        }
        let rejected = (0..1000)
            .filter(|_| law.on_arrival(at(10_001), &arrival(1), &crowded) != Decision::Admit);
        assert!((850..1000).contains(&rejected.count()));
    }

    #[test]
    fn nothing_is_rejected_before_the_queue_has_stood_for_ten_seconds() {
        let mut law = PiShedding::new(&classes(&[0]));
        law.on_tick(at(1000), &backlog(&[0], &[8]));
        let mut queued = 0;
        for now in (1100..10_900).step_by(100) {
            queued += 100;
            let crowded = [queued];
            let decision = law.on_arrival(at(now), &arrival(0), &backlog(&crowded, &[8]));
            assert_eq!(decision, Decision::Admit, "at {now}");
        }
        law.on_tick(at(11_000), &backlog(&[queued + 100], &[8]));
        assert!(law.share > 0.0);
    }

    #[test]
    fn it_rests_when_nothing_had_to_be_rejected_for_ten_seconds() {
        let mut law = overloaded();
        run(&mut law, 100, 8);
        law.active = true;
        let idle = backlog(&[0], &[0]);
        law.integral = 0.01;
        law.run(at(10_500), &idle);
        assert_eq!((law.share, law.active, law.cutoff), (0.0, true, 127));
        law.run(at(19_500), &idle);
        assert!(law.active);
        law.run(at(20_000), &idle);
        assert!(!law.active);
    }

    #[test]
    fn what_has_waited_out_its_target_is_dropped() {
        let mut law = PiShedding::new(&classes(&[0]));
        let crowded = backlog(&[100], &[8]);
        assert_eq!(law.on_dequeue(at(5000), &waiting(5000, 1000), &crowded), Dequeue::Run);
        assert_eq!(law.on_dequeue(at(5000), &waiting(5000, 1001), &crowded), Dequeue::Drop);
    }
}
