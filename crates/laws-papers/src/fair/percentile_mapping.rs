//! Maps a percentile target to a target for the mean, which a control loop can follow.
//!
//! **Intuition.** A promise about the 90th percentile says nothing that Little's
//! law understands. But in any short window the percentile is some multiple of the
//! mean: follow that multiple, and the promise becomes one about the mean, and
//! with it one about how fast the stage must be, or how full it may be.
//!
//! **Mechanism** [Fair07 §4.3.1, eq. 2–5]. After each sample, with `R̃` the mean and
//! `R%` the percentile of its response times, `T` its throughput:
//! ```text
//! α ← W·α + (1 − W)·R̃ ÷ R%           the mean per unit of the percentile   (3)
//! R̃* = α·R                           the mean at which the promise is kept  (2)
//! N = R̃·T                            who is inside                          (4)
//! T* = N ÷ R̃*                        how fast they would have to leave      (5)
//! ```
//! While the load moves, `N` of the last sample says little about the next one, and
//! the highest arrival rate of the recent record takes the place of a (5) that asks for less.
//!
//! **The same law read the other way.** (5) asks for more throughput when the stage
//! is too full, and workers are added. Who cannot add workers, only admit fewer,
//! has `T` given and `N` to choose: `N* = R̃*·T` ([`PercentileMapping::population`]).
//! The two errors are one: `T* − T = (N − N*) ÷ R̃*`.
//!
//! **What the thesis leaves open, and we chose.**
//! - The first α is that of exponential response times, `1 ÷ −ln(1 − p)`: 0.434 for
//!   the p90; α is kept within 0.01 … 1, since a heavy tail can put a sample's mean
//!   beyond its percentile.
//! - The load moves when the newest arrival rate is a quarter off the mean of the
//!   record, and the record is five samples long.
//! - While the load moves (5) counts if it asks for more than the highest arrival rate: what has
//!   queued up before the workers came has to be served as well.
//! - A sample without a response time changes nothing but the record of arrivals.
//!
//! **Limits.** α lags its samples, and differs most from the next one's just when
//! the queue builds up. Little's law holds for means over a period in equilibrium.

use std::time::Duration;

use tamarisk_control::{PerSecond, Ratio};

/// W [Fair07 §5.3].
const WEIGHT: f64 = 0.5;
const ALPHA_MIN: f64 = 0.01;
const RECORD: usize = 5;
/// Ours: a Poisson stream of 100 a sample strays so far in one sample of forty.
const MOVED: f64 = 0.25;

/// Follows the ratio of mean and percentile, and whether the load moves.
#[derive(Clone, Debug)]
pub struct PercentileMapping {
    alpha: f64,
    /// The newest last.
    arrivals: [f64; RECORD],
    recorded: usize,
}

/// What one sample showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseSample {
    /// R̃(k): the mean response time.
    pub mean: Duration,
    /// R%(k): the percentile that the promise is about.
    pub percentile: Duration,
}

/// Whether the last sample speaks for the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Arrivals come as before: (4) and (5) hold.
    Steady,
    /// They do not: be ready for the highest rate of the recent record.
    Moving {
        /// That rate.
        highest: PerSecond,
    },
}

impl PercentileMapping {
    /// For promises about the percentile `at` (0.9: the p90).
    pub fn new(at: Ratio) -> Self {
        let alpha = 1.0 / -(1.0 - at.get()).ln();
        let alpha = if alpha.is_finite() { alpha.clamp(ALPHA_MIN, 1.0) } else { 1.0 };
        Self { alpha, arrivals: [0.0; RECORD], recorded: 0 }
    }

    /// A sample has ended: `arrivals` came in it, rejected ones included, and
    /// `responses` is what was answered, if anything was.
    pub fn observe(&mut self, arrivals: PerSecond, responses: Option<ResponseSample>) {
        self.arrivals.rotate_left(1);
        self.arrivals[RECORD - 1] = arrivals.get();
        self.recorded = (self.recorded + 1).min(RECORD);
        if let Some(ResponseSample { mean, percentile }) = responses
            && !percentile.is_zero()
        {
            let ratio = (mean.as_secs_f64() / percentile.as_secs_f64()).clamp(ALPHA_MIN, 1.0);
            self.alpha = WEIGHT * self.alpha + (1.0 - WEIGHT) * ratio;
        }
    }

    /// α, the mean response time per unit of the percentile.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// R̃*: the mean response time at which the percentile is `desired` (2).
    pub fn mean(&self, desired: Duration) -> Duration {
        let seconds = desired.as_secs_f64() * self.alpha;
        Duration::try_from_secs_f64(seconds).unwrap_or(desired)
    }

    /// T*: how fast `inside` events must leave for the percentile to be `desired`
    /// (5), and at least the highest recent arrival rate while the load moves.
    pub fn throughput(&self, inside: f64, desired: Duration) -> PerSecond {
        let wanted =
            PerSecond::new(inside / self.mean(desired).as_secs_f64()).unwrap_or(PerSecond::ZERO);
        match self.load() {
            Load::Moving { highest } if highest.get() > wanted.get() => highest,
            Load::Moving { .. } | Load::Steady => wanted,
        }
    }

    /// N*: how many may be inside if they leave at `throughput` and the percentile is
    /// to be `desired`: (5) with the other unknown.
    pub fn population(&self, throughput: PerSecond, desired: Duration) -> f64 {
        (throughput.get() * self.mean(desired).as_secs_f64()).min(f64::MAX)
    }

