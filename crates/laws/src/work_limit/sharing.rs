//! Fair sharing under the work limit: clients equally, classes by their weights.

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
    clients: Clients,
    fair: FairShare,
    /// Of each priority, if its classes have weights.
    weights: Vec<(Priority, Option<ClassShares>)>,
    priorities: Box<[Priority]>,
    began: Timestamp,
    /// The least that the queue was filled in the interval, for any who came.
    least_filled: f64,
    interval_seconds: f64,
}

impl Sharing {
    pub(super) fn new(classes: &Classes, promises: &Promises) -> Self {
        let priorities: Box<[Priority]> = classes.iter().map(|(_, class)| class.priority).collect();
        let mut levels = priorities.to_vec();
        levels.sort_unstable();
        levels.dedup();
        let weights = levels
            .into_iter()
            .map(|priority| (priority, ClassShares::new(classes, priority, STANDING)));
        Self {
            clients: Clients::new(classes.longest()),
            fair: FairShare::new(STANDING, clients::SHARE_MIN),
            weights: weights.collect(),
            priorities,
            began: Timestamp::ZERO,
            least_filled: f64::INFINITY,
            interval_seconds: promises.strictest() / 2.0,
        }
    }

    pub(super) fn set_targets(&mut self, classes: &Classes, promises: &Promises) {
        self.clients.set_target(classes.longest());
        self.interval_seconds = promises.strictest() / 2.0;
    }

    /// Who goes first: the lower first.
    pub(super) fn priority(&self, class: ClassId) -> Priority {
        self.priorities[class.index()]
    }

    /// For an arrival the queue is filled so far, in parts of its bound.
    pub(super) fn observe(&mut self, now: Timestamp, filled: f64) {
        self.least_filled = self.least_filled.min(filled);
        let length = now.since(self.began);
        if length.as_secs_f64() < self.interval_seconds {
            return;
        }
        let least = if self.least_filled.is_finite() { self.least_filled } else { 0.0 };
        self.fair.judge(least);
        let interval = Interval { length, least_wait: least };
        self.weights.iter_mut().flat_map(|(_, shares)| shares).for_each(|s| s.judge(interval));
        (self.began, self.least_filled) = (now, f64::INFINITY);
    }

    /// Charges whoever is let in with so many seconds of work.
    pub(super) fn charge(&mut self, now: Timestamp, class: ClassId, flow: u64, work: f64) {
        self.clients.charge(now, flow, work);
        if let Some(shares) = self.shares_mut(class) {
            shares.charge(class, work);
        }
    }

    /// Somebody is rejected: there is an overload.
    pub(super) fn on_rejection(&mut self, now: Timestamp) {
        if self.clients.on_rejection(now) {
            self.fair.reset();
            self.weights.iter_mut().flat_map(|(_, shares)| shares).for_each(ClassShares::reset);
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
        let priority = self.priority(class);
        let weighted = self.weights.iter().find(|(level, _)| *level == priority);
        match weighted.and_then(|(_, shares)| shares.as_ref()) {
            Some(shares) => shares.is_exceeded(class, filled),
            None => self.fair.is_exceeded(self.clients.share(now, flow), filled),
        }
    }

    fn shares_mut(&mut self, class: ClassId) -> Option<&mut ClassShares> {
        let priority = self.priority(class);
        self.weights.iter_mut().find(|(level, _)| *level == priority)?.1.as_mut()
    }
}
