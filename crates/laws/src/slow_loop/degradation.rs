//! The papers' service degradation: lowers the quality of answers instead of rejecting events.
//!
//! **Intuition.** An overloaded service does less for each event before it rejects events.
//! The stage keeps a *quality factor*; its handler reads it, and does
//! that much of what it would do at full quality: fewer checksums, smaller images,
//! fewer hits.
//!
//! **Why the obvious way fails.** Quality has an end. When even the least quality
//! takes too long for so many events, only admission control helps; and one that rejects
//! from the start keeps response times so well that quality is never asked for.
//! So the papers shut the one off while the other can still give
//! ([`AdmissionWhenSpent`]).
//!
//! **Mechanism** [Welsh02 §7.2.2, §7.3.4; Welsh03 §3.4, §4.5]. The percentile that is
//! promised is measured as in the response-time controller, for each class. At
//! most once a second:
//! ```text
//! the worst class is above its target:    quality ← max(least, quality ÷ 1.2)
//! every class is below half its target:   quality ← min(1, quality + 0.02)
//! between, or without answers to judge:   quality stays
//! ```
//!
//! **What the papers leave open, and we chose.** They say that the factor is reduced
//! above the limit and *increased slowly* below it, and no more. The step down is
//! the response-time controller's adj_d, so that five of them more than halve
//! quality; the step up is a fiftieth, so that going from nothing to full takes
//! about a minute. Less than a hundredth is the least. "Below" is below half of the target, the controller's err_i: else
//! it would take back at once what it has just done. The least quality is whatever
//! the service can still call service: the caller states it.
//!
//! **Limits.** It swings between half the target and the target, and beyond, as it sees
//! a change one response time late [Welsh02 fig. 56]. With [`AdmissionWhenSpent`] the
//! pair swings too, once admission control keeps response times below half of the target:
//! quality rises a step, admission opens, and all who were rejected are in the
//! queue at once.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Dequeue, Finished,
    Leeway, Moved, PlaceLimits, QualityLaw, QueueOrder, Ratio, Reading, Strain, Timestamp, Waiting,
};

use crate::constants::constants;
use crate::smoothed_percentile::{Period, SmoothedPercentile};

/// adj_d of the response-time controller [Welsh03 fig. 4].
const DECREASE: f64 = 1.2;

/// err_i of the response-time controller [Welsh03 fig. 4].
const ERROR_INCREASE: f64 = -0.5;

/// "Increased slowly" [Welsh02 §7.3.4].
const INCREASE: f64 = 0.02;

/// Less is the least quality: by division alone a least of zero is never reached, and the law never
/// spent.
const NEGLIGIBLE: f64 = 0.01;

/// The percentile is sampled periodically [Welsh02 §7.2.2]; timeout of the
/// response-time controller [Welsh03 fig. 4].
const INTERVAL: Duration = Duration::from_secs(1);

constants! {
    /// Of [`Degradation`].
    pub(crate) struct DegradationConstants {
        /// what is still called service
        quality_least_ratio: Ratio = 0.25 in 0.0..=1.0,
    }
}

/// Lowers quality while the promised percentile is above its target.
#[derive(Clone, Debug)]
pub struct Degradation {
    least: f64,
    quality: f64,
    monitors: Box<[Monitor]>,
    stepped: Option<Timestamp>,
    /// Quality is at its least, and the percentile was above its target still.
    spent: bool,
}

/// One class's percentile.
#[derive(Clone, Debug)]
struct Monitor {
    percentile: SmoothedPercentile,
    /// Its error, if a period has ended since the last step.
    err: Option<f64>,
}

impl Degradation {
    /// Quality between `least` and full, beginning with full.
    pub fn new(classes: &Classes, least: Ratio) -> Self {
        let monitor = |target| Monitor {
            percentile: SmoothedPercentile::new(target, Period::PUBLISHED),
            err: None,
        };
        Self {
            least: least.get(),
            quality: 1.0,
            monitors: classes.iter().map(|(_, class)| monitor(class.target)).collect(),
            stepped: None,
            spent: false,
        }
    }

    /// The error of the class that is worst off, if any had answers.
    fn take_worst(&mut self) -> Option<f64> {
        self.monitors.iter_mut().filter_map(|monitor| monitor.err.take()).reduce(f64::max)
    }

