//! The papers' response-time controller: AIMD on the rate of a token bucket.
//!
//! **Intuition.** Watch the 90th percentile of response times. While it is well
//! below the target let a little more in each time; as soon as it exceeds the
//! target let much less in.
//!
//! **Mechanism** [Welsh03 §3.2, fig. 3–4; Welsh02 §7.2.1, fig. 49–50]. After every
//! `nreq` completions, or `timeout` if they are fewer, with `samp` their p90:
//! ```text
//! cur = α·cur + (1 − α)·samp          err = (cur − target) ÷ target
//! err > err_d:  rate ← rate ÷ adj_d
//! err < err_i:  rate ← rate + adj_i · −(err − c_i)
//! ```
//! The rate stays between `rate_min` and `rate_max` and feeds a token bucket at
//! the stage's queue. Each class has a controller and a bucket of its own; the
//! papers' cascade between classes [Welsh02 §7.2.3] is a law of its own,
//! [`Multiclass`](crate::Multiclass).
//!
//! **Where it falls short.** In calm it winds up: the rate rises by up to two requests a second
//! in each run, whether anybody asks for them or not, and is at its greatest within a quarter
//! of an hour at some hundreds of requests a second. The next overload finds no limit, and is
//! seen one queue later than it happens. And it counts requests where work would matter. It is
//! here because everything else has to be compared with it.
//!
//! **What the papers do not print** stands in the author's released code, \[Sandstorm\]
//! `ResponseTimeControllerMulticlass`: the first rate is 100 a second, and the bucket holds one
//! token. The released code has the printed constants otherwise, and differs in this, which is
//! not followed:
//! - Its first percentile is averaged with an initial zero. Here it is taken as it is.
//! - It runs only when a batch of events is done, so that an interval without any ends late. If
//!   the hundredth event of a period comes after the timeout, the period counts as a percentile
//!   of zero. Here an interval without completions changes nothing.
//! - Its percentile of n samples is the sample at n·0.9, counted from 0.
//!
//! [Welsh03 §3.2] measures from where a request entered the service; here a stage is told its
//! own response times, unless it is built to be told those
//! ([`MeasuredFrom`](tamarisk_control::MeasuredFrom)).
//!
//! **Ours:** an event that failed or was terminated counts as no sooner than the target:
//! errors come fast, and must not read as good service.
//!
//! **Variant.** The position paper calls the percentile late above 1.1 times the target, and
//! halves the rate [Welsh01 §3.2]: [`ResponseTimeBuilder::halving`].

mod builder;
mod class_controller;

pub(crate) use builder::{HalvingConstants, ResponseTimeConstants};
pub use builder::{InvalidResponseTime, ResponseTimeBuilder};
pub(crate) use class_controller::ClassController;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Finished, Reading, Timestamp,
};

use tamarisk_laws::smoothed_percentile::Period;

/// Keeps the percentile of each class at its target by its admission rate.
#[derive(Clone, Debug)]
pub struct ResponseTime {
    name: &'static str,
    parameters: Parameters,
    controllers: Box<[ClassController]>,
}

/// The parameters of [Welsh03 fig. 4], by its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parameters {
    /// nreq, timeout, α
    pub(crate) period: Period,
    pub(crate) err_i: f64,
    pub(crate) err_d: f64,
    pub(crate) adj_i: f64,
    pub(crate) adj_d: f64,
    pub(crate) c_i: f64,
    pub(crate) rate_min: f64,
    pub(crate) rate_max: f64,
    /// \[Sandstorm\] `INIT_RATE`
    pub(crate) rate_initial: f64,
    /// \[Sandstorm\] `INIT_DEPTH`
    pub(crate) burst: f64,
}

impl ResponseTime {
    /// The controller with the published parameters.
    pub fn new(classes: &Classes) -> Self {
        Self::builder(classes).law()
    }

    /// The controller with parameters of one's own.
    pub fn builder(classes: &Classes) -> ResponseTimeBuilder<'_> {
        ResponseTimeBuilder::new(classes)
    }

    fn resolve(&self, class: ClassId) -> usize {
        if class.index() < self.controllers.len() { class.index() } else { 0 }
    }
}

/// A period of `controller` ended with this error: moves its rate.
fn steer(controller: &mut ClassController, now: Timestamp, err: f64, parameters: &Parameters) {
    if err > parameters.err_d {
        controller.lower(now, parameters.adj_d, parameters);
    } else {
        controller.raise(now, err, parameters);
    }
}

/// Holds each class to its target in `classes` from now on.
pub(crate) fn set_targets(controllers: &mut [ClassController], classes: &Classes) {
    for (controller, target) in controllers.iter_mut().zip(classes.targets()) {
        controller.monitor.set_target(target);
    }
}

