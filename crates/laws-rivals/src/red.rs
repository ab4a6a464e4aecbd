//! RED: random early detection, which rejects a few events at random before the queue is full.
//!
//! **Intuition.** A full waiting room turns everybody away at once, and whoever
//! happens to come then. Better begin earlier: while the room is filling, turn away
//! one in so many, picked by lot, so that those who send the most are hit the most,
//! and the number grows with the length of the queue. A *smoothed* length, so that
//! a burst passes.
//!
//! **Mechanism** [Floyd93 §4–5]. At each arrival, with q events queued,
//! ```text
//! avg ← (1 − w)·avg + w·q             after m idle service times: avg ← (1 − w)^m·avg
//! min ≤ avg < max:       p_b = max_p·(avg − min) ÷ (max − min)
//! max ≤ avg < 2·max:     p_b = max_p + (1 − max_p)·(avg − max) ÷ max
//! p_a = p_b ÷ (1 − count·p_b)
//! ```
//! and the arrival is rejected with probability p_a, `count` being the arrivals since
//! the last rejection: so rejections are spread evenly instead of coming in clusters. At
//! 2·max everything is rejected. Nothing is while at most one is queued.
//!
//! **Source.** The mechanism and w = 0.002, min 5, max 15, max_p = 1/50 from
//! \[Floyd93\]; the second line, "gentle", and its being the default from \[ns3\]'s
//! `RedQueueDisc`, the port of the authors' own model. There a rejection waits for
//! 1/p_b arrivals after the last at least (`Wait`); this is the paper's form, without.
//!
//! **What we chose.** The idle time is counted in mean service times over all workers,
//! smoothed over some 16 of them. The lots come from a sequence with a seed.
//!
//! **Limits.** The rejections are made for senders that slow down. Those who do not push
//! the average to where the probability is what must go, between max and 2·max:
//! against them it is a soft bound on the length of the queue, with all that is wrong
//! with a length ([`Threshold`](tamarisk_laws::Threshold)). Five to thirty packets are a
//! router's numbers: at 80 % load on eight workers a queue of five is nothing unusual,
//! and what is rejected would have been answered in a tenth of its target. It is
//! blind for priorities.

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Decision, Dequeue, Ending, Finished, Ratio, Reading, Reason,
    Rejection, Timestamp, Waiting,
};

use tamarisk_laws::constants::constants;
use tamarisk_laws::seeded::Seeded;

constants! {
    /// Of [`Red`]. \[ns3\]: `MinTh`, `MaxTh`, `QW`, 1 ÷ `LInterm`; also [Floyd93 §6].
    pub(crate) struct RedConstants {
        /// where rejections begin
        queue_min_count: u32 = 5.0 in 0.0..=1e6,
        /// where they are at their greatest share
        queue_max_count: u32 = 15.0 in 1.0..=1e6,
        /// of one length in the average
        weight_ratio: Ratio = 0.002 in 0.000_01..=1.0,
        /// that greatest share
        probability_max_ratio: Ratio = 0.02 in 0.000_01..=1.0,
    }
}

/// The weight of a new service time in their average.
const SERVICE_WEIGHT: f64 = 1.0 / 16.0;

/// Rejects at random, the more the longer the smoothed queue.
#[derive(Clone, Debug)]
pub struct Red {
    queue_min: f64,
    queue_max: f64,
    weight: f64,
    probability_max: f64,
    draws: Seeded,
    average: f64,
    /// Arrivals since the last rejection, while there is something to reject.
    count: Option<u32>,
    empty_since: Option<Timestamp>,
    service_mean: Option<f64>,
}

/// Sets the constants of [`Red`]; the defaults are the published ones.
#[derive(Clone, Debug)]
#[must_use]
pub struct RedBuilder {
    constants: RedConstants,
    seed: u64,
}

/// Why the constants of [`Red`] do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidRed {
    /// There must be a way from none to all.
    #[error("rejections cannot grow from a queue of {min} to one of {max}")]
    Queue {
        /// Where rejections begin.
        min: u32,
        /// Where `probability_max` is reached.
        max: u32,
    },
    /// The average would never move.
    #[error("an average into which a sample enters with a weight of {0} never moves")]
    Weight(Ratio),
    /// Nothing would ever be rejected early.
    #[error("a greatest probability of {0} rejects nothing")]
    Probability(Ratio),
}

impl RedBuilder {
    pub(crate) fn constants(mut self, constants: RedConstants) -> Self {
        self.constants = constants;
        self
    }

