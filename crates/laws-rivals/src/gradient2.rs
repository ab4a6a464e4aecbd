//! Gradient2: a concurrency limit from the ratio of long-term to current response time.
//!
//! **Intuition.** The best time ever seen is luck. The *average* of the last
//! minutes is what the service usually takes; when the average of the last second
//! is longer, something queues, and the limit shrinks in proportion. A constant
//! few more than that are always let in, to find out whether there is more room.
//!
//! **Mechanism** (Netflix `Gradient2Limit` in a `WindowedLimit`). Once a second, if at
//! least 10 answers came, `short` is their mean, and `long` an average of such means
//! over some 600 of them (the plain mean of the first 10). Unless fewer than half of
//! L were ever inside,
//! ```text
//! g = clamp(1.5·long ÷ short, ½, 1)        L ← 0.8·L + 0.2·(g·L + 4)
//! ```
//! within 20 … 200. While `long > 2·short` it is cut by a twentieth each time, to come
//! back from a long overload. An arrival is rejected while L are inside; L is also
//! what may be in flight to an upstream whose workers cannot be seen.
//!
//! **Source.** \[Netflix18\], with its defaults. Answers of less than 100 µs are not
//! counted (`minRttThreshold`). Earlier versions had no tolerance (1.5, `rttTolerance`)
//! and cut by a tenth.
//!
//! **What we chose.** How many are inside is counted when an event ends, not when
//! it came. Events that failed are left out, as callers of the library do with
//! `onIgnore`.
//!
//! **Limits.** With four added at every step the limit shrinks only where
//! g < 1 − 4/L: at 200 that is a response time 1.53 times the usual. The usual itself
//! follows an overload, within ten minutes, so what was alarming becomes normal, and
//! the limit creeps up to its bound. The bounds decide much: a service of 8 workers never gets fewer than 20 at once, one
//! of 400 never more than 200, and a step takes a second. Classes and targets are
//! unknown to it.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Concurrency, Decision, Ending, Finished, PlaceLimits, Reading,
    Timestamp,
};

use tamarisk_laws::constants::constants;
use tamarisk_laws::limit_range::{InvalidLimitRange, LimitRange, admit_below, inside};

constants! {
    /// Of [`Gradient2`]: `minLimit`, `initialLimit`, `maxConcurrency`.
    pub(crate) struct Gradient2Constants {
        /// least limit
        limit_min_count: Concurrency = 20.0 in 1.0..=1e6,
        /// first limit
        limit_initial_count: Concurrency = 20.0 in 1.0..=1e6,
        /// greatest limit
        limit_max_count: Concurrency = 200.0 in 1.0..=1e6,
    }
}

/// `smoothing`: how much of the new limit is taken at once.
const SMOOTHING: f64 = 0.2;

/// `queueSize`: what the limit grows by while nothing queues.
const QUEUE_SIZE: f64 = 4.0;

/// `rttTolerance`: short may exceed long by so much before it counts as queueing.
const TOLERANCE: f64 = 1.5;

/// The least gradient: a limit is never halved by more than that at once.
const GRADIENT_MIN: f64 = 0.5;

/// `longWindow`, and the samples of which the plain mean is taken first.
const LONG_WINDOW: f64 = 600.0;
const WARM_UP: u32 = 10;

/// Beyond this ratio of long to short, long is cut to this share.
const DRIFT: f64 = 2.0;
const DRIFT_CUT: f64 = 0.95;

/// `WindowedLimit`: length, least samples, and the least response that counts.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_SAMPLES: u32 = 10;
const RESPONSE_MIN: Duration = Duration::from_micros(100);

/// Limits how many are inside by how response times change.
#[derive(Clone, Debug)]
pub struct Gradient2 {
    range: LimitRange,
    limit: f64,
    long: LongTerm,
    short: f64,
    window: Second,
    window_ends: Timestamp,
}

/// The answers of this second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    seconds: f64,
    samples: u32,
    inside_most: u32,
}

/// An average that begins as a plain mean.
#[derive(Clone, Copy, Debug, Default)]
struct LongTerm {
    value: f64,
    samples: u32,
}

impl LongTerm {
    fn add(&mut self, sample: f64) {
        self.samples = (self.samples + 1).min(WARM_UP + 1);
        let weight = if self.samples <= WARM_UP {
            1.0 / f64::from(self.samples)
        } else {
            2.0 / (LONG_WINDOW + 1.0)
        };
        self.value += weight * (sample - self.value);
    }
}

impl Gradient2 {
    /// With the published constants.
    pub fn new() -> Self {
        Self::of(&Gradient2Constants::default()).expect("the published bounds are in order")
    }

    /// With the bounds that `its` say.
    pub(crate) fn of(its: &Gradient2Constants) -> Result<Self, InvalidLimitRange> {
        LimitRange::new(its.limit_min_count, its.limit_initial_count, its.limit_max_count)
            .map(Self::with)
    }

    /// With bounds of one's own for the limit.
    pub fn with(range: LimitRange) -> Self {
        Self {
            range,
            limit: f64::from(range.initial()),
            long: LongTerm::default(),
            short: 0.0,
            window: Second::default(),
            window_ends: Timestamp::ZERO,
        }
    }

