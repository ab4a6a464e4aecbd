//! Fair sharing under the work limit: clients equally, classes by their weights.
//!
//! Those of one priority share with each other. What somebody has had of a higher priority counts
//! in the lower ones, which have lost it; what of a lower one, nowhere else. Who is the only one to
//! ask since the overload began has nobody to leave the queue to.

use tamarisk_control::{ClassId, Classes, Priority, Timestamp};

use super::promises::Promises;
use crate::sharing::class_shares::ClassShares;
use crate::sharing::clients::{self, Clients};
use crate::sharing::fair_share::FairShare;
use crate::sharing::gate::Interval;

/// A queue stands from so much of its bound on, and is short up to half of that.
const STANDING: f64 = 0.25;

/// What clients and classes have had, and how much of that is fair.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    levels: Vec<Level>,
    priorities: Box<[Priority]>,
    began: Timestamp,
    interval_seconds: f64,
}

/// Those of one priority.
#[derive(Clone, Debug)]
struct Level {
    priority: Priority,
    clients: Clients,
    fair: FairShare,
    /// Who asked first in this overload, and whether somebody else has asked since.
    first: u64,
    has_others: bool,
    /// If its classes have weights, these share, and clients do not.
    weights: Option<ClassShares>,
    /// The least that the queue was filled in the interval, for any who came.
    least_filled: f64,
}

impl Sharing {
    pub(super) fn new(classes: &Classes, promises: &Promises) -> Self {
        let priorities: Box<[Priority]> = classes.iter().map(|(_, class)| class.priority).collect();
        let mut levels = priorities.to_vec();
        levels.sort_unstable();
        levels.dedup();
        let level = |priority| Level {
            priority,
            clients: Clients::new(classes.longest(), classes.strictest()),
            fair: FairShare::new(STANDING, clients::SHARE_MIN),
            first: 0,
            has_others: false,
            weights: ClassShares::new(classes, priority, STANDING),
            least_filled: f64::INFINITY,
        };
        Self {
            levels: levels.into_iter().map(level).collect(),
            priorities,
            began: Timestamp::ZERO,
            interval_seconds: promises.strictest() / 2.0,
        }
    }

    pub(super) fn set_targets(&mut self, classes: &Classes, promises: &Promises) {
        for level in &mut self.levels {
            level.clients.set_targets(classes.longest(), classes.strictest());
            level.weights.iter_mut().for_each(|shares| shares.set_target(classes.longest()));
        }
        self.interval_seconds = promises.strictest() / 2.0;
    }

    /// Who goes first: the lower first.
    pub(super) fn priority(&self, class: ClassId) -> Priority {
        self.priorities[class.index()]
    }

    /// For an arrival of `class` the queue is filled so far, in parts of its bound.
    pub(super) fn observe(&mut self, now: Timestamp, class: ClassId, filled: f64) {
        let level = self.level_mut(class);
        level.least_filled = level.least_filled.min(filled);
        let length = now.since(self.began);
        if length.as_secs_f64() < self.interval_seconds {
            return;
        }
        for level in &mut self.levels {
            let seen = std::mem::replace(&mut level.least_filled, f64::INFINITY);
            let least_wait = if seen.is_finite() { seen } else { 0.0 };
            level.fair.judge(least_wait);
            level.weights.iter_mut().for_each(|it| it.judge(Interval { length, least_wait }));
        }
        self.began = now;
    }

    /// Charges whoever is let in with so many seconds of work.
    pub(super) fn charge(&mut self, now: Timestamp, class: ClassId, flow: u64, work: f64) {
        let own = self.level_of(class);
        for level in &mut self.levels[own..] {
            level.meet(flow);
            level.clients.charge(now, flow, work);
        }
        self.levels[own].weights.iter_mut().for_each(|shares| shares.charge(class, work));
    }

    /// Somebody is rejected: there is an overload.
    pub(super) fn on_rejection(&mut self, now: Timestamp, class: ClassId, flow: u64) {
        let level = self.level_mut(class);
        if level.clients.on_rejection(now) {
            (level.first, level.has_others) = (flow, false);
            level.fair.reset();
            level.weights.iter_mut().for_each(ClassShares::reset);
        }
        level.meet(flow);
    }

    /// How many times the queue's bound the client of `flow` may fill.
    pub(super) fn burst_allowance(&self, now: Timestamp, class: ClassId, flow: u64) -> f64 {
        self.level(class).clients.burst_allowance(now, flow)
    }

    /// Whether a queue that is filled so far has to be left to those who have had less.
    pub(super) fn is_exceeded(
        &self,
        now: Timestamp,
        class: ClassId,
        flow: u64,
        filled: f64,
    ) -> bool {
        let level = self.level(class);
        match &level.weights {
            Some(shares) => shares.is_exceeded(class, filled),
            None => {
                let share = level.clients.share(now, flow);
                level.has_others && filled > part_of_queue(share, level.fair.ratio())
            }
        }
    }

