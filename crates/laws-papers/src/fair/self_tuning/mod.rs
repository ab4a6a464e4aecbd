//! The self-tuning stage: measures, identifies the model, places the poles and sets the admission
//! rate.
//!
//! **Intuition.** Little's law says how many events may be inside for the promise to
//! hold. Let in as many as leave, plus a share of what is missing or minus a share
//! of what is too much; and find out by the way what letting one in really does,
//! so that the share can be chosen by arithmetic instead of by hand.
//!
//! **Mechanism** [Fair07 §4.2.2, fig. 4-2, 4-8], turned round. The thesis has the
//! population N given, maps the promise to a throughput (5), and controls it by
//! adding workers. Here the workers are given and admission is what moves, so the
//! loop holds the other side of the same equation ([`PercentileMapping`]):
//! ```text
//! T    departures a second, smoothed                N    inside at the end of a sample
//! r  = max(α·R·T, workers)                               the population wanted (5)
//! u  = C(r − N)                                          events to let in beyond departures
//! rate of the token bucket = T + u ÷ period
//! ```
//! What is let in beyond what leaves adds to the population, `N(k) = N(k−1) + u(k)`:
//! the model (8) with a = b = 1 before anything is measured. Events that are dropped in
//! the queue or that leave in other ways make other coefficients, and those are
//! identified on line ([`OnLineFit`]). A fit is believed if the data determine it, it
//! explains at least 0.8 of the variance, and it is possible (0.5 ≤ a ≤ 1.05,
//! 0.25 ≤ b ≤ 2); else the last one stays. With each model that is believed, poles are placed
//! anew. A load that hardly varies teaches nothing, and need not.
//!
//! While arrivals jump and a worker is idle, the highest recent arrival rate takes the
//! place of T, as the thesis has it: a stage with room left does not throttle. An
//! arrival that a worker is free for is admitted in any case.
//!
//! **The four forms.** `p` and `pd` come to rest away from the reference if T is
//! estimated wrongly or the model has a < 1. `p-precompensated` makes up for the
//! latter, by the model; `pi` for both, by a memory, and swings. The thesis finds P
//! and PD better than PI and the pre-compensated P best; with a ≈ 1, as here, P needs
//! hardly any compensation.
//!
//! **What the thesis leaves open, and we chose.**
//! - A sample lasts half the strictest target, 20 ms to 2 s. The thesis takes 2 s and
//!   30 s for targets of 1 s and 0.1 s, and names that as the cause of its spikes.
//! - Settling within 4 samples with 0.1 of overshoot. Where a PI loop cannot have
//!   that, it has the least overshoot that settles in time.
//! - The aim is 0.8 of the target, the share at which the thesis drops (§5.3): a loop that
//!   aims at the target itself is beyond it half of the time.
//! - The first rate is the greatest, a million a second: a law that has seen nothing
//!   rejects nothing.
//! - Several classes share one loop. Response times count in parts of their class's
//!   target, so that the strictest promise rules; the bucket rejects all classes alike.
//!   Priorities are left to the queue (§6.2.1 leaves classes to future work).
//! - An event that failed or was terminated counts as no sooner than its target, one that was
//!   abandoned only if it was late already.
//! - An earlier instant counts as no time passed; after a pause of four samples the next
//!   one is not learnt from.
//!
//! **Limits.** It sees overload a sample late: at ten times the capacity a whole sample
//! of it is inside before the first rate is set, and is late. Its rate counts events, not
//! their work. It holds the population at the promise, not below it: a share of the
//! answers is late by design. Placing the poles of PI or PD for a model that has changed
//! is a search, and takes some 0.1 ms, at most once a sample.

mod builder;

use std::time::Duration;

pub(crate) use builder::SelfTuningConstants;
pub use builder::{InvalidSelfTuning, SelfTuningBuilder};

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Ending, Finished, PerSecond, Ratio,
    Reading, Reason, Rejection, Timestamp,
};

#[cfg(doc)]
use super::OnLineFit;
use super::percentile_mapping::Load;
use super::tuned::{Placement, Tuned};
use super::{Controller, PercentileMapping, ResponseSample};
use tamarisk_laws::TokenBucket;
use tamarisk_laws::period_samples::PeriodSamples;