/// Shows the rate and the percentile of each class.
pub(crate) fn show(controllers: &[ClassController], visit: &mut dyn FnMut(Reading<'_>)) {
    for (index, controller) in controllers.iter().enumerate() {
        let class = Some(ClassId::new(index));
        visit(Reading { name: "rate_per_second", class, value: controller.rate() });
        let smoothed = controller.monitor.smoothed_seconds();
        visit(Reading { name: "response_smoothed_seconds", class, value: smoothed });
    }
}

impl AdmissionLaw for ResponseTime {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        let index = self.resolve(arrival.class);
        self.controllers[index].admit(now)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        let index = self.resolve(finished.class);
        let controller = &mut self.controllers[index];
        if let Some(err) = controller.monitor.learn(now, finished) {
            steer(controller, now, err, &self.parameters);
        }
    }

    fn on_tick(&mut self, now: Timestamp, _: &Backlog<'_>) {
        for controller in &mut self.controllers {
            if let Some(err) = controller.monitor.elapse(now) {
                steer(controller, now, err, &self.parameters);
            }
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        set_targets(&mut self.controllers, classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        show(&self.controllers, visit);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Concurrency, Ending, Reason, Target, Together};

    use super::*;

    const IDLE: Backlog<'static> = Backlog {
        queued: &[0],
        running: &[0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn law() -> ResponseTime {
        ResponseTime::new(&Classes::single(Target::p90(Duration::from_secs(1)).unwrap()))
    }

    fn finish(law: &mut ResponseTime, millis: u64, count: usize, ending: Ending) {
        let response = Duration::from_millis(millis);
        let class = ClassId::DEFAULT;
        let finished = Finished {
            class,
            service: response,
            response,
            ending,
            kind: 0,
            together: Together::ALONE,
        };
        (0..count).for_each(|_| law.on_finish(at(0), &finished, &IDLE));
    }

    fn set_rate(law: &mut ResponseTime, rate: f64) {
        law.controllers[0].set_rate(at(0), rate, &law.parameters);
    }

    fn rate(law: &ResponseTime) -> f64 {
        law.controllers[0].rate()
    }

    #[test]
    fn a_hundred_late_answers_divide_the_rate_by_1_2() {
        let mut law = law();
        finish(&mut law, 1500, 100, Ending::Completed);
        assert!((rate(&law) - 100.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn ninety_nine_are_not_enough_until_a_second_has_passed() {
        let mut law = law();
        finish(&mut law, 1500, 99, Ending::Completed);
        law.on_tick(at(999), &IDLE);
        assert_eq!(rate(&law), 100.0);
        law.on_tick(at(1000), &IDLE);
        assert!((rate(&law) - 100.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn a_p90_of_a_tenth_of_the_target_adds_1_6_a_second() {
        let mut law = law();
        set_rate(&mut law, 100.0);
        finish(&mut law, 100, 100, Ending::Completed);
        // err = −0.9; −(−0.9 + 0.1) · 2.0 = 1.6
        assert!((rate(&law) - 101.6).abs() < 1e-9);
    }

    #[test]
    fn between_half_the_target_and_the_target_the_rate_stays() {
        let mut law = law();
        finish(&mut law, 700, 1000, Ending::Completed);
        assert_eq!(rate(&law), 100.0);
    }

    #[test]
    fn the_rate_stops_at_its_bounds() {
        let mut law = law();
        finish(&mut law, 9000, 100_000, Ending::Completed);
        assert_eq!(rate(&law), 0.05);
        let mut law = self::law();
        // 1.798 in each run: 2726 of them.
        finish(&mut law, 1, 272_000, Ending::Completed);
        assert!(rate(&law) < 5000.0);
        finish(&mut law, 1, 1_000, Ending::Completed);
        assert_eq!(rate(&law), 5000.0);
    }

    /// \[Sandstorm\] `INIT_RATE` and `INIT_DEPTH`
    #[test]
    fn it_begins_with_a_hundred_a_second_and_one_token() {
        let mut law = law();
        assert_eq!(rate(&law), 100.0);
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
        let mut admits = |millis| law.on_arrival(at(millis), &arrival, &IDLE) == Decision::Admit;
        let admitted = [0, 0, 9, 11, 1000, 1000, 1009].map(&mut admits);
        assert_eq!(admitted, [true, false, false, true, true, false, false]);
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        let builder = ResponseTime::builder(&classes);
        let least = tamarisk_control::PerSecond::new(30.0).unwrap();
        assert_eq!(rate(&builder.rate_max(least).build().unwrap()), 30.0);
    }

    /// [Welsh01 §3.2]
    #[test]
    fn the_variant_of_the_position_paper_halves_the_rate_a_tenth_above_the_target() {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        let mut law = ResponseTime::builder(&classes).halving().build().unwrap();
        assert_eq!(law.name(), "response-time-halving");
        finish(&mut law, 1090, 1000, Ending::Completed);
        assert_eq!(rate(&law), 100.0);
        // 0.7·1.09 + 0.3·1.2 = 1.123
        finish(&mut law, 1200, 100, Ending::Completed);
        assert_eq!(rate(&law), 50.0);
    }

    #[test]
    fn an_idle_interval_changes_nothing() {
        let mut law = law();
        finish(&mut law, 1500, 100, Ending::Completed);
        let before = rate(&law);
        (1..100).for_each(|second| law.on_tick(at(second * 1000), &IDLE));
        assert_eq!(rate(&law), before);
    }

    #[test]
    fn failures_that_come_fast_do_not_raise_the_rate() {
        let mut law = law();
        set_rate(&mut law, 100.0);
        finish(&mut law, 1, 100, Ending::Failed);
        assert_eq!(rate(&law), 100.0);
    }

    #[test]
    fn an_empty_bucket_says_when_to_come_back() {
        let mut law = law();
        set_rate(&mut law, 2.0);
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
        assert_eq!(law.on_arrival(at(0), &arrival, &IDLE), Decision::Admit);
        let Decision::Reject(rejection) = law.on_arrival(at(0), &arrival, &IDLE) else {
            panic!("a bucket of one token admitted two")
        };
        assert_eq!(rejection.reason, Reason::RateExceeded);
        assert_eq!(rejection.retry_after, Some(Duration::from_millis(500)));
    }
}
