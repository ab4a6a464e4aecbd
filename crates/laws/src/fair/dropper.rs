//! The part common to both droppers: a waiting-time threshold for each class.

use tamarisk_control::{ClassId, Classes, Ratio, Target, Timestamp, Waiting};

/// 80 ms of a target of 100 ms [Fair07 §5.3].
const SHARE: Ratio = Ratio::saturating(0.8);

/// The longest waits of each class, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Thresholds(Box<[f64]>);

impl Thresholds {
    pub(super) fn new(classes: &Classes, share: Ratio) -> Self {
        let seconds = |target: &Target| target.response_time().as_secs_f64();
        Self(classes.iter().map(|(_, class)| share.get() * seconds(&class.target)).collect())
    }

    /// In one line all wait alike: with each class's threshold that of the strictest
    /// class of its priority.
    pub(super) fn strictest_of_priority(classes: &Classes) -> Self {
        let own = Self::new(classes, SHARE);
        let strictest = classes.iter().map(|(_, class)| {
            let peers = classes.iter().filter(|(_, peer)| peer.priority == class.priority);
            peers.map(|(peer, _)| own.of(peer)).fold(f64::INFINITY, f64::min)
        });
        Self(strictest.collect())
    }

    /// That of the first class for a class that the stage does not have.
    #[inline]
    pub(super) fn of(&self, class: ClassId) -> f64 {
        self.0.get(class.index()).copied().unwrap_or(self.0[0])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().copied()
    }
}

/// Seconds that `waiting` has waited.
#[inline]
pub(super) fn waited(now: Timestamp, waiting: &Waiting) -> f64 {
    now.since(waiting.entered).as_secs_f64()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use tamarisk_control::{AdmissionLaw, Backlog, Class, Concurrency, Dequeue, Priority, Target};

    use super::*;

    pub(in super::super) const BUSY: Backlog<'static> = Backlog {
        queued: &[10, 10],
        running: &[1, 1],
        queued_total: 20,
        running_total: 2,
        workers: Concurrency::new(2),
    };

    /// Targets of 1 s and 2 s.
    pub(in super::super) fn two_classes() -> Classes {
        let class = |name: &str, seconds| Class {
            name: name.into(),
            target: Target::p90(Duration::from_secs(seconds)).unwrap(),
            priority: Priority(0),
        };
        Classes::new(vec![class("fast", 1), class("slow", 2)]).unwrap()
    }

    /// What `law` says of an event that has waited for so long.
    pub(in super::super) fn dequeue(
        law: &mut dyn AdmissionLaw,
        class: usize,
        waited_ms: u64,
        backlog: &Backlog<'_>,
    ) -> Dequeue {
        let now = Timestamp::ZERO + Duration::from_secs(1000);
        let entered = Timestamp::ZERO + Duration::from_millis(1_000_000 - waited_ms);
        let waiting = Waiting { class: ClassId::new(class), entered, deadline: None, kind: 0 };
        law.on_dequeue(now, &waiting, backlog)
    }
}