    /// Between which smoothed lengths rejections grow from none to the greatest
    /// probability; at twice `max` all is rejected. Default 5 and 15.
    pub fn queue(mut self, min: u32, max: u32) -> Self {
        self.constants.queue_min_count = min;
        self.constants.queue_max_count = max;
        self
    }

    /// w: the weight of one length in the average. Default 0.002.
    pub fn weight(mut self, weight: Ratio) -> Self {
        self.constants.weight_ratio = weight;
        self
    }

    /// max_p: the share that is rejected at `max`. Default 0.02.
    pub fn probability_max(mut self, probability: Ratio) -> Self {
        self.constants.probability_max_ratio = probability;
        self
    }

    /// Where the sequence of lots begins. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The law, if the constants go together.
    ///
    /// # Errors
    /// [`InvalidRed`] says which do not.
    pub fn build(self) -> Result<Red, InvalidRed> {
        if self.constants.queue_min_count >= self.constants.queue_max_count {
            return Err(InvalidRed::Queue {
                min: self.constants.queue_min_count,
                max: self.constants.queue_max_count,
            });
        }
        if self.constants.weight_ratio == Ratio::ZERO {
            return Err(InvalidRed::Weight(self.constants.weight_ratio));
        }
        if self.constants.probability_max_ratio == Ratio::ZERO {
            return Err(InvalidRed::Probability(self.constants.probability_max_ratio));
        }
        Ok(self.law())
    }

    fn law(self) -> Red {
        Red {
            queue_min: self.constants.queue_min_count.into(),
            queue_max: self.constants.queue_max_count.into(),
            weight: self.constants.weight_ratio.get(),
            probability_max: self.constants.probability_max_ratio.get(),
            draws: Seeded::new(self.seed),
            average: 0.0,
            count: None,
            empty_since: None,
            service_mean: None,
        }
    }
}

impl Red {
    /// With the published constants.
    pub fn new() -> Self {
        Self::builder().law()
    }

    /// With constants of one's own.
    pub fn builder() -> RedBuilder {
        RedBuilder { constants: RedConstants::default(), seed: 0 }
    }

    fn update_average(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        if let (Some(since), Some(service)) = (self.empty_since.take(), self.service_mean) {
            // As if so many had come and found the queue empty.
            let each = (service / f64::from(backlog.workers.get())).max(1e-9);
            let missed = (now.since(since).as_secs_f64() / each).floor();
            self.average *= (1.0 - self.weight).powf(missed);
        }
        self.average += self.weight * (f64::from(backlog.queued_total) - self.average);
    }

    /// p_b, below the length at which all is rejected.
    fn probability(&self) -> f64 {
        let (min, max) = (self.queue_min, self.queue_max);
        if self.average < max {
            self.probability_max * (self.average - min) / (max - min)
        } else {
            self.probability_max + (1.0 - self.probability_max) * (self.average - max) / max
        }
    }

    fn judge(&mut self, queued: u32) -> Option<Reason> {
        if self.average < self.queue_min || queued <= 1 {
            self.count = None;
            return None;
        }
        if self.average >= 2.0 * self.queue_max {
            self.count = Some(0);
            return Some(Reason::QueueFull);
        }
        let Some(count) = self.count else {
            self.count = Some(1);
            return None;
        };
        let even = self.probability();
        let left = 1.0 - f64::from(count) * even;
        // With nothing left the rejection is due.
        let due = left <= 0.0 || self.draws.uniform() < even / left;
        self.count = Some(if due { 0 } else { count.saturating_add(1) });
        due.then_some(Reason::Random)
    }

    fn note_if_empty(&mut self, now: Timestamp, queued: u32) {
        if queued == 0 {
            self.empty_since.get_or_insert(now);
        }
    }
}

impl Default for Red {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for Red {
    fn name(&self) -> &'static str {
        "red"
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.update_average(now, backlog);
        match self.judge(backlog.queued_total) {
            None => Decision::Admit,
            Some(reason) => Decision::Reject(Rejection::new(reason)),
        }
    }

    fn on_dequeue(&mut self, now: Timestamp, _: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.note_if_empty(now, backlog.queued_total.saturating_sub(1));
        Dequeue::Run
    }

