//! The thesis's global control: one throughput target for a graph, followed by the workers of each
//! stage.
//!
//! **Intuition.** A line of stages is as fast as its slowest. Tell all of them the same rate, and
//! none has workers for a queue that stands elsewhere.
//!
//! **Mechanism** [Fair07 §4.2.1, §4.3.1]. After each sample, of the whole graph:
//! ```text
//! r    = R̃·T ÷ (α·R)      at least the highest recent arrival rate, while the load moves (2–5)
//! r_j  = v_j·r            for each stage, as often as it is visited                    (1)
//! ```
//! Each stage's [`DepartureRate`](super::DepartureRate) then brings its throughput to r_j. Nobody
//! is rejected here: that is for a [`SelectiveDropper`](crate::SelectiveDropper) at the first
//! stage, and nowhere else [Fair07 §4.2.3].
//!
//! **Where it differs from [`GlobalController`](crate::GlobalController).** That one takes workers
//! as given, and sets how many may be inside and what each stage promises.
//!
//! **What the thesis leaves open, and we chose.** R̃ and R% of the whole are made of those of the
//! stages, as in the global controller; T is what leaves the graph. A sample without any answer
//! leaves the targets as they were. The sample is that of the stages, 2 s; a target reaches a stage
//! in the middle of a sample of its own, and counts from its end. While the load moves the thesis
//! takes the highest arrival rate for r; here (5) counts if it asks for more.
//!
//! **Limits.** Only workers laws that follow a throughput do so; the others stay as they are. A
//! stage behind a full one has work only when that one has finished some: the targets are those
//! of the flow that gets through ([`StageShares`]).

use std::time::Duration;

use tamarisk_control::global::{GlobalLaw, GraphSample, Share};
use tamarisk_control::{ClassId, Classes, Decision, PerSecond, Reading, Target, Timestamp};

use super::StageShares;
use super::global::whole;
use super::throughput_target::{Rates, ThroughputTarget};
use tamarisk_laws::constants::constants;

constants! {
    /// Of [`ThroughputSharing`].
    pub(crate) struct ThroughputSharingConstants {
        // [Fair07 §5.2]
        /// the length of a sample
        period_seconds: Duration = 2.0 in 0.1..=600.0,
        /// requests a second to complete; 0: what the response-time target needs
        throughput_per_second: PerSecond = 0.0 in 0.0..=1e6,
    }
}

/// One throughput target for a whole graph of stages.
#[derive(Clone, Debug)]
pub struct ThroughputSharing {
    desired: Duration,
    period: Duration,
    target: ThroughputTarget,
    /// Of as many stages as the last sample had.
    shares: Option<StageShares>,
    /// v_j.
    visits: Vec<f64>,
    /// r, once a sample told.
    reference: Option<f64>,
}

impl ThroughputSharing {
    /// For what `classes` are promised, with samples of 2 s.
    pub fn new(classes: &Classes) -> Self {
        Self::with(classes, &ThroughputSharingConstants::default())
    }

    pub(crate) fn with(classes: &Classes, its: &ThroughputSharingConstants) -> Self {
        Self {
            desired: classes.strictest(),
            period: its.period_seconds,
            target: ThroughputTarget::new(percentile(classes), its.throughput_per_second),
            shares: None,
            visits: Vec::new(),
            reference: None,
        }
    }
}

