//! A plain queue: a bound by the target and the mean service, and late ones are dropped.
//!
//! **Intuition.** What an engineer writes in an afternoon: let nobody wait for more than a
//! quarter of the target, and do not begin what is late by then. The measure of every other
//! law: what it does better is what its complexity is worth.
//!
//! **Mechanism.** With c workers and ŝ the mean service time, an event waits for q·ŝ ÷ c behind
//! q others. An arrival that no worker is free for is rejected if
//! ```text
//! q ≥ K = 0.25 · target · c ÷ ŝ
//! ```
//! events are queued, and a queued event is dropped when it has waited for longer than
//! target − ŝ: after a mean service its answer would be late. What has not waited at all
//! is never dropped. Before the first completion everything is admitted.
//!
//! **What we chose.** Of the service, the mean of the last hundred completions or so, of all
//! classes together: failures may take no time at all, and what was ended early says
//! nothing about how long it would have taken.
//!
//! **Limits.** The quarter leaves the rest of the target to the service: where that varies much
//! or takes long itself, answers are late that were within the bound, and no
//! loop measures it. Classes with different service wait in the same line; priorities,
//! weights and clients are alike to it. Workers that cannot be seen, as behind a
//! proxy, are not known to it either.

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Dequeue, Ending, Finished, Ratio,
    Reading, Reason, Rejection, Timestamp, Waiting,
};

use crate::constants::constants;

constants! {
    /// Of [`PlainQueue`].
    pub(crate) struct PlainQueueConstants {
        /// longest wait in the queue, as a share of the target
        wait_ratio: Ratio = 0.25 in 0.001..=1.0,
    }
}

/// A new service time is worth one of so many in the mean: an error of a tenth, with exponential
/// service.
const SERVICES: u32 = 100;

/// Bounds the queue by what can be served in a share of the target.
#[derive(Clone, Debug)]
pub struct PlainQueue {
    wait_ratio: f64,
    /// In seconds, of each class.
    targets: Box<[f64]>,
    /// ŝ in seconds, and of how many completions, up to [`SERVICES`].
    service_mean: f64,
    services: u32,
}

impl PlainQueue {
    /// With a quarter of the target to wait.
    pub fn new(classes: &Classes) -> Self {
        Self::with(classes, PlainQueueConstants::default().wait_ratio)
    }

    /// With this share of the target to wait.
    pub fn with(classes: &Classes, wait_ratio: Ratio) -> Self {
        Self {
            wait_ratio: wait_ratio.get(),
            targets: seconds(classes),
            service_mean: 0.0,
            services: 0,
        }
    }

    /// That of the first class for a class that the stage does not have.
    fn target(&self, class: ClassId) -> f64 {
        self.targets.get(class.index()).copied().unwrap_or(self.targets[0])
    }

    /// K; none before the first completion.
    fn bound(&self, class: ClassId, backlog: &Backlog<'_>) -> Option<f64> {
        let workers = f64::from(backlog.workers.get());
        (self.services > 0)
            .then(|| self.wait_ratio * self.target(class) * workers / self.service_mean)
    }
}

fn seconds(classes: &Classes) -> Box<[f64]> {
    classes.targets().map(|target| target.response_time().as_secs_f64()).collect()
}

