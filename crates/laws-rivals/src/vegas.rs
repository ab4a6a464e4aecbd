//! Vegas: a concurrency limit that keeps a short queue, estimated from response times.
//!
//! **Intuition.** If the best response time ever seen was r₀ and one now is r, a
//! share 1 − r₀/r of those inside only waits. TCP Vegas holds that number, the queue,
//! between two small ones: a shorter queue means that there is room for more,
//! a longer one that there were too many.
//!
//! **Mechanism** (Netflix `VegasLimit`). For each answer, L being the limit and
//! ℓ = max(1, ⌊log₁₀ L⌋):
//! ```text
//! queue = ⌈L·(1 − r₀/r)⌉
//! queue ≤ ℓ:   L + 6ℓ      queue < 3ℓ:  L + ℓ      queue > 6ℓ:  L − ℓ      else L
//! ```
//! unless fewer than L/2 are inside. An event without its work done lowers L by ℓ. A
//! faster answer than r₀ replaces it; and every 30·L·u answers, u between ½ and 1,
//! the next one does whatever it took, so that r₀ follows a service that became
//! slower. An arrival is rejected while L are inside; L is also what may be in
//! flight to an upstream whose workers cannot be seen.
//!
//! **Source.** \[Netflix18\], `VegasLimit` with its defaults (first limit 20, at most 1000),
//! fed with every single answer as its `AbstractLimiter` does by default.
//!
//! **What we chose.** How many are inside is counted when an event ends, not when
//! it came. One that failed only lowers the limit: its short time is no r₀. The
//! draws of u come from a sequence with a seed.
//!
//! **Limits.** r₀ is the luckiest answer of some hundred: with work that varies, most
//! answers look queued, and the limit is held far below what the service could do.
//! The clearest case is a wide service with mixed work, which it makes narrow. Steps of
//! ℓ take thousands of answers to find a large limit, and a probe under load takes
//! the queue itself for the new r₀. It is blind for classes and targets.

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Concurrency, Decision, Ending, Finished, PlaceLimits, Reading,
    Timestamp,
};

use tamarisk_laws::constants::constants;
use tamarisk_laws::limit_range::{InvalidLimitRange, LimitRange, admit_below, inside};
use tamarisk_laws::seeded::Seeded;

constants! {
    /// Of [`Vegas`]: `initialLimit` and `maxConcurrency`; a limit below one would end all.
    pub(crate) struct VegasConstants {
        /// least limit
        limit_min_count: Concurrency = 1.0 in 1.0..=1e6,
        /// first limit
        limit_initial_count: Concurrency = 20.0 in 1.0..=1e6,
        /// greatest limit
        limit_max_count: Concurrency = 1000.0 in 1.0..=1e6,
    }
}

/// `probeMultiplier`: r₀ is measured anew after about so many times L answers.
const PROBE_LIMITS: f64 = 30.0;

/// The queues of these many ℓ are short, kept, and long: `thresholdFunc`,
/// `alphaFunc`, `betaFunc`.
const SHORT: f64 = 1.0;
const KEPT: f64 = 3.0;
const LONG: f64 = 6.0;

/// No answer takes less; a clock that stands still must not divide by zero.
const RESPONSE_MIN: f64 = 1e-9;

/// Limits how many are inside by the queue that response times betray.
#[derive(Clone, Debug)]
pub struct Vegas {
    range: LimitRange,
    limit: f64,
    /// r₀, in seconds.
    unloaded: Option<f64>,
    answers: u32,
    /// u, for the next probe.
    jitter: f64,
    draws: Seeded,
}

impl Vegas {
    /// With the published constants.
    pub fn new() -> Self {
        Self::of(&VegasConstants::default()).expect("the published bounds are in order")
    }

    /// With the bounds that `its` say.
    pub(crate) fn of(its: &VegasConstants) -> Result<Self, InvalidLimitRange> {
        LimitRange::new(its.limit_min_count, its.limit_initial_count, its.limit_max_count)
            .map(Self::with)
    }

    /// With bounds of one's own for the limit.
    pub fn with(range: LimitRange) -> Self {
        let limit = f64::from(range.initial());
        Self { range, limit, unloaded: None, answers: 0, jitter: 1.0, draws: Seeded::new(0) }
            .seed(0)
    }

    /// The same law with another sequence of draws.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.draws = Seeded::new(seed);
        self.draw_jitter();
        self
    }

    fn draw_jitter(&mut self) {
        self.jitter = 0.5 + 0.5 * self.draws.uniform();
    }

    fn step(&self) -> f64 {
        f64::from(self.whole_limit().ilog10().max(1))
    }

    fn whole_limit(&self) -> u32 {
        self.range.whole(self.limit)
    }

    fn learn(&mut self, response: f64, inside: u32) {
        self.answers = self.answers.saturating_add(1);
        if f64::from(self.answers) >= self.jitter * PROBE_LIMITS * self.limit {
            self.draw_jitter();
            self.answers = 0;
            self.unloaded = Some(response);
            return;
        }
        match self.unloaded {
            Some(unloaded) if response >= unloaded => self.adjust(response, unloaded, inside),
            _ => self.unloaded = Some(response),
        }
    }

    fn adjust(&mut self, response: f64, unloaded: f64, inside: u32) {
        if 2.0 * f64::from(inside) < self.limit {
            return;
        }
        let queue = (self.limit * (1.0 - unloaded / response)).ceil();
        let step = self.step();
        let change = if queue <= SHORT * step {
            LONG * step
        } else if queue < KEPT * step {
            step
        } else if queue > LONG * step {
            -step
        } else {
            0.0
        };
        self.limit = self.range.clamp(self.limit + change);
    }
}