impl GlobalLaw for ThroughputSharing {
    fn name(&self) -> &'static str {
        "throughput-sharing"
    }

    fn on_entry(&mut self, _: Timestamp) -> Decision {
        Decision::Admit
    }

    fn on_tick(&mut self, _: Timestamp, _: u64) {}

    fn period(&self) -> Duration {
        self.period
    }

    fn on_sample(&mut self, sample: &GraphSample<'_>) {
        let count = sample.stages.len();
        if self.visits.len() != count {
            self.shares = StageShares::new(count).ok();
            self.visits = vec![0.0; count];
        }
        let Some(shares) = &mut self.shares else { return };
        let entered: u64 = sample.stages.iter().map(|stage| stage.entered).sum();
        if entered == 0 || sample.lasted.is_zero() || !whole::observe_flows(shares, sample) {
            return;
        }
        let Ok(visits) = shares.visits() else { return };
        self.visits.copy_from_slice(visits);
        let processed: u64 = sample.stages.iter().map(|stage| stage.processed).sum();
        let sent_on: f64 = sample.edges.iter().map(|&(_, _, count)| count).sum();
        let seconds = sample.lasted.as_secs_f64();
        let rates = Rates {
            arrivals: entered as f64 / seconds,
            throughput: (processed as f64 - sent_on).max(0.0) / seconds,
            response: whole::response(self.visits.iter().copied(), sample),
        };
        self.reference = self.target.after(&rates, self.desired).or(self.reference);
    }

    fn stages_changed(&mut self) {
        self.shares = None;
        self.visits.clear();
    }

    fn share(&self, stage: usize) -> Option<Share> {
        let (&visits, throughput) = (self.visits.get(stage)?, self.throughput(stage)?);
        Some(Share { visits, throughput, spare: 0.0 })
    }

    fn throughput(&self, stage: usize) -> Option<PerSecond> {
        let visits = self.visits.get(stage).filter(|visits| **visits > 0.0)?;
        PerSecond::new(visits * self.reference?).ok()
    }

    fn target(&self, _: usize, _: ClassId) -> Option<Target> {
        None
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.desired = classes.strictest();
        self.target.set_percentile(percentile(classes));
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("mean_per_percentile_ratio", self.target.alpha());
        if let Some(reference) = self.reference {
            show("throughput_target_per_second", reference);
        }
    }
}

fn percentile(classes: &Classes) -> f64 {
    classes.targets().map(|target| target.at().get()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Concurrency;
    use tamarisk_control::global::{StageSample, Times};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A front that sends a quarter on to a database, both answering after so long.
    fn sample(law: &mut ThroughputSharing, entered: u64, processed: u64, millis: u64) {
        let times = |millis| {
            let time = Duration::from_millis(millis);
            Some(Times { mean: time, percentile: 2 * time })
        };
        let stage = |entered, processed| StageSample {
            entered,
            processed,
            workers: Concurrency::new(4),
            service: times(1),
            response: times(millis),
        };
        let stages = [stage(entered, processed), stage(0, processed / 4)];
        let edges = [(0, 1, processed as f64 / 4.0)];
        law.on_sample(&GraphSample { lasted: SECOND, stages: &stages, edges: &edges });
    }

    fn law() -> ThroughputSharing {
        let target = Target::p90(SECOND).unwrap();
        ThroughputSharing::new(&Classes::single(target))
    }

    fn targets(law: &ThroughputSharing) -> [f64; 2] {
        [0, 1].map(|stage| law.throughput(stage).unwrap().get())
    }

    #[test]
    fn each_stage_is_to_do_its_share_of_what_the_promise_needs() {
        let mut law = law();
        // Means of 0.8 s at the front and, for a quarter, at the database: 1 s in all. The
        // percentile is 1 s + √1.25·0.8 s = 1.894 s, which α becomes: 0.528.
        (0..60).for_each(|_| sample(&mut law, 100, 100, 800));
        let [front, database] = targets(&law);
        assert!((front - 100.0 * 1.894).abs() < 0.5, "{front}");
        assert!((database - front / 4.0).abs() < 1e-9);
    }

    #[test]
    fn while_the_load_moves_all_are_to_do_what_arrives() {
        let mut law = law();
        (0..3).for_each(|_| sample(&mut law, 100, 100, 800));
        sample(&mut law, 400, 100, 800);
        // The database's share is smoothed, and the same as before.
        assert_eq!(targets(&law)[0], 400.0);
    }

    #[test]
    fn a_stated_throughput_is_shared_as_it_is() {
        let constants = ThroughputSharingConstants {
            throughput_per_second: PerSecond::new(60.0).unwrap(),
            ..ThroughputSharingConstants::default()
        };
        let classes = Classes::single(Target::p90(SECOND).unwrap());
        let mut law = ThroughputSharing::with(&classes, &constants);
        sample(&mut law, 100, 100, 10);
        assert_eq!(targets(&law), [60.0, 15.0]);
    }

    #[test]
    fn an_empty_sample_changes_nothing() {
        let mut law = law();
        assert_eq!(law.throughput(0), None);
        sample(&mut law, 100, 100, 800);
        let before = targets(&law);
        sample(&mut law, 0, 0, 0);
        assert_eq!(targets(&law), before);
    }
}
