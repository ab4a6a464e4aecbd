//! The recent usage of each class of one priority level, in proportion to its weight.
//!
//! The places in the queue are given to classes as they are given to clients
//! (`fair_share.rs`), but for one thing: with w_k the weight of class k and w the least
//! one, a class that has had the share u_k of all counts as one that has had
//! `u_k · w ÷ w_k`. Where all have had by their weights, this is the same for all.
//!
//! What a class does not ask for is the others', and without an overload nobody is
//! rejected for its share. There are few classes, so the accounts are exact.

use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Priority, Weight};

use super::clients::MEMORY_TARGETS;
use super::fair_share::FairShare;
use super::gate::Interval;

/// The shares of the classes of one level.
#[derive(Clone, Debug)]
pub(crate) struct ClassShares {
    /// w ÷ w_k, and the seconds of work that the class has had; by class of the stage.
    classes: Box<[(f64, f64)]>,
    total: f64,
    memory_seconds: f64,
    fair: FairShare,
}

impl ClassShares {
    /// For the classes of `priority`, if any of them has a weight; `standing` is the
    /// wait, in seconds, that makes a standing queue.
    pub(crate) fn new(classes: &Classes, priority: Priority, standing: f64) -> Option<Self> {
        let on_level = || classes.iter().filter(|(_, class)| class.priority == priority);
        on_level().find_map(|(id, _)| classes.weight(id))?;
        let weight = |id| f64::from(classes.weight(id).unwrap_or(Weight::ONE).get());
        let weights = || on_level().map(|(id, _)| weight(id));
        let least = weights().fold(f64::INFINITY, f64::min);
        Some(Self {
            classes: classes.iter().map(|(id, _)| (least / weight(id), 0.0)).collect(),
            total: 0.0,
            memory_seconds: memory_seconds(classes.longest()),
            // Where all have had by their weights there is nothing to lower it for.
            fair: FairShare::new(standing, least / weights().sum::<f64>()),
        })
    }

    /// What classes have had counts for as long as another longest target says.
    pub(crate) fn set_target(&mut self, longest: Duration) {
        self.memory_seconds = memory_seconds(longest);
    }

    /// The same shares, of a queue that stands from another wait on, in seconds.
    pub(crate) fn set_standing(&mut self, standing: f64) {
        self.fair.set_standing(standing);
    }

    /// Charges `class` with `work` seconds of one worker.
    #[inline]
    pub(crate) fn charge(&mut self, class: ClassId, work: f64) {
        self.classes[class.index()].1 += work;
        self.total += work;
    }

    /// An interval has ended: what is old is forgotten, and the fair share found anew.
    pub(crate) fn judge(&mut self, interval: Interval) {
        let kept = (-interval.length.as_secs_f64() / self.memory_seconds).exp();
        self.classes.iter_mut().for_each(|(_, had)| *had *= kept);
        self.total *= kept;
        self.fair.judge(interval.least_wait);
    }

    /// An overload begins: nobody has had anything yet.
    pub(crate) fn reset(&mut self) {
        self.classes.iter_mut().for_each(|(_, had)| *had = 0.0);
        self.total = 0.0;
        self.fair.reset();
    }

    /// Whether `class` has to leave a queue that means a wait of `wait` seconds to others.
    #[inline]
    pub(crate) fn is_exceeded(&self, class: ClassId, wait: f64) -> bool {
        let (scale, had) = self.classes[class.index()];
        let share = had / self.total.max(f64::MIN_POSITIVE);
        self.fair.is_exceeded(scale * share, wait)
    }

    /// a
    pub(crate) fn ratio(&self) -> f64 {
        self.fair.ratio()
    }
}

fn memory_seconds(longest: Duration) -> f64 {
    longest.as_secs_f64() * f64::from(MEMORY_TARGETS)
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Class, Target};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn classes() -> Classes {
        let class = |name: &str, priority| Class {
            name: name.into(),
            target: Target::p90(SECOND).unwrap(),
            priority: Priority(priority),
        };
        Classes::new(vec![class("a", 0), class("b", 0), class("first", 1)]).unwrap()
    }

    /// `a` has three times the weight of `b`.
    fn shares() -> ClassShares {
        let classes = classes().weighted(ClassId::new(0), Weight::new(3).unwrap());
        ClassShares::new(&classes, Priority(0), 0.2).unwrap()
    }

    fn judge(shares: &mut ClassShares, least_wait: f64) {
        shares.judge(Interval { length: SECOND / 2, least_wait });
    }

    #[test]
    fn a_level_without_weights_is_served_as_it_comes() {
        assert!(ClassShares::new(&classes(), Priority(0), 0.2).is_none());
        let other = classes().weighted(ClassId::new(2), Weight::ONE);
        assert!(ClassShares::new(&other, Priority(0), 0.2).is_none());
    }

    #[test]
    fn who_has_had_more_than_its_weight_leaves_the_queue_to_others() {
        let (mut shares, [a, b]) = (shares(), [0, 1].map(ClassId::new));
        shares.charge(a, 2.0);
        shares.charge(b, 2.0);
        // a goes down to 1 ÷ (3 + 1), and no further.
        (0..10).for_each(|_| judge(&mut shares, 1.0));
        assert_eq!(shares.ratio(), 0.25);
        // Half of all by a weight of 3 counts as a sixth; by a weight of 1, as a half.
        assert!(!shares.is_exceeded(a, 1e9));
        // 0.1 · 0.25 ÷ 0.5 = 0.05 s of a queue.
        assert!(!shares.is_exceeded(b, 0.0499));
        assert!(shares.is_exceeded(b, 0.0501));
    }

    #[test]
    fn old_work_is_forgotten() {
        let (mut shares, [a, b]) = (shares(), [0, 1].map(ClassId::new));
        shares.charge(b, 10.0);
        (0..100).for_each(|_| {
            judge(&mut shares, 1.0);
            shares.charge(a, 1.0);
        });
        assert!(!shares.is_exceeded(b, 1e9), "50 s later, of a memory of 10 s");
        assert!(shares.is_exceeded(a, 1e9));
        shares.reset();
        assert!(!shares.is_exceeded(a, 1e9));
    }

    #[test]
    fn other_targets_are_remembered_for_as_long_as_they_say() {
        let (mut shares, b) = (shares(), ClassId::new(1));
        let left_of = |shares: &mut ClassShares| {
            shares.reset();
            shares.charge(b, 1.0);
            judge(shares, 0.0);
            shares.classes[1].1
        };
        // Half a second of a memory of 10 s, and of one of 1 s.
        assert!((left_of(&mut shares) - (-0.05_f64).exp()).abs() < 1e-12);
        shares.set_target(SECOND / 10);
        assert!((left_of(&mut shares) - (-0.5_f64).exp()).abs() < 1e-12);
    }
}
