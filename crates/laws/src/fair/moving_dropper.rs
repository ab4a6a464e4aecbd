//! The moving dropper: its threshold follows departure rate and queue length, which the thesis
//! leaves as future work [Fair07 §4.2.3].
//!
//! **Intuition.** Whom to give up on depends on who is behind. If the queue can be
//! served in time, patience costs nothing; if it cannot, every moment spent on an old
//! event makes all younger ones older, and the old might as well have been given
//! up sooner.
//!
//! **Why a fixed threshold is not enough.** Under lasting overload the head of the
//! queue is always as old as the threshold ([`SelectiveDropper`](super::SelectiveDropper)),
//! and what is served is served at the last moment.
//!
//! **Mechanism.** With S the fixed threshold (0.8 of the target), μ the departure rate
//! and q the queue's length, an event that came now would wait q ÷ μ. If that is more
//! than S, the threshold shrinks in proportion, and no further than to 0.05·S:
//! ```text
//! θ = S · min(1, S ÷ (q ÷ μ))
//! ```
//! At rest with arrivals at λ > μ the queue holds the arrivals of the last θ, q = λ·θ, so
//! that `θ = S·√(μ ÷ λ)`: 0.71·S at twice the capacity, 0.32·S at ten times. The head
//! is younger the greater the overload, and the queue never runs dry. For any λ it
//! stops at that point: a longer queue lowers θ, which shortens the queue.
//!
//! Classes of one priority share a line and a threshold, that of the strictest of them. Who waits
//! with a lower priority is not ahead of anyone in it, and does not count.
//!
//! μ is taken over periods of 100 departures or a second, each as heavy as all before it
//! (the weight of [Fair07 §5.3]). Events that failed have departed too. A stage that
//! has a backlog and finishes nothing for a second has a departure rate of zero in
//! that period; one that is empty learns nothing from it.
//!
//! **Limits.** Like the fixed one it admits everything: the memory is that of λ·θ events,
//! and clients learn late that they were rejected. A stage that stalls for some seconds
//! finds its threshold at the lower bound, and drops more than it had to when it goes on.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Dequeue, Finished, Priority,
    Reading, Timestamp, Waiting,
};

use super::dropper::{Thresholds, waited};

/// W [Fair07 §5.3].
const WEIGHT: f64 = 0.5;
/// As often as the papers' controller runs [Welsh03 fig. 4].
const DEPARTURES: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);
/// A rate cannot be told from a shorter window: 100 departures at once.
const PERIOD_MIN: Duration = Duration::from_millis(1);
/// What CoDel holds a standing queue to, as a share of its interval [RFC8289 §4].
const SHRINK_MIN: f64 = 0.05;

/// Drops at dequeue what has waited longer than the state of the queue allows.
#[derive(Clone, Debug)]
pub struct MovingDropper {
    thresholds: Thresholds,
    /// Of each class.
    priorities: Box<[Priority]>,
    began: Option<Timestamp>,
    departed: u32,
    /// μ, once a period has passed.
    departure_rate: Option<f64>,
    /// θ ÷ S at the last dequeue.
    shrink: f64,
}

impl MovingDropper {
    /// With the published threshold, 0.8 of the target, as the greatest.
    pub fn new(classes: &Classes) -> Self {
        Self {
            thresholds: Thresholds::strictest_of_priority(classes),
            priorities: classes.iter().map(|(_, class)| class.priority).collect(),
            began: None,
            departed: 0,
            departure_rate: None,
            shrink: 1.0,
        }
    }

    fn threshold(&mut self, class: ClassId, backlog: &Backlog<'_>) -> f64 {
        let greatest = self.thresholds.of(class);
        let queued = self.queued_with(class, backlog);
        self.shrink = match self.departure_rate {
            Some(rate) if queued > 0 => {
                let in_time = greatest * rate;
                (in_time / f64::from(queued)).clamp(SHRINK_MIN, 1.0)
            }
            _ => 1.0,
        };
        greatest * self.shrink
    }

    /// How many are queued that have the priority of `class` or a higher one.
    fn queued_with(&self, class: ClassId, backlog: &Backlog<'_>) -> u32 {
        let own = self.priorities.get(class.index()).unwrap_or(&self.priorities[0]);
        let behind = self.priorities.iter().zip(backlog.queued).filter(|(other, _)| *other > own);
        let behind = behind.fold(0_u32, |sum, (_, &queued)| sum.saturating_add(queued));
        backlog.queued_total.saturating_sub(behind)
    }

    fn end_period_if_over(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        let began = *self.began.get_or_insert(now);
        let passed = now.since(began);
        let enough = self.departed >= DEPARTURES && passed >= PERIOD_MIN;
        if !enough && passed < PERIOD {
            return;
        }
        let is_empty = backlog.queued_total == 0 && backlog.running_total == 0;
        if self.departed > 0 || !is_empty {
            let rate = f64::from(self.departed) / passed.as_secs_f64();
            let smoothed =
                self.departure_rate.map_or(rate, |past| WEIGHT * past + (1.0 - WEIGHT) * rate);
            self.departure_rate = Some(smoothed);
        }
        self.began = Some(now);
        self.departed = 0;
    }
}

