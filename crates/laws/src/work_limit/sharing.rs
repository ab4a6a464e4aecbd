//! Fair sharing under the work limit: clients equally, classes by their weights.
//!
//! Those of one priority share with each other: what somebody has had of a lower priority is
//! nobody's loss in a higher one.

use tamarisk_control::{ClassId, Classes, Priority, Timestamp};

use super::promises::Promises;
use crate::sharing::class_shares::ClassShares;
use crate::sharing::clients::{self, Clients};
use crate::sharing::fair_share::FairShare;
use crate::sharing::gate::Interval;

/// A queue stands from so much of its bound on: who has had more than a fair share may fill it
/// to half of that.
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
            clients: Clients::new(classes.longest()),
            fair: FairShare::new(STANDING, clients::SHARE_MIN),
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
            level.clients.set_target(classes.longest());
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
        let level = self.level_mut(class);
        level.clients.charge(now, flow, work);
        level.weights.iter_mut().for_each(|shares| shares.charge(class, work));
    }

    /// Somebody is rejected: there is an overload.
    pub(super) fn on_rejection(&mut self, now: Timestamp, class: ClassId, flow: u64) {
        let level = self.level_mut(class);
        if level.clients.on_rejection(now, flow) {
            level.fair.reset();
            level.weights.iter_mut().for_each(ClassShares::reset);
        }
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
            None => level.fair.is_exceeded(level.clients.share(now, flow), filled),
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
