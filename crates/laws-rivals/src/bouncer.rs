//! Bouncer: admits an event if the predicted percentile of its class stays within the target.
//!
//! **Intuition.** On arrival all is known that is needed: who waits, how long
//! each kind takes on the mean, and how long this kind takes at the percentile
//! that was promised. Add it up, and say no at once if it comes to too much.
//!
//! **Mechanism** \[Bouncer24\]. With n_k events of class k queued, s_k their mean
//! service time and P workers, an arrival of class j is rejected if
//! ```text
//! Σ n_k·s_k ÷ P + q_j > target_j
//! ```
//! q_j being its class's service time at the percentile of the target. A class of
//! which too little is known is judged by what is known of all.
//!
//! **Source.** \[Bouncer24\], its basic formulation. There an event may have two targets,
//! at the 50th and the 90th percentile; a class has one here. Its two additions
//! against starvation are not part of this law.
//!
//! **What we chose.** Percentiles are of the last 500 events of a class instead of
//! histograms that are swapped at intervals; fewer than 30 are too little. Only what has run to its end, or was
//! ended early, tells how long service takes. Knowing nothing at all, it admits.
//!
//! **Limits.** What runs is not counted, nor how much of it is left. Nothing checks
//! the sum against what then happens: the queue rides at the target, and of events
//! that ride at it a good part comes too late. A class
//! whose own service time at the percentile exceeds its target is rejected even by an idle
//! stage, and since nothing of it runs any more, nothing can show that it became faster:
//! it starves. [`PredictGateTrim`](tamarisk_laws::PredictGateTrim) begins with the
//! same sum and mends these.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Ending, Finished, Reading, Reason,
    Rejection, Timestamp,
};

use tamarisk_laws::promise::Promise;
use tamarisk_laws::recent_samples::RecentSamples;

/// Fifty of them lie above the 90th percentile.
const SAMPLES: usize = 500;

/// With fewer, three at most lie above the 90th percentile.
const SAMPLES_MIN: usize = 30;

/// Admits what is predicted to keep its target.
#[derive(Clone, Debug)]
pub struct Bouncer {
    promises: Box<[Promise]>,
    services: Box<[RecentSamples]>,
    /// Of all classes.
    general: RecentSamples,
}

impl Bouncer {
    /// The law for these classes and their targets.
    pub fn new(classes: &Classes) -> Self {
        Self {
            promises: classes.targets().map(Promise::of).collect(),
            services: vec![RecentSamples::new(SAMPLES); classes.len()].into(),
            general: RecentSamples::new(SAMPLES),
        }
    }

    fn resolve(&self, class: ClassId) -> usize {
        if class.index() < self.promises.len() { class.index() } else { 0 }
    }

    fn service(&self, class: usize) -> &RecentSamples {
        let own = &self.services[class];
        if own.len() < SAMPLES_MIN { &self.general } else { own }
    }

    /// How long an arrival would wait, in seconds.
    fn wait(&self, backlog: &Backlog<'_>) -> f64 {
        let work = |(class, &queued): (usize, &u32)| f64::from(queued) * self.service(class).mean();
        let queued = backlog.queued.iter().take(self.services.len());
        queued.enumerate().map(work).sum::<f64>() / f64::from(backlog.workers.get())
    }
}

impl AdmissionLaw for Bouncer {
    fn name(&self) -> &'static str {
        "bouncer"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let class = self.resolve(arrival.class);
        let Promise { target, percentile, .. } = self.promises[class];
        let remaining = arrival.deadline.map_or(f64::INFINITY, |at| at.since(now).as_secs_f64());
        let wait = self.wait(backlog);
        if wait + self.service(class).quantile(percentile) <= target.min(remaining) {
            return Decision::Admit;
        }
        let clears = Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX);
        Decision::Reject(Rejection::new(Reason::PredictedLate).retry_after(clears))
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        if matches!(finished.ending, Ending::Completed | Ending::Terminated) {
            let service = finished.service.as_secs_f64();
            let class = self.resolve(finished.class);
            self.services[class].push(service);
            self.general.push(service);
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        for (promise, target) in self.promises.iter_mut().zip(classes.targets()) {
            *promise = Promise::of(target);
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        for (index, promise) in self.promises.iter().enumerate() {
            let class = Some(ClassId::new(index));
            let service = self.service(index);
            visit(Reading { name: "service_mean_seconds", class, value: service.mean() });
            let quantile = service.quantile(promise.percentile);
            visit(Reading { name: "service_quantile_seconds", class, value: quantile });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{arrival, at, backlog, classes, ended, finished_in};

    /// A law that has seen 100 events of 91 ms to 190 ms: mean 140.5 ms, p90 180 ms.
    fn law() -> Bouncer {
        let mut law = Bouncer::new(&classes(&[0, 0]));
        for millis in 91..=190 {
            law.on_finish(at(0), &finished_in(millis), &backlog(&[0, 0], &[0, 0]));
        }
        law
    }

    fn decide(law: &mut Bouncer, class: usize, queued: [u32; 2]) -> Decision {
        law.on_arrival(at(0), &arrival(class), &backlog(&queued, &[8, 0]))
    }

    #[test]
    fn the_wait_and_the_service_must_fit_into_the_target() {
        // 46·140.5 ÷ 8 = 807.9 and + 180 = 987.9 ms; 47: 825.4 + 180 = 1005.4 ms > 1 s.
        assert_eq!(decide(&mut law(), 0, [46, 0]), Decision::Admit);
        let Decision::Reject(rejection) = decide(&mut law(), 0, [47, 0]) else {
            panic!("it would be late");
        };
        assert_eq!(rejection.reason, Reason::PredictedLate);
        assert_eq!(rejection.retry_after.unwrap().as_millis(), 825);
    }

    #[test]
    fn a_class_of_which_nothing_is_known_is_taken_for_any_other() {
        assert_eq!(decide(&mut law(), 1, [23, 23]), Decision::Admit);
        assert_ne!(decide(&mut law(), 1, [23, 24]), Decision::Admit);
    }

    #[test]
    fn knowing_nothing_it_admits() {
        let mut law = Bouncer::new(&classes(&[0, 0]));
        assert_eq!(decide(&mut law, 0, [100_000, 0]), Decision::Admit);
    }

    #[test]
    fn a_class_too_slow_for_its_target_starves_on_an_idle_stage() {
        let mut law = Bouncer::new(&classes(&[0]));
        for _ in 0..30 {
            law.on_finish(at(0), &finished_in(1001), &backlog(&[0], &[0]));
        }
        let idle = backlog(&[0], &[0]);
        assert_ne!(law.on_arrival(at(0), &arrival(0), &idle), Decision::Admit);
    }

    #[test]
    fn a_deadline_counts_as_a_target_does() {
        let arrival = Arrival { deadline: Some(at(180)), ..arrival(0) };
        let idle = backlog(&[0, 0], &[0, 0]);
        assert_eq!(law().on_arrival(at(0), &arrival, &idle), Decision::Admit);
        assert_ne!(law().on_arrival(at(1), &arrival, &idle), Decision::Admit);
    }

    #[test]
    fn failures_say_nothing_of_service() {
        let mut law = law();
        (0..1000).for_each(|_| {
            law.on_finish(at(0), &ended(1, Ending::Failed), &backlog(&[0, 0], &[0, 0]));
        });
        assert_ne!(decide(&mut law, 0, [47, 0]), Decision::Admit);
    }
}