    fn on_sweep(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
        Dequeue::Run
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.note_if_empty(now, backlog.queued_total);
        if matches!(finished.ending, Ending::Abandoned | Ending::Untimed) {
            return;
        }
        let service = finished.service.as_secs_f64();
        let mean = self.service_mean.get_or_insert(service);
        *mean += SERVICE_WEIGHT * (service - *mean);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("queue_average_count", self.average);
        let all = self.average >= 2.0 * self.queue_max;
        let share = if all { 1.0 } else { self.probability().max(0.0) };
        show("rejected_early_ratio", share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{arrival, at, backlog, ended, finished_in};

    /// How many of `count` arrivals at a queue of `queued` are rejected.
    fn rejected(law: &mut Red, queued: u32, count: usize) -> usize {
        let queued = [queued];
        let crowded = backlog(&queued, &[8]);
        (0..count)
            .filter(|_| law.on_arrival(at(0), &arrival(0), &crowded) != Decision::Admit)
            .count()
    }

    fn settled(average: f64) -> Red {
        Red { average, count: Some(0), ..Red::new() }
    }

    #[test]
    fn below_the_least_length_nothing_is_rejected() {
        assert_eq!(rejected(&mut Red::new(), 4, 100_000), 0);
    }

    #[test]
    fn the_average_follows_with_a_weight_of_a_five_hundredth() {
        let mut law = Red::new();
        rejected(&mut law, 10, 1);
        assert!((law.average - 0.02).abs() < 1e-12);
        rejected(&mut law, 10, 499);
        // 10·(1 − 0.998⁵⁰⁰) = 10·(1 − 0.36751) = 6.3249
        assert!((law.average - 6.3249).abs() < 1e-4, "{}", law.average);
    }

    #[test]
    fn half_way_a_rejection_comes_after_one_to_a_hundred_arrivals() {
        // p_b = 0.02·(10 − 5) ÷ (15 − 5) = 0.01: gaps are even over 1 … 100, with
        // a mean of 50.5 [Floyd93 §7, method 2], not over the geometric's many more.
        let mut law = settled(10.0);
        let mut gaps = vec![0];
        for _ in 0..100_000 {
            *gaps.last_mut().unwrap() += 1;
            if rejected(&mut law, 10, 1) == 1 {
                gaps.push(0);
            }
        }
        gaps.pop();
        let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        assert!((48.0..53.0).contains(&mean), "a mean gap of {mean}");
        assert!(gaps.iter().all(|&gap| gap <= 101), "{:?}", gaps.iter().max());
    }

    #[test]
    fn the_probability_has_the_published_knees() {
        let at = |average| settled(average).probability();
        assert!((at(5.0) - 0.0).abs() < 1e-12);
        assert!((at(15.0) - 0.02).abs() < 1e-12);
        // 0.02 + 0.98·(22.5 − 15) ÷ 15 = 0.51
        assert!((at(22.5) - 0.51).abs() < 1e-12);
    }

    #[test]
    fn at_twice_the_greatest_length_all_is_rejected() {
        let mut law = settled(30.1);
        let crowded = backlog(&[40], &[8]);
        let decision = law.on_arrival(at(0), &arrival(0), &crowded);
        assert_eq!(decision, Decision::Reject(Rejection::new(Reason::QueueFull)));
    }

    #[test]
    fn whoever_finds_at_most_one_queued_gets_in() {
        assert_eq!(rejected(&mut settled(29.0), 1, 1), 0);
    }

    #[test]
    fn idle_time_counts_as_arrivals_that_found_nobody() {
        let mut law = settled(10.0);
        // 8 workers of 80 ms: 10 ms each; 3.47 s are 347 of them, and 0.998³⁴⁷ = 0.4992.
        law.on_finish(at(0), &finished_in(80), &backlog(&[0], &[0]));
        law.on_arrival(at(3470), &arrival(0), &backlog(&[0], &[0]));
        assert!((law.average - 4.99).abs() < 0.02, "{}", law.average);
    }

    #[test]
    fn a_stream_of_an_hour_is_no_service_time() {
        let mut law = settled(10.0);
        law.on_finish(at(0), &finished_in(80), &backlog(&[0], &[0]));
        law.on_finish(at(0), &ended(3_600_000, Ending::Untimed), &backlog(&[0], &[0]));
        assert_eq!(law.service_mean, Some(0.08));
    }

    #[test]
    fn another_seed_draws_other_lots() {
        let trace = |seed| {
            let mut law = Red { draws: Seeded::new(seed), ..settled(10.0) };
            (0..1000).map(|_| rejected(&mut law, 10, 1)).collect::<Vec<_>>()
        };
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
    }

    #[test]
    fn constants_without_sense_are_rejected() {
        assert!(Red::builder().queue(20, 60).build().is_ok());
        assert!(Red::builder().weight(Ratio::ZERO).build().is_err());
        assert!(Red::builder().probability_max(Ratio::ZERO).build().is_err());
        let error = Red::builder().queue(15, 15).build().unwrap_err();
        assert_eq!(error.to_string(), "rejections cannot grow from a queue of 15 to one of 15");
    }
}