impl AdmissionLaw for PlainQueue {
    fn name(&self) -> &'static str {
        "plain-queue"
    }

    fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let queued = f64::from(backlog.queued_total);
        match self.bound(arrival.class, backlog) {
            Some(bound) if !backlog.has_idle_worker() && queued >= bound => {
                Decision::Reject(Rejection::new(Reason::QueueFull))
            }
            _ => Decision::Admit,
        }
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        let waited = now.since(waiting.entered).as_secs_f64();
        let is_late = waited > (self.target(waiting.class) - self.service_mean).max(0.0);
        if is_late { Dequeue::Drop } else { Dequeue::Run }
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        if finished.ending != Ending::Completed {
            return;
        }
        self.services = SERVICES.min(self.services + 1);
        let difference = finished.service.as_secs_f64() - self.service_mean;
        self.service_mean += difference / f64::from(self.services);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.targets = seconds(classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "service_mean_seconds", class: None, value: self.service_mean });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Concurrency, Priority, Target, Together};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Of 200 ms and of 400 ms.
    fn classes() -> Classes {
        let class = |name: &str, millis| Class {
            name: name.into(),
            target: Target::p90(millis * MS).unwrap(),
            priority: Priority(0),
        };
        Classes::new(vec![class("fast", 200), class("slow", 400)]).unwrap()
    }

    fn backlog(queued: u32, running: u32) -> Backlog<'static> {
        let workers = Concurrency::new(8);
        Backlog { queued: &[], running: &[], queued_total: queued, running_total: running, workers }
    }

    fn finish(law: &mut PlainQueue, service: Duration, ending: Ending) {
        let class = ClassId::DEFAULT;
        let finished = Finished {
            class,
            service,
            response: service,
            ending,
            kind: 0,
            together: Together::ALONE,
        };
        law.on_finish(Timestamp::ZERO, &finished, &backlog(0, 0));
    }

    /// Has seen `count` completions of so many milliseconds.
    fn law(count: u32, millis: u32) -> PlainQueue {
        let mut law = PlainQueue::new(&classes());
        (0..count).for_each(|_| finish(&mut law, millis * MS, Ending::Completed));
        law
    }

    fn admits(law: &mut PlainQueue, class: usize, queued: u32, running: u32) -> bool {
        let class = ClassId::new(class);
        let arrival = Arrival { class, deadline: None, flow: 0, kind: 0 };
        let decision = law.on_arrival(Timestamp::ZERO, &arrival, &backlog(queued, running));
        decision == Decision::Admit
    }

    fn runs(law: &mut PlainQueue, class: usize, waited: Duration) -> bool {
        let waiting = Waiting {
            class: ClassId::new(class),
            entered: Timestamp::ZERO,
            deadline: None,
            flow: 0,
            kind: 0,
        };
        law.on_dequeue(Timestamp::ZERO + waited, &waiting, &backlog(1, 8)) == Dequeue::Run
    }

    #[test]
    fn the_bound_is_what_is_served_in_a_quarter_of_the_target() {
        // 0.25 · 200 ms · 8 ÷ 20 ms = 20, and twice as many of twice the target.
        for (class, bound) in [(0, 20), (1, 40)] {
            assert!(admits(&mut law(50, 20), class, bound - 1, 8));
            assert!(!admits(&mut law(50, 20), class, bound, 8));
        }
        let mut half = PlainQueue::with(&classes(), Ratio::saturating(0.5));
        finish(&mut half, 20 * MS, Ending::Completed);
        assert!(admits(&mut half, 0, 39, 8) && !admits(&mut half, 0, 40, 8));
    }

    #[test]
    fn what_would_be_late_after_a_mean_service_is_dropped() {
        let mut law = law(50, 20);
        assert!(runs(&mut law, 0, 180 * MS));
        assert!(!runs(&mut law, 0, 180 * MS + Duration::from_micros(1)));
        assert!(runs(&mut law, 1, 380 * MS) && !runs(&mut law, 1, 381 * MS));
    }

    #[test]
    fn the_mean_follows_the_service() {
        let mut law = law(1000, 20);
        (0..300).for_each(|_| finish(&mut law, 80 * MS, Ending::Completed));
        // 80 ms but for 60·0.99³⁰⁰ = 2.9 ms: K = 5.2, so that a sixth may wait.
        assert!((law.service_mean - 0.0771).abs() < 1e-4, "{law:?}");
        assert!(admits(&mut law, 0, 5, 8) && !admits(&mut law, 0, 6, 8));
    }

    #[test]
    fn before_the_first_completion_all_are_admitted() {
        let mut law = law(0, 0);
        assert!(admits(&mut law, 0, u32::MAX, 8));
        assert!(runs(&mut law, 0, 200 * MS) && !runs(&mut law, 0, 201 * MS));
    }

    #[test]
    fn only_completions_tell_how_long_service_takes() {
        let mut law = law(0, 0);
        for ending in [Ending::Failed, Ending::Terminated, Ending::Untimed] {
            finish(&mut law, MS, ending);
        }
        assert!(admits(&mut law, 0, 1_000_000, 8));
    }

    #[test]
    fn service_without_a_duration_bounds_nothing() {
        let mut law = law(10, 0);
        assert!(admits(&mut law, 0, u32::MAX, 8));
        assert!(runs(&mut law, 0, 200 * MS));
    }

    #[test]
    fn service_longer_than_the_target_leaves_who_does_not_wait() {
        // K = 0.25 · 200 ms · 8 ÷ 1 s = 0.4.
        let mut law = law(10, 1000);
        assert!(admits(&mut law, 0, 0, 7), "a worker is free");
        assert!(admits(&mut law, 0, 0, 8) && !admits(&mut law, 0, 1, 8));
        assert!(runs(&mut law, 0, Duration::ZERO) && !runs(&mut law, 0, MS));
    }

    #[test]
    fn new_targets_hold_from_the_next_decision_on() {
        let mut law = law(50, 20);
        law.set_targets(&Classes::single(Target::p90(40 * MS).unwrap()));
        // K = 0.25 · 40 ms · 8 ÷ 20 ms = 4.
        assert!(admits(&mut law, 0, 3, 8) && !admits(&mut law, 0, 4, 8));
        assert!(runs(&mut law, 1, 20 * MS) && !runs(&mut law, 1, 21 * MS), "as the first class");
    }
}