    fn learn(&mut self, now: Timestamp, response: Duration, inside: u32) {
        self.window.seconds += response.as_secs_f64();
        self.window.samples = self.window.samples.saturating_add(1);
        self.window.inside_most = self.window.inside_most.max(inside);
        if now <= self.window_ends {
            return;
        }
        self.window_ends = now + WINDOW;
        let window = std::mem::take(&mut self.window);
        if window.samples >= WINDOW_SAMPLES {
            self.adjust(window.seconds / f64::from(window.samples), window.inside_most);
        }
    }

    fn adjust(&mut self, short: f64, inside: u32) {
        self.short = short;
        self.long.add(short);
        let ratio = self.long.value / short;
        if ratio > DRIFT {
            self.long.value *= DRIFT_CUT;
        }
        if f64::from(inside) < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * ratio).clamp(GRADIENT_MIN, 1.0);
        let aim = self.limit * gradient + QUEUE_SIZE;
        self.limit = self.range.clamp(self.limit + SMOOTHING * (aim - self.limit));
    }
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for Gradient2 {
    fn name(&self) -> &'static str {
        "gradient2"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        admit_below(self.range.whole(self.limit), backlog)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let counts = matches!(finished.ending, Ending::Completed | Ending::Terminated);
        if counts && finished.response >= RESPONSE_MIN {
            self.learn(now, finished.response, inside(backlog).saturating_add(1));
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("limit_count", self.limit);
        show("response_short_seconds", self.short);
        show("response_long_seconds", self.long.value);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }
}

impl PlaceLimits for Gradient2 {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new(self.range.whole(self.limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{at, backlog, ended, finished_in};

    /// From second 1 on, `seconds` of 20 answers each that take `millis`.
    struct Upstream {
        second: u64,
        running: u32,
    }

    impl Upstream {
        fn answer(&mut self, law: &mut Gradient2, seconds: u64, millis: u64) {
            for _ in 0..seconds {
                for index in 0..20 {
                    // The last of a second comes after its window has ended.
                    let now = at(1000 * self.second + 50 * index + self.second);
                    law.on_finish(now, &finished_in(millis), &backlog(&[0], &[self.running]));
                }
                self.second += 1;
            }
        }
    }

    fn full() -> Upstream {
        Upstream { second: 1, running: 300 }
    }

    #[test]
    fn while_nothing_queues_it_grows_by_eight_tenths_a_second() {
        let mut law = Gradient2::new();
        full().answer(&mut law, 11, 50);
        // 0.8·20 + 0.2·(20 + 4) = 20.8, ten times: the first window only opens.
        assert!((law.limit - 28.0).abs() < 1e-9, "{}", law.limit);
    }

    #[test]
    fn it_shrinks_with_the_gradient_and_at_most_by_half() {
        let mut law = Gradient2::new();
        law.limit = 100.0;
        law.long = LongTerm { value: 0.050, samples: WARM_UP + 1 };
        law.adjust(0.100, 300);
        // long = 50 + 2/601·50 = 50.166 ms and g = 1.5·50.166/100 = 0.7525;
        // 0.8·100 + 0.2·(75.25 + 4) = 95.850
        assert!((law.limit - 95.850).abs() < 1e-3, "{}", law.limit);
        law.limit = 100.0;
        law.adjust(10.0, 300);
        assert!((law.limit - 90.8).abs() < 1e-9, "{}", law.limit);
    }

    #[test]
    fn it_stays_between_20_and_200() {
        let (mut law, mut upstream) = (Gradient2::new(), full());
        upstream.answer(&mut law, 400, 50);
        assert_eq!(law.limit, 200.0);
        upstream.answer(&mut law, 100, 5000);
        assert!(law.limit < 100.0);
        let mut law = Gradient2::new();
        law.long = LongTerm { value: 0.01, samples: WARM_UP + 1 };
        (0..10).for_each(|_| law.adjust(1.0, 300));
        assert_eq!(law.limit, 20.0);
    }

    #[test]
    fn a_service_that_is_not_full_teaches_no_limit() {
        let mut law = Gradient2::new();
        Upstream { second: 1, running: 8 }.answer(&mut law, 100, 50);
        assert_eq!(law.limit, 20.0);
    }

    #[test]
    fn a_second_with_fewer_than_ten_answers_says_nothing() {
        let mut law = Gradient2::new();
        for second in 0..100 {
            for index in 0..9 {
                let now = at(2000 * second + index);
                law.on_finish(now, &finished_in(50), &backlog(&[0], &[300]));
            }
        }
        assert_eq!((law.limit, law.long.samples), (20.0, 0));
    }

    #[test]
    fn after_a_long_overload_the_usual_comes_down_fast() {
        let mut law = Gradient2::new();
        law.long = LongTerm { value: 1.0, samples: WARM_UP + 1 };
        law.adjust(0.1, 300);
        // (1 − 2/601·0.9)·0.95
        assert!((law.long.value - 0.94715).abs() < 1e-4, "{}", law.long.value);
    }

    #[test]
    fn failures_and_streams_are_left_out() {
        let mut law = Gradient2::new();
        for millis in 0..100_000 {
            let ending = if millis % 2 == 0 { Ending::Failed } else { Ending::Untimed };
            law.on_finish(at(millis), &ended(1, ending), &backlog(&[0], &[300]));
        }
        assert_eq!((law.limit, law.long.samples), (20.0, 0));
    }
}