    fn step(&mut self, err: f64, leeway: Leeway) {
        if err > 0.0 && leeway.may_press() {
            self.spent = self.quality <= self.least;
            let lower = (self.quality / DECREASE).max(self.least);
            self.quality = if lower < NEGLIGIBLE { self.least } else { lower };
        } else if err < ERROR_INCREASE && leeway.may_ease() {
            self.spent = false;
            self.quality = (self.quality + INCREASE).min(1.0);
        }
    }
}

impl QualityLaw for Degradation {
    fn name(&self) -> &'static str {
        "degradation"
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished) {
        let index = finished.class.index();
        let index = if index < self.monitors.len() { index } else { 0 };
        let monitor = &mut self.monitors[index];
        monitor.err = monitor.percentile.learn(now, finished).or(monitor.err);
    }

    fn on_tick(&mut self, now: Timestamp, _: &Activity<'_>, leeway: Leeway) -> Ratio {
        for monitor in &mut self.monitors {
            monitor.err = monitor.percentile.elapse(now).or(monitor.err);
        }
        let stepped = *self.stepped.get_or_insert(now);
        if now.since(stepped) >= INTERVAL {
            self.stepped = Some(now);
            if let Some(err) = self.take_worst() {
                self.step(err, leeway);
            }
        }
        Ratio::saturating(self.quality)
    }

    fn strain(&self) -> Strain {
        if self.least >= 1.0 {
            Strain::Fixed
        } else if self.spent {
            Strain::Spent
        } else if self.quality >= 1.0 {
            Strain::Eased
        } else {
            Strain::Partial
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        for (monitor, target) in self.monitors.iter_mut().zip(classes.targets()) {
            monitor.percentile.set_target(target);
            // An error relative to the old target says nothing of the new one.
            monitor.err = None;
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "quality_ratio", class: None, value: self.quality });
        for (index, monitor) in self.monitors.iter().enumerate() {
            let class = Some(ClassId::new(index));
            let value = monitor.percentile.smoothed_seconds();
            visit(Reading { name: "response_smoothed_seconds", class, value });
        }
    }
}

/// An admission law that has a say only while quality has nothing left to give
/// [Welsh02 §7.3.4].
///
/// While it has no say it is told nothing either: a law that learned from what its
/// rejections would have prevented would begin with its rate at the bottom.
#[derive(Clone, Debug)]
pub struct AdmissionWhenSpent<L> {
    law: L,
    on: bool,
}

impl<L: AdmissionLaw> AdmissionWhenSpent<L> {
    /// With `law` off, as long as quality is full.
    pub fn new(law: L) -> Self {
        Self { law, on: false }
    }

    /// What the quality law says of itself, after each of its ticks.
    pub fn on_quality(&mut self, strain: Strain) {
        self.on = !strain.can_press();
    }
}