/// W [Fair07 §5.3].
const WEIGHT: f64 = 0.5;
/// At least something comes in to show that things are better [Welsh03 fig. 4].
const RATE_MIN: f64 = 0.05;
const RATE_MAX: f64 = 1e6;
/// The burst that passes after a pause, as for [`ResponseTime`](crate::ResponseTime).
const DEPTH: f64 = 10.0;
/// After a pause of so many samples the past does not lead to the present.
const PAUSE: u32 = 4;

/// Which controller closes the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// [`P`](super::P).
    P,
    /// [`Pi`](super::Pi).
    Pi,
    /// [`Pd`](super::Pd).
    Pd,
    /// [`P`](super::P) with its pre-compensator.
    PPrecompensated,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::P, Self::Pi, Self::Pd, Self::PPrecompensated];

    /// The name of the law that has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P => "p",
            Self::Pi => "pi",
            Self::Pd => "pd",
            Self::PPrecompensated => "p-precompensated",
        }
    }

    const fn placement(self) -> Placement {
        match self {
            Self::P => Placement::P,
            Self::Pi => Placement::Pi,
            Self::Pd => Placement::Pd,
            Self::PPrecompensated => Placement::Precompensated,
        }
    }
}

/// Holds the population of a stage where its promise is kept, by its admission rate.
#[derive(Clone, Debug)]
pub struct SelfTuning {
    form: Form,
    promise: Promise,
    mapping: PercentileMapping,
    tuned: Tuned,
    bucket: TokenBucket,
    began: Option<Timestamp>,
    sample: SampleSums,
    responses: PeriodSamples,
    /// T, once there was a sample.
    departure_rate: Option<f64>,
    /// r.
    population_wanted: f64,
    /// What the last rate was set to bring in: as many as this, and u.
    base_rate: f64,
    u: f64,
}

/// What the classes are promised, and what follows from that.
#[derive(Clone, Debug)]
struct Promise {
    /// Of the strictest class's target.
    aim_share: Ratio,
    /// R: what is aimed at, of the strictest class.
    aim: Duration,
    /// Of each class, in seconds.
    targets: Box<[f64]>,
    strictest: f64,
    percentile: f64,
    /// How long a sample lasts, and whether that follows from the targets.
    period: Duration,
    period_follows: bool,
}

/// What has happened since the sample began.
#[derive(Clone, Copy, Debug, Default)]
struct SampleSums {
    arrived: u32,
    admitted: u32,
    rejected: u32,
    departed: u32,
    response_seconds: f64,
}

impl SelfTuning {
    /// The law of this form with the default constants.
    pub fn new(classes: &Classes, form: Form) -> Self {
        Self::builder(classes, form).law()
    }

    /// The law with constants of one's own.
    pub fn builder(classes: &Classes, form: Form) -> SelfTuningBuilder<'_> {
        SelfTuningBuilder::new(classes, form)
    }

    fn end_sample_if_over(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        let began = *self.began.get_or_insert(now);
        let passed = now.since(began);
        if passed >= self.promise.period {
            let follows = passed < self.promise.period * PAUSE;
            self.end_sample(passed.as_secs_f64(), follows, backlog);
            self.sample = SampleSums::default();
            self.began = Some(now);
            let rate = self.base_rate + self.u / self.promise.period.as_secs_f64();
            if let Ok(rate) = PerSecond::new(rate.clamp(RATE_MIN, RATE_MAX)) {
                self.bucket.set_rate(now, rate);
            }
        }
    }

    fn end_sample(&mut self, seconds: f64, follows: bool, backlog: &Backlog<'_>) {
        let per_second = |count: u32| PerSecond::new(f64::from(count) / seconds);
        let arrivals = per_second(self.sample.arrived).unwrap_or(PerSecond::ZERO);
        let departures = f64::from(self.sample.departed) / seconds;
        let inside = f64::from(backlog.queued_total) + f64::from(backlog.running_total);
        let responses = self.take_responses();
        self.mapping.observe(arrivals, responses);
        self.learn(seconds, follows, inside);

        let departure_rate = self
            .departure_rate
            .map_or(departures, |past| WEIGHT * past + (1.0 - WEIGHT) * departures);
        self.departure_rate = Some(departure_rate);
        self.base_rate = match self.mapping.load() {
            Load::Moving { highest } if backlog.has_idle_worker() => {
                highest.get().max(departure_rate)
            }
            _ => departure_rate,
        };
        let throughput = PerSecond::new(self.base_rate).unwrap_or(PerSecond::ZERO);
        let workers = f64::from(backlog.workers.get());
        self.population_wanted = self.mapping.population(throughput, self.promise.aim).max(workers);
        self.u = self.tuned.control(self.population_wanted, inside);
    }

    /// Tells the loop what the last rate really brought in, and what came of it.
    fn learn(&mut self, seconds: f64, follows: bool, inside: f64) {
        let admitted = f64::from(self.sample.admitted);
        let (true, Some(departure_rate)) = (follows, self.departure_rate) else {
            self.tuned.cut();
            return;
        };
        self.tuned.observe(admitted - departure_rate * seconds, inside);
        if self.sample.rejected == 0 {
            // The rate was there to be used, and was not: no more is remembered than came,
            // and no less than nothing, for that a quiet sample came is nobody's doing.
            let done = (admitted - self.base_rate * seconds).max(0.0);
            self.tuned.applied(done.min(self.u));
        } else {
            let lowest = (RATE_MIN - self.base_rate) * self.promise.period.as_secs_f64();
            self.tuned.applied(self.u.max(lowest));
        }
    }

    fn take_responses(&mut self) -> Option<ResponseSample> {
        let count = self.responses.len();
        if count == 0 {
            return None;
        }
        let mean = self.sample.response_seconds / count as f64;
        let percentile =
            self.responses.take_quantile(self.promise.percentile) * self.promise.strictest;
        let duration = |seconds| Duration::try_from_secs_f64(seconds).ok();
        Some(ResponseSample { mean: duration(mean)?, percentile: duration(percentile)? })
    }

    fn target(&self, class: ClassId) -> f64 {
        self.promise.targets.get(class.index()).copied().unwrap_or(self.promise.targets[0])
    }
}

