//! The selective dropper: removes events that have waited longer than their class's threshold.
//!
//! **Intuition.** An event that has spent most of its time in the queue will be late
//! whatever is done for it. The worker had better take the next one.
//!
//! **Why it is not enough.** Under lasting overload the queue grows until its head
//! is as old as the threshold, and stays so: every event that is served has waited
//! that long, and has just the rest of its time to be served in. A worker spends
//! nothing on the hopeless, but the promise is kept by a hair, or missed by one.
//! All arrivals are admitted meanwhile: the queue is as long as the arrival rate times the
//! threshold, however many come. And of several classes in one line, the one with
//! the longest target waits on while all others are dropped: at ten times the capacity
//! the rare exports of a heavy-tailed mix keep all workers to themselves.
//!
//! **Mechanism** [Fair07 §4.2.3, fig. 4-3]. At dequeue, an event that has waited longer
//! than the threshold is dropped. The threshold is 0.8 of its class's target
//! [Fair07 §5.3: 80 ms of 100 ms]. Every arrival is admitted. As the thesis does, put
//! it in front of the first stage: behind it, work would be lost with the event.

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Dequeue, Ratio, Reading, Timestamp,
    Waiting,
};

use tamarisk_laws::constants::constants;

constants! {
    /// Of [`SelectiveDropper`]: 80 ms of a target of 100 ms [Fair07 §5.3].
    pub(crate) struct SelectiveDropperConstants {
        /// the share of the target that may be waited
        wait_ratio: Ratio = 0.8 in 0.0..=1.0,
    }
}

/// Drops at dequeue what has waited longer than a share of its target.
#[derive(Clone, Debug)]
pub struct SelectiveDropper {
    /// Of each class's target.
    share: Ratio,
    /// The longest wait of each class, in seconds.
    thresholds: Box<[f64]>,
}

impl SelectiveDropper {
    /// With the published threshold, 0.8 of each class's target.
    pub fn new(classes: &Classes) -> Self {
        Self::with_threshold(classes, SelectiveDropperConstants::default().wait_ratio)
    }

    /// With a threshold of another share of each class's target; with a share of zero
    /// whatever has waited at all is dropped.
    pub fn with_threshold(classes: &Classes, share: Ratio) -> Self {
        Self { share, thresholds: thresholds(classes, share) }
    }
}

impl AdmissionLaw for SelectiveDropper {
    fn name(&self) -> &'static str {
        "selective-dropper"
    }

    #[inline]
    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    #[inline]
    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        // A class that the stage does not have is judged as the first.
        let threshold = self.thresholds.get(waiting.class.index()).unwrap_or(&self.thresholds[0]);
        let waited = now.since(waiting.entered).as_secs_f64();
        if waited > *threshold { Dequeue::Drop } else { Dequeue::Run }
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.thresholds = thresholds(classes, self.share);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        for (index, &value) in self.thresholds.iter().enumerate() {
            let class = Some(ClassId::new(index));
            visit(Reading { name: "drop_threshold_seconds", class, value });
        }
    }
}

fn thresholds(classes: &Classes, share: Ratio) -> Box<[f64]> {
    let targets = classes.targets().map(|target| target.response_time().as_secs_f64());
    targets.map(|target| share.get() * target).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Concurrency, Priority, Target};

    use super::*;

    const BUSY: Backlog<'static> = Backlog {
        queued: &[10, 10],
        running: &[1, 1],
        queued_total: 20,
        running_total: 2,
        workers: Concurrency::new(2),
    };

    /// Targets of 1 s and 2 s.
    fn two_classes() -> Classes {
        let class = |name: &str, seconds| Class {
            name: name.into(),
            target: Target::p90(Duration::from_secs(seconds)).unwrap(),
            priority: Priority(0),
        };
        Classes::new(vec![class("fast", 1), class("slow", 2)]).unwrap()
    }

    /// What `law` says of an event of `class` that has waited for `waited_ms` milliseconds.
    fn dequeue(law: &mut SelectiveDropper, class: usize, waited_ms: u64) -> Dequeue {
        let now = Timestamp::ZERO + Duration::from_secs(1000);
        let entered = Timestamp::ZERO + Duration::from_millis(1_000_000 - waited_ms);
        let waiting =
            Waiting { class: ClassId::new(class), entered, deadline: None, flow: 0, kind: 0 };
        law.on_dequeue(now, &waiting, &BUSY)
    }

    #[test]
    fn eight_tenths_of_the_target_may_be_spent_waiting() {
        // 1 s and 2 s.
        let mut law = SelectiveDropper::new(&two_classes());
        assert_eq!(dequeue(&mut law, 0, 800), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 0, 801), Dequeue::Drop);
        assert_eq!(dequeue(&mut law, 1, 1600), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 1, 1601), Dequeue::Drop);
    }

    #[test]
    fn the_share_can_be_chosen() {
        let share = Ratio::saturating(0.25);
        let mut law = SelectiveDropper::with_threshold(&two_classes(), share);
        assert_eq!(dequeue(&mut law, 0, 251), Dequeue::Drop);
    }

    #[test]
    fn a_clock_that_stepped_back_drops_nothing() {
        let mut law = SelectiveDropper::new(&two_classes());
        let entered = Timestamp::ZERO + Duration::from_secs(5);
        let waiting =
            Waiting { class: ClassId::DEFAULT, entered, deadline: None, flow: 0, kind: 0 };
        assert_eq!(law.on_dequeue(Timestamp::ZERO, &waiting, &BUSY), Dequeue::Run);
    }

    #[test]
    fn the_door_stays_open() {
        let mut law = SelectiveDropper::new(&two_classes());
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
        assert_eq!(law.on_arrival(Timestamp::ZERO, &arrival, &BUSY), Decision::Admit);
    }
}