impl<L: AdmissionLaw> AdmissionLaw for AdmissionWhenSpent<L> {
    fn name(&self) -> &'static str {
        self.law.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        if self.on { self.law.on_arrival(now, arrival, backlog) } else { Decision::Admit }
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        if self.on { self.law.on_dequeue(now, waiting, backlog) } else { Dequeue::Run }
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        if self.on { self.law.on_sweep(now, waiting, backlog) } else { Dequeue::Run }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        if self.on {
            self.law.on_finish(now, finished, backlog);
        }
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        if self.on {
            self.law.on_move(now, moved, backlog);
        }
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        if self.on {
            self.law.on_tick(now, backlog);
        }
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        if self.on {
            self.law.on_cpu(now, busy);
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.law.set_targets(classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let value = f64::from(u8::from(self.on));
        visit(Reading { name: "admission_on_ratio", class: None, value });
        self.law.readings(visit);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        self.law.place_limits()
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        if self.on { self.law.queue_order() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Concurrency, Ending, Target, Together};

    use super::*;
    use crate::Threshold;

    const BACKLOG: Backlog<'static> = Backlog {
        queued: &[9],
        running: &[1],
        queued_total: 9,
        running_total: 1,
        workers: Concurrency::ONE,
    };

    /// A law with a target of 1 s, and how many seconds have passed.
    struct Case {
        law: Degradation,
        second: u64,
    }

    impl Case {
        fn new(least: f64) -> Self {
            let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
            let mut case =
                Self { law: Degradation::new(&classes, Ratio::saturating(least)), second: 0 };
            case.tick(Leeway::Either);
            case
        }

        fn tick(&mut self, leeway: Leeway) -> f64 {
            let activity =
                Activity { backlog: BACKLOG, offered: 0, lost: 0, completed: 0, workers_idle: 0 };
            let now = Timestamp::ZERO + Duration::from_secs(self.second);
            self.second += 1;
            self.law.on_tick(now, &activity, leeway).get()
        }

        /// A hundred answers after `millis`, and the tick after them.
        fn second(&mut self, millis: u64) -> f64 {
            self.answers(millis);
            self.tick(Leeway::Either)
        }

        fn answers(&mut self, millis: u64) {
            let now = Timestamp::ZERO + Duration::from_secs(self.second);
            let response = Duration::from_millis(millis);
            let ending = Ending::Completed;
            let class = ClassId::DEFAULT;
            let finished = Finished {
                class,
                service: response,
                response,
                ending,
                kind: 0,
                together: Together::ALONE,
            };
            (0..100).for_each(|_| self.law.on_finish(now, &finished));
        }
    }

    #[test]
    fn above_the_target_quality_falls_and_below_it_rises_slowly() {
        let mut case = Case::new(0.1);
        assert!((case.second(1100) - 1.0 / 1.2).abs() < 1e-9);
        assert!((case.second(1100) - 1.0 / 1.44).abs() < 1e-9);
        // From 1.1 down in seven tenths: 0.80 0.59 0.44
        (0..2).for_each(|_| assert!((case.second(100) - 1.0 / 1.44).abs() < 1e-9));
        assert!((case.second(100) - (1.0 / 1.44 + 0.02)).abs() < 1e-9);
    }

    #[test]
    fn it_is_spent_when_the_least_quality_is_still_too_slow() {
        let mut case = Case::new(0.5);
        // 1 ÷ 1.2⁴ = 0.48
        (0..4).for_each(|_| _ = case.second(2000));
        assert_eq!((case.law.quality, case.law.strain()), (0.5, Strain::Partial));
        case.second(2000);
        assert_eq!((case.law.quality, case.law.strain()), (0.5, Strain::Spent));
        // From 2.0 down in seven tenths: 1.43 1.03 0.75 0.56 0.42
        (0..5).for_each(|_| _ = case.second(100));
        assert_eq!((case.law.quality, case.law.strain()), (0.52, Strain::Partial));
    }

    #[test]
    fn a_least_quality_of_zero_is_reached() {
        let mut case = Case::new(0.0);
        (0..100).for_each(|_| _ = case.second(2000));
        assert_eq!((case.law.quality, case.law.strain()), (0.0, Strain::Spent));
        // From 2.0 down in seven tenths, as above.
        (0..5).for_each(|_| _ = case.second(100));
        assert_eq!((case.law.quality, case.law.strain()), (0.02, Strain::Partial));
    }

    #[test]
    fn a_second_without_answers_changes_nothing() {
        let mut case = Case::new(0.1);
        let before = case.second(2000);
        (0..100).for_each(|_| assert_eq!(case.tick(Leeway::Either), before));
    }

    #[test]
    fn it_moves_only_the_way_it_may() {
        let mut case = Case::new(0.1);
        case.answers(2000);
        assert_eq!(case.tick(Leeway::Ease), 1.0);
        case.answers(2000);
        assert!((case.tick(Leeway::Press) - 1.0 / 1.2).abs() < 1e-9);
        (0..10).for_each(|_| case.answers(10));
        assert!((case.tick(Leeway::Press) - 1.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_worst_class_decides() {
        let class = |name: &str, seconds| tamarisk_control::Class {
            name: name.to_owned(),
            target: Target::p90(Duration::from_secs(seconds)).unwrap(),
            priority: tamarisk_control::Priority(0),
        };
        let classes = Classes::new(vec![class("a", 1), class("b", 10)]).unwrap();
        let mut case = Case::new(0.1);
        case.law = Degradation::new(&classes, Ratio::saturating(0.1));
        case.tick(Leeway::Either);
        case.answers(2000);
        let response = Duration::from_millis(5);
        let b = Finished {
            kind: 0,
            class: ClassId::new(1),
            service: response,
            response,
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        (0..500).for_each(|_| case.law.on_finish(Timestamp::ZERO, &b));
        assert!((case.tick(Leeway::Either) - 1.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_door_is_the_laws_only_while_quality_is_spent() {
        let mut law = AdmissionWhenSpent::new(Threshold::new(0));
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
        let mut admits = |strain| {
            law.on_quality(strain);
            law.on_arrival(Timestamp::ZERO, &arrival, &BACKLOG) == Decision::Admit
        };
        assert!(admits(Strain::Eased) && admits(Strain::Partial));
        assert!(!admits(Strain::Spent) && !admits(Strain::Fixed));
        assert!(admits(Strain::Partial));
    }
}