impl AdmissionLaw for SelfTuning {
    fn name(&self) -> &'static str {
        self.form.as_str()
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.end_sample_if_over(now, backlog);
        let sample = &mut self.sample;
        sample.arrived = sample.arrived.saturating_add(1);
        match self.bucket.take(now) {
            Err(wait) if !backlog.has_idle_worker() => {
                sample.rejected = sample.rejected.saturating_add(1);
                Decision::Reject(Rejection::new(Reason::RateExceeded).retry_after(wait))
            }
            _ => {
                sample.admitted = sample.admitted.saturating_add(1);
                Decision::Admit
            }
        }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.sample.departed = self.sample.departed.saturating_add(1);
        let target = self.target(finished.class);
        let response = match finished.ending {
            Ending::Completed => Some(finished.response.as_secs_f64()),
            Ending::Failed | Ending::Terminated => {
                Some(finished.response.as_secs_f64().max(target))
            }
            Ending::Abandoned => Some(finished.response.as_secs_f64()).filter(|it| *it >= target),
            Ending::Untimed => None,
        };
        if let Some(seconds) = response
            && !self.responses.is_full()
        {
            self.responses.push(seconds / target);
            self.sample.response_seconds += seconds;
        }
        self.end_sample_if_over(now, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.end_sample_if_over(now, backlog);
    }

    fn set_targets(&mut self, classes: &Classes) {
        let promise = self.promise.renewed(classes);
        let before = std::mem::replace(&mut self.promise, promise);
        if before.percentile != self.promise.percentile {
            self.mapping = PercentileMapping::new(Ratio::saturating(self.promise.percentile));
        }
        // What the sample holds so far was measured by the old targets.
        self.tuned.cut();
        self.sample = SampleSums::default();
        self.responses.take_quantile(self.promise.percentile);
        self.began = None;
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("admission_rate_per_second", self.bucket.rate().get());
        show("departures_per_second", self.departure_rate.unwrap_or(0.0));
        show("population_wanted_count", self.population_wanted);
        show("mean_per_percentile_ratio", self.mapping.alpha());
        show("model_a_ratio", self.tuned.model().a());
        show("model_b_ratio", self.tuned.model().b());
        show("model_identified_bool", f64::from(u8::from(self.tuned.is_identified())));
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Concurrency, Target, Together};

    use super::*;

