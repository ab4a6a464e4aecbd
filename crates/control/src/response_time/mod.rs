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
//! the stage's door. Each class has a controller and a bucket of its own; the
//! papers' cascade between classes [Welsh02 §7.2.3] is not part of this law.
//!
//! **Where it falls short.** It sees overload one queue later than it happens,
//! climbs by two requests a second and second, whatever the service can do, and
//! counts requests where work would matter. It is here because everything else
//! has to be compared with it.
//!
//! **What the papers leave open, and we chose.**
//! - The first rate is `rate_max`: a law that has seen nothing refuses nothing.
//! - The bucket holds ten tokens.
//! - The first percentile is taken as it is, not averaged with an initial zero.
//! - An interval without completions changes nothing: an idle stage keeps its rate.
//! - An event that failed or was terminated counts as no sooner than the target:
//!   errors come fast, and must not read as good service.

mod builder;

use std::time::Duration;

pub use builder::{InvalidResponseTime, ResponseTimeBuilder};

use crate::period_samples::PeriodSamples;
use crate::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Ending, Finished, PerSecond,
    Reading, Reason, Rejection, Timestamp, TokenBucket,
};

/// Tokens that a bucket keeps: the burst that passes after a pause. The papers
/// give none; ten are few against any rate that matters.
const DEPTH: f64 = 10.0;

/// Keeps the percentile of each class at its target by its admission rate.
#[derive(Clone, Debug)]
pub struct ResponseTime {
    parameters: Parameters,
    controllers: Box<[Controller]>,
}

/// The parameters of [Welsh03 fig. 4], by its names.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parameters {
    nreq: u32,
    timeout: Duration,
    alpha: f64,
    err_i: f64,
    err_d: f64,
    adj_i: f64,
    adj_d: f64,
    c_i: f64,
    rate_min: f64,
    rate_max: f64,
}

#[derive(Clone, Debug)]
struct Controller {
    target: f64,
    percentile: f64,
    samples: PeriodSamples,
    cur: Option<f64>,
    ran: Option<Timestamp>,
    bucket: TokenBucket,
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

impl Controller {
    fn learn(&mut self, now: Timestamp, response: Duration, parameters: &Parameters) {
        self.ran.get_or_insert(now);
        self.samples.push(response.as_secs_f64());
        if self.samples.is_full() {
            self.run(now, parameters);
        }
    }

    fn on_tick(&mut self, now: Timestamp, parameters: &Parameters) {
        let ran = *self.ran.get_or_insert(now);
        if now.since(ran) >= parameters.timeout {
            self.run(now, parameters);
        }
    }

    fn run(&mut self, now: Timestamp, parameters: &Parameters) {
        self.ran = Some(now);
        if self.samples.len() == 0 {
            return;
        }
        let samp = self.samples.take_quantile(self.percentile);
        let Parameters { alpha, err_i, err_d, adj_i, adj_d, c_i, rate_min, rate_max, .. } =
            *parameters;
        let cur = self.cur.map_or(samp, |cur| alpha * cur + (1.0 - alpha) * samp);
        self.cur = Some(cur);
        let err = (cur - self.target) / self.target;
        let rate = self.bucket.rate().get();
        let rate = if err > err_d {
            rate / adj_d
        } else if err < err_i {
            rate + adj_i * -(err - c_i)
        } else {
            rate
        };
        if let Ok(rate) = PerSecond::new(rate.clamp(rate_min, rate_max)) {
            self.bucket.set_rate(now, rate);
        }
    }
}

impl AdmissionLaw for ResponseTime {
    fn name(&self) -> &'static str {
        "response-time"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        let index = self.resolve(arrival.class);
        match self.controllers[index].bucket.take(now) {
            Ok(()) => Decision::Admit,
            Err(wait) => Decision::Reject(Rejection::new(Reason::RateExceeded).retry_after(wait)),
        }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        let index = self.resolve(finished.class);
        let controller = &mut self.controllers[index];
        let response = match finished.ending {
            Ending::Completed => finished.response,
            Ending::Failed | Ending::Terminated => {
                finished.response.max(Duration::from_secs_f64(controller.target))
            }
            Ending::Untimed => return,
        };
        controller.learn(now, response, &self.parameters);
    }