impl AdmissionLaw for MovingDropper {
    fn name(&self) -> &'static str {
        "moving-dropper"
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        self.began.get_or_insert(now);
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        if waited(now, waiting) > self.threshold(waiting.class, backlog) {
            Dequeue::Drop
        } else {
            Dequeue::Run
        }
    }

    fn on_finish(&mut self, now: Timestamp, _: &Finished, backlog: &Backlog<'_>) {
        self.departed = self.departed.saturating_add(1);
        self.end_period_if_over(now, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.end_period_if_over(now, backlog);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.thresholds = Thresholds::strictest_of_priority(classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        for (index, threshold) in self.thresholds.iter().enumerate() {
            let class = Some(ClassId::new(index));
            let value = threshold * self.shrink;
            visit(Reading { name: "drop_threshold_seconds", class, value });
        }
        let value = self.departure_rate.unwrap_or(0.0);
        visit(Reading { name: "departures_per_second", class: None, value });
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Class, Ending, Target, Together};

    use super::super::dropper::tests::{BUSY, dequeue, two_classes};
    use super::*;

    fn finish(law: &mut MovingDropper, millis: u64) {
        let service = Duration::from_millis(10);
        let class = ClassId::DEFAULT;
        let finished = Finished {
            class,
            service,
            response: service,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        law.on_finish(Timestamp::ZERO + Duration::from_millis(millis), &finished, &BUSY);
    }

    /// Has seen so many departures a second, for ten seconds.
    fn law(per_second: u64) -> MovingDropper {
        let mut law = MovingDropper::new(&two_classes());
        law.on_tick(Timestamp::ZERO, &BUSY);
        (1..=per_second * 10).for_each(|event| finish(&mut law, event * 1000 / per_second));
        law
    }

    fn queue(queued_total: u32) -> Backlog<'static> {
        Backlog { queued_total, ..BUSY }
    }

    #[test]
    fn a_queue_that_can_be_served_in_time_has_the_whole_threshold() {
        let mut law = law(100);
        // 100 a second: 80 are served within the 0.8 s.
        assert_eq!(dequeue(&mut law, 0, 800, &queue(80)), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 0, 801, &queue(80)), Dequeue::Drop);
    }

    #[test]
    fn a_queue_twice_as_long_has_half_of_it() {
        let mut law = law(100);
        assert_eq!(dequeue(&mut law, 0, 399, &queue(160)), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 0, 401, &queue(160)), Dequeue::Drop);
        // A class with twice the target waits in the same line.
        assert_eq!(dequeue(&mut law, 1, 401, &queue(160)), Dequeue::Drop);
    }

    #[test]
    fn who_waits_with_a_lower_priority_takes_no_time_from_the_others() {
        let class = |name: &str, priority| Class {
            name: name.into(),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(priority),
        };
        let classes = Classes::new(vec![class("gold", 0), class("tin", 1)]).unwrap();
        let mut law = MovingDropper { departure_rate: Some(100.0), ..MovingDropper::new(&classes) };
        let backlog = Backlog { queued: &[0, 1000], queued_total: 1000, ..BUSY };
        assert_eq!(dequeue(&mut law, 0, 400, &backlog), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 0, 800, &backlog), Dequeue::Run);
        // 0.8 s · 0.8 s ÷ (1000 ÷ 100/s) = 64 ms
        assert_eq!(dequeue(&mut law, 1, 63, &backlog), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 1, 65, &backlog), Dequeue::Drop);
        // Behind 1000 of gold both have as little.
        let backlog = Backlog { queued: &[1000, 0], ..backlog };
        assert_eq!(dequeue(&mut law, 0, 65, &backlog), Dequeue::Drop);
        assert_eq!(dequeue(&mut law, 1, 65, &backlog), Dequeue::Drop);
    }

    #[test]
    fn the_least_threshold_is_a_twentieth() {
        let mut law = law(100);
        assert_eq!(dequeue(&mut law, 0, 39, &queue(u32::MAX)), Dequeue::Run);
        assert_eq!(dequeue(&mut law, 0, 41, &queue(u32::MAX)), Dequeue::Drop);
    }

    #[test]
    fn before_a_period_has_passed_the_threshold_is_fixed() {
        let mut law = MovingDropper::new(&two_classes());
        assert_eq!(dequeue(&mut law, 0, 799, &queue(100_000)), Dequeue::Run);
    }

    #[test]
    fn a_stall_halves_the_rate_each_second_and_an_idle_second_does_not() {
        let mut law = law(100);
        let second = |second| Timestamp::ZERO + Duration::from_secs(second);
        law.on_tick(second(11), &BUSY);
        assert!((law.departure_rate.unwrap() - 50.0).abs() < 1.0, "{law:?}");
        let empty = Backlog { queued_total: 0, running_total: 0, ..BUSY };
        law.on_tick(second(12), &empty);
        assert!((law.departure_rate.unwrap() - 50.0).abs() < 1.0, "{law:?}");
    }

    #[test]
    fn a_clock_that_stands_still_yields_no_rate() {
        let mut law = MovingDropper::new(&two_classes());
        (0..1000).for_each(|_| finish(&mut law, 0));
        assert_eq!(law.departure_rate, None);
    }
}