impl Default for Vegas {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for Vegas {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        admit_below(self.whole_limit(), backlog)
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        match finished.ending {
            Ending::Completed => {
                let response = finished.response.as_secs_f64().max(RESPONSE_MIN);
                self.learn(response, inside(backlog).saturating_add(1));
            }
            Ending::Failed | Ending::Terminated => {
                self.limit = self.range.clamp(self.limit - self.step());
            }
            Ending::Abandoned | Ending::Untimed => {}
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("limit_count", self.limit);
        show("response_unloaded_seconds", self.unloaded.unwrap_or(0.0));
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }
}

impl PlaceLimits for Vegas {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new(self.whole_limit()))
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Reason, Rejection};

    use super::*;
    use crate::test_bench::{arrival, at, backlog, ended, finished_in};

    /// A law at `limit` that has seen an answer of 10 ms, after `count` answers of
    /// `millis` with all places taken.
    fn after(limit: u32, millis: u64, count: u32) -> f64 {
        let mut law = Vegas { unloaded: Some(0.010), ..Vegas::new() };
        law.limit = f64::from(limit);
        answer(&mut law, millis, count);
        law.limit
    }

    fn answer(law: &mut Vegas, millis: u64, count: u32) {
        for _ in 0..count {
            let full = law.whole_limit() - 1;
            law.on_finish(at(0), &finished_in(millis), &backlog(&[0], &[full]));
        }
    }

    #[test]
    fn it_starts_at_20_and_rejects_the_21st() {
        let mut law = Vegas::new();
        let decision = law.on_arrival(at(0), &arrival(0), &backlog(&[3], &[16]));
        assert_eq!(decision, Decision::Admit);
        let decision = law.on_arrival(at(0), &arrival(0), &backlog(&[4], &[16]));
        assert_eq!(decision, Decision::Reject(Rejection::new(Reason::ConcurrencyLimit)));
    }

    #[test]
    fn the_step_depends_on_the_queue() {
        // ℓ = 1 at 20. Without a queue + 6; 20·(1 − 10/11) = 1.8 → 2 < 3: + 1;
        // 20·(1 − 10/12) = 3.3 → 4: kept; 20·(1 − 10/20) = 10 > 6: − 1.
        assert_eq!(after(20, 10, 1), 26.0);
        assert_eq!(after(20, 11, 1), 21.0);
        assert_eq!(after(20, 12, 1), 20.0);
        assert_eq!(after(20, 20, 1), 19.0);
    }

    #[test]
    fn the_step_grows_with_the_logarithm_of_the_limit() {
        assert_eq!(after(99, 10, 1), 105.0);
        assert_eq!(after(100, 10, 1), 112.0);
        assert_eq!(after(999, 10, 1), 1000.0);
        assert_eq!(after(1000, 1000, 1), 997.0);
    }

    #[test]
    fn it_does_not_grow_while_half_of_the_places_are_free() {
        let mut law = Vegas { unloaded: Some(0.010), ..Vegas::new() };
        law.on_finish(at(0), &finished_in(10), &backlog(&[0], &[8]));
        assert_eq!(law.limit, 20.0);
        law.on_finish(at(0), &finished_in(10), &backlog(&[0], &[9]));
        assert_eq!(law.limit, 26.0);
    }

    #[test]
    fn events_without_their_work_done_lower_it_and_are_no_best_time() {
        let mut law = Vegas { unloaded: Some(0.010), ..Vegas::new() };
        law.on_finish(at(0), &ended(1, Ending::Failed), &backlog(&[0], &[19]));
        assert_eq!((law.limit, law.unloaded), (19.0, Some(0.010)));
        (0..100).for_each(|_| {
            law.on_finish(at(0), &ended(1, Ending::Terminated), &backlog(&[0], &[19]));
        });
        assert_eq!(law.limit, 1.0);
    }

    #[test]
    fn the_best_time_is_measured_anew_after_15_to_30_limits_of_answers() {
        let mut law = Vegas { unloaded: Some(0.010), ..Vegas::new() };
        law.range = LimitRange::of(20, 20, 20);
        let mut needed = Vec::new();
        for _ in 0..50 {
            law.unloaded = Some(0.010);
            let mut answers = 0;
            while law.unloaded == Some(0.010) {
                answer(&mut law, 15, 1);
                answers += 1;
            }
            assert_eq!(law.unloaded, Some(0.015));
            needed.push(answers);
        }
        assert!(needed.iter().all(|answers| (300..=600).contains(answers)), "{needed:?}");
        assert!(needed.iter().max() > needed.iter().min());
    }
}