    /// Whether the newest sample had an arrival rate unlike those before it.
    pub fn load(&self) -> Load {
        let record = &self.arrivals[RECORD - self.recorded..];
        let Some((newest, before)) = record.split_last() else { return Load::Steady };
        if before.is_empty() {
            return Load::Steady;
        }
        let mean = before.iter().map(|rate| rate / before.len() as f64).sum::<f64>();
        if (newest - mean).abs() <= MOVED * mean {
            return Load::Steady;
        }
        let highest = record.iter().fold(0.0, |highest: f64, &rate| highest.max(rate));
        Load::Moving { highest: PerSecond::new(highest).unwrap_or(PerSecond::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(per_second: f64) -> PerSecond {
        PerSecond::new(per_second).unwrap()
    }

    fn mapping() -> PercentileMapping {
        PercentileMapping::new(Ratio::saturating(0.9))
    }

    fn sample(mean_ms: u64, percentile_ms: u64) -> Option<ResponseSample> {
        let ms = Duration::from_millis;
        Some(ResponseSample { mean: ms(mean_ms), percentile: ms(percentile_ms) })
    }

    fn check_load(arrivals: &[f64], expected: Load) {
        let mut mapping = mapping();
        arrivals.iter().for_each(|&arrivals| mapping.observe(rate(arrivals), None));
        assert_eq!(mapping.load(), expected, "{arrivals:?}");
    }

    #[test]
    fn it_begins_with_the_ratio_of_exponential_response_times() {
        assert!((mapping().alpha() - 10_f64.ln().recip()).abs() < 1e-12);
    }

    #[test]
    fn each_sample_counts_half() {
        let mut mapping = mapping();
        mapping.observe(rate(1.0), sample(500, 1000));
        let first = mapping.alpha();
        assert!((first - (0.5 / 10_f64.ln() + 0.25)).abs() < 1e-12, "{first}");
        mapping.observe(rate(1.0), sample(900, 1000));
        assert_eq!(mapping.alpha(), 0.5 * first + 0.45);
    }

    #[test]
    fn a_stage_twice_too_full_has_to_be_twice_as_fast_or_half_as_full() {
        let mut mapping = mapping();
        (0..60).for_each(|_| mapping.observe(rate(50.0), sample(1000, 2000)));
        // α = 0.5: a p90 of 1 s goes with a mean of 0.5 s; 50 inside leave at 50 a second.
        assert!((mapping.throughput(50.0, SECOND).get() - 100.0).abs() < 1e-9);
        assert!((mapping.population(rate(50.0), SECOND) - 25.0).abs() < 1e-9);
    }

    #[test]
    fn the_two_errors_are_one() {
        let (inside, throughput) = (70.0, rate(40.0));
        let mapping = mapping();
        let faster = mapping.throughput(inside, SECOND).get() - throughput.get();
        let fewer = inside - mapping.population(throughput, SECOND);
        assert!((faster - fewer / mapping.mean(SECOND).as_secs_f64()).abs() < 1e-9);
    }

    #[test]
    fn a_jump_of_arrivals_is_a_load_that_moves() {
        check_load(&[], Load::Steady);
        check_load(&[100.0], Load::Steady);
        check_load(&[100.0, 110.0, 95.0, 120.0], Load::Steady);
        check_load(&[100.0, 100.0, 300.0], Load::Moving { highest: rate(300.0) });
        check_load(&[400.0, 420.0, 100.0], Load::Moving { highest: rate(420.0) });
        // It has been at 300 for as long as the record lasts.
        check_load(&[100.0, 300.0, 300.0, 300.0, 300.0, 300.0], Load::Steady);
    }

    #[test]
    fn while_it_moves_the_highest_arrival_rate_is_the_target() {
        let mut mapping = mapping();
        [50.0, 50.0, 400.0].into_iter().for_each(|arrivals| mapping.observe(rate(arrivals), None));
        assert_eq!(mapping.throughput(10.0, SECOND), rate(400.0));
    }

    #[test]
    fn an_empty_sample_keeps_the_ratio() {
        let mut mapping = mapping();
        let before = mapping.alpha();
        mapping.observe(PerSecond::ZERO, None);
        mapping.observe(PerSecond::ZERO, sample(0, 0));
        assert_eq!(mapping.alpha(), before);
        assert_eq!(mapping.load(), Load::Steady);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn whatever_is_observed_targets_are_finite(
            percentile in 0.0..=1.0_f64,
            samples in prop::collection::vec((0.0..=f64::MAX, any::<u64>(), any::<u64>()), 0..20),
            inside in any::<f64>(),
            desired in any::<u64>(),
        ) {
            let mut mapping = PercentileMapping::new(Ratio::saturating(percentile));
            for (arrivals, mean, percentile) in samples {
                let (mean, percentile) = (Duration::from_nanos(mean), Duration::from_nanos(percentile));
                mapping.observe(rate(arrivals), Some(ResponseSample { mean, percentile }));
                prop_assert!((ALPHA_MIN..=1.0).contains(&mapping.alpha()));
                let desired = Duration::from_nanos(desired);
                prop_assert!(mapping.throughput(inside, desired).get().is_finite());
                prop_assert!(mapping.population(rate(arrivals), desired).is_finite());
            }
        }
    }
}