    fn level(&self, class: ClassId) -> &Level {
        &self.levels[self.level_of(class)]
    }

    fn level_mut(&mut self, class: ClassId) -> &mut Level {
        let level = self.level_of(class);
        &mut self.levels[level]
    }

    /// Where the priority of `class` is among the levels.
    fn level_of(&self, class: ClassId) -> usize {
        let priority = self.priority(class);
        self.levels.partition_point(|level| level.priority < priority)
    }
}

impl Level {
    /// The client of `flow` asks. While it was the only one the fair share meant nothing.
    fn meet(&mut self, flow: u64) {
        if flow != self.first && !self.has_others {
            self.has_others = true;
            self.fair.reset();
        }
    }
}

/// How much of the queue's bound who has had `share` may fill: all of it up to the fair share,
/// and then steadily less. With a step there, who asks most would fill the queue whenever what is
/// fair reaches what it has had.
fn part_of_queue(share: f64, fair: f64) -> f64 {
    /// Of who has had twice what is fair.
    const SHORT: f64 = STANDING / 2.0;
    let fairness = fair / share;
    if fairness < 0.5 {
        SHORT * 2.0 * fairness
    } else {
        SHORT + (1.0 - SHORT) * (2.0 * fairness - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Target};

    use super::*;

    const HIGH: ClassId = ClassId::new(0);
    const LOW: ClassId = ClassId::new(1);

    /// Two priorities with targets of a second.
    fn sharing() -> Sharing {
        let class = |name: &str, priority| Class {
            name: name.into(),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(priority),
        };
        let classes = Classes::new(vec![class("high", 0), class("low", 1)]).unwrap();
        Sharing::new(&classes, &Promises::new(&classes))
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    /// Three seconds of an overload in which these clients ask, and queues stand.
    fn overload(sharing: &mut Sharing, from: u64, asking: &[(ClassId, u64)]) {
        for millis in (from..from + 3000).step_by(10) {
            for &(class, flow) in asking {
                sharing.observe(at(millis), class, 1.0);
                sharing.on_rejection(at(millis), class, flow);
                sharing.charge(at(millis), class, flow, 0.01);
            }
        }
    }

    #[test]
    fn who_asks_alone_may_fill_the_queue_until_somebody_else_has_asked() {
        let mut sharing = sharing();
        overload(&mut sharing, 1000, &[(HIGH, 7)]);
        assert!(!sharing.is_exceeded(at(4000), HIGH, 7, 1.0));
        sharing.on_rejection(at(4000), HIGH, 8);
        // The fair share begins anew then, and falls while the queue goes on to stand.
        assert!(!sharing.is_exceeded(at(4000), HIGH, 7, 1.0));
        overload(&mut sharing, 4000, &[(HIGH, 7)]);
        assert!(sharing.is_exceeded(at(7000), HIGH, 7, 1.0));
        assert!(
            !sharing.is_exceeded(at(7000), HIGH, 8, 1.0),
            "who asks little has the whole queue"
        );
    }

    #[test]
    fn the_part_of_the_queue_falls_steadily_from_the_fair_share_on() {
        assert!(part_of_queue(0.0, 0.5) >= 1.0, "who has had nothing");
        assert!((part_of_queue(0.5, 0.5) - 1.0).abs() < 1e-9, "what is fair");
        let shares = (10..=20).map(|tenths| 0.05 * f64::from(tenths));
        let parts: Vec<_> = shares.map(|share| part_of_queue(share, 0.5)).collect();
        assert!(
            parts.windows(2).all(|pair| (0.0..0.2).contains(&(pair[0] - pair[1]))),
            "{parts:?}"
        );
        assert!((part_of_queue(1.0, 0.5) - STANDING / 2.0).abs() < 1e-9, "twice what is fair");
        assert!((part_of_queue(1.0, 0.25) - STANDING / 4.0).abs() < 1e-9, "four times");
    }

    #[test]
    fn use_counts_in_its_own_priority_and_the_lower_ones() {
        let mut sharing = sharing();
        let low = [7, 7, 7, 9].map(|flow| (LOW, flow));
        let high = [8, 8, 8, 9].map(|flow| (HIGH, flow));
        overload(&mut sharing, 1000, &[low, high].concat());
        assert!(sharing.is_exceeded(at(4000), LOW, 7, 1.0));
        assert!(!sharing.is_exceeded(at(4000), HIGH, 7, 1.0), "had in the lower one only");
        assert!(sharing.is_exceeded(at(4000), HIGH, 8, 1.0));
        assert!(sharing.is_exceeded(at(4000), LOW, 8, 1.0), "had in the higher one");
        assert!(!sharing.is_exceeded(at(4000), LOW, 10, 1.0));
    }
}