    fn on_tick(&mut self, now: Timestamp, _: &Backlog<'_>) {
        for controller in &mut self.controllers {
            controller.on_tick(now, &self.parameters);
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        for (index, controller) in self.controllers.iter().enumerate() {
            let class = Some(ClassId::new(index));
            let rate = controller.bucket.rate().get();
            visit(Reading { name: "rate_per_second", class, value: rate });
            let cur = controller.cur.unwrap_or(0.0);
            visit(Reading { name: "response_smoothed_seconds", class, value: cur });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Concurrency, Target};

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
        let finished = Finished { class, service: response, response, ending };
        (0..count).for_each(|_| law.on_finish(at(0), &finished, &IDLE));
    }

    fn rate(law: &ResponseTime) -> f64 {
        law.controllers[0].bucket.rate().get()
    }

    #[test]
    fn a_hundred_late_answers_divide_the_rate_by_1_2() {
        let mut law = law();
        finish(&mut law, 1500, 100, Ending::Completed);
        assert!((rate(&law) - 5000.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn ninety_nine_are_not_enough_until_a_second_has_passed() {
        let mut law = law();
        finish(&mut law, 1500, 99, Ending::Completed);
        law.on_tick(at(999), &IDLE);
        assert_eq!(rate(&law), 5000.0);
        law.on_tick(at(1000), &IDLE);
        assert!((rate(&law) - 5000.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn a_p90_of_a_tenth_of_the_target_adds_1_6_a_second() {
        let mut law = law();
        law.controllers[0].bucket.set_rate(at(0), PerSecond::new(100.0).unwrap());
        finish(&mut law, 100, 100, Ending::Completed);
        // err = −0.9; −(−0.9 + 0.1) · 2.0 = 1.6
        assert!((rate(&law) - 101.6).abs() < 1e-9);
    }

    #[test]
    fn between_half_the_target_and_the_target_the_rate_stays() {
        let mut law = law();
        finish(&mut law, 700, 1000, Ending::Completed);
        assert_eq!(rate(&law), 5000.0);
    }

    #[test]
    fn the_percentile_is_smoothed_with_seven_tenths_of_the_past() {
        let mut law = law();
        finish(&mut law, 1000, 100, Ending::Completed);
        finish(&mut law, 2000, 100, Ending::Completed);
        // 0.7·1 s + 0.3·2 s
        assert!((law.controllers[0].cur.unwrap() - 1.3).abs() < 1e-9);
    }

    #[test]
    fn the_rate_stops_at_its_bounds() {
        let mut law = law();
        finish(&mut law, 9000, 100_000, Ending::Completed);
        assert_eq!(rate(&law), 0.05);
        let mut law = self::law();
        finish(&mut law, 1, 100_000, Ending::Completed);
        assert_eq!(rate(&law), 5000.0);
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
        law.controllers[0].bucket.set_rate(at(0), PerSecond::new(100.0).unwrap());
        finish(&mut law, 1, 100, Ending::Failed);
        assert_eq!(rate(&law), 100.0);
    }

    #[test]
    fn an_empty_bucket_says_when_to_come_back() {
        let mut law = law();
        law.controllers[0].bucket = TokenBucket::new(PerSecond::new(2.0).unwrap(), 1.0);
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None };
        assert_eq!(law.on_arrival(at(0), &arrival, &IDLE), Decision::Admit);
        let Decision::Reject(rejection) = law.on_arrival(at(0), &arrival, &IDLE) else {
            panic!("a bucket of one token admitted two")
        };
        assert_eq!(rejection.reason, Reason::RateExceeded);
        assert_eq!(rejection.retry_after, Some(Duration::from_millis(500)));
    }
}