    const ARRIVAL: Arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };

    fn law(form: Form) -> SelfTuning {
        SelfTuning::new(&Classes::single(Target::p90(Duration::from_secs(1)).unwrap()), form)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn backlog(queued_total: u32, running_total: u32) -> Backlog<'static> {
        let workers = Concurrency::new(4);
        Backlog { queued: &[0], running: &[0], queued_total, running_total, workers }
    }

    /// A busy stage of 100 a second at 400 arrivals a second, for a while: the law is
    /// asked, and what it admits is queued. The population at the end of each sample.
    fn overload(law: &mut SelfTuning, until_ms: u64) -> Vec<f64> {
        let mut inside = 4_u32;
        let mut populations = Vec::new();
        for half_millis in 0..2 * until_ms {
            let now = Timestamp::from_nanos(half_millis * 500_000);
            let state = backlog(inside.saturating_sub(4), inside.min(4));
            if half_millis % 5 == 0 && law.on_arrival(now, &ARRIVAL, &state) == Decision::Admit {
                inside += 1;
            }
            if half_millis % 20 == 0 && inside > 0 {
                let response = Duration::from_millis(u64::from(inside) * 10);
                inside -= 1;
                let state = backlog(inside.saturating_sub(4), inside.min(4));
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
                law.on_finish(now, &finished, &state);
            }
            if half_millis % 1000 == 0 {
                populations.push(f64::from(inside));
            }
        }
        populations
    }

    #[test]
    fn each_form_brings_the_population_to_where_the_promise_is_kept() {
        for form in Form::ALL {
            let mut law = law(form);
            let populations = overload(&mut law, 20_000);
            // Constant responses: mean and p90 are one, 0.8 s of 100 a second are 80.
            let settled = &populations[10..];
            let close = settled.iter().all(|n| (60.0..=100.0).contains(n));
            assert!(close, "{}: {populations:?}", law.name());
        }
    }

    #[test]
    fn an_idle_worker_is_never_rejected() {
        let mut law = law(Form::P);
        overload(&mut law, 5000);
        for _ in 0..1000 {
            assert_eq!(law.on_arrival(at(5001), &ARRIVAL, &backlog(0, 3)), Decision::Admit);
        }
        assert!(law.on_arrival(at(5001), &ARRIVAL, &backlog(0, 4)) != Decision::Admit);
    }

    #[test]
    fn a_rejection_says_when_to_come_back() {
        let mut law = law(Form::P);
        overload(&mut law, 5000);
        let rejection =
            (0..1000).find_map(|_| match law.on_arrival(at(5001), &ARRIVAL, &backlog(9, 4)) {
                Decision::Reject(rejection) => Some(rejection),
                Decision::Admit => None,
            });
        let rejection = rejection.unwrap();
        assert_eq!(rejection.reason, Reason::RateExceeded);
        assert!(rejection.retry_after < Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_stage_that_finishes_nothing_is_let_run_empty() {
        let mut law = law(Form::P);
        overload(&mut law, 5000);
        (1..40).for_each(|sample| law.on_tick(at(5000 + 500 * sample), &backlog(500, 4)));
        assert_eq!(law.bucket.rate().get(), RATE_MIN);
    }

    #[test]
    fn a_jump_of_the_load_is_let_in_while_a_worker_is_idle() {
        let mut law = law(Form::P);
        let sample = |law: &mut SelfTuning, from: u64, arrivals: u32| {
            (0..arrivals).for_each(|_| {
                law.on_arrival(at(from), &ARRIVAL, &backlog(0, 1));
            });
            law.on_tick(at(from + 500), &backlog(0, 1));
        };
        (0..8).for_each(|index| sample(&mut law, 500 * index, 10));
        let before = law.bucket.rate().get();
        sample(&mut law, 4000, 500);
        assert!(before < 100.0 && law.bucket.rate().get() > 900.0, "{before}, {law:?}");
    }

    #[test]
    fn a_clock_that_stands_still_ends_no_sample() {
        let mut law = law(Form::Pi);
        let before = law.bucket.rate();
        for _ in 0..1000 {
            law.on_arrival(at(7), &ARRIVAL, &backlog(5, 4));
            law.on_tick(at(7), &backlog(5, 4));
        }
        assert_eq!(law.bucket.rate(), before);
    }

    #[test]
    fn the_strictest_class_rules() {
        let class = |name: &str, millis| tamarisk_control::Class {
            name: name.into(),
            target: Target::p90(Duration::from_millis(millis)).unwrap(),
            priority: tamarisk_control::Priority(0),
        };
        let classes = Classes::new(vec![class("slow", 5000), class("fast", 200)]).unwrap();
        let law = SelfTuning::new(&classes, Form::P);
        assert_eq!(
            (law.promise.aim, law.promise.period),
            (Duration::from_millis(160), Duration::from_millis(100))
        );
    }
}
