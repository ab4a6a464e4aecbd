//! A network under a global law: the observations that the law gets, and the effect of its
//! decisions.
//!
//! The law is told what the live graph tells it: at each tick who is inside, and at the
//! first tick after its period what has happened since at the stages and between them.
//! Times are those of the sample itself; a live stage shows those of its last seconds.

use std::time::Duration;

use tamarisk_control::global::{GlobalLaw, GraphSample, StageSample, Times};
use tamarisk_control::{Classes, Decision, Ratio, Rejection, Timestamp};

use super::job::Job;
use super::stage::StageRun;
use super::tally;
use crate::sim::plan::resolved::Plan;

/// A global law at work.
pub(in crate::sim) struct GlobalRun {
    pub(in crate::sim) law: Box<dyn GlobalLaw>,
    sample: Sample,
    /// The strictest percentile that is promised.
    percentile: Ratio,
    /// What each stage promises now.
    pub(in crate::sim) promised: Box<[Classes]>,
}

/// What has happened since the last sample.
struct Sample {
    began: u64,
    stages: Box<[StageEnds]>,
    /// From row to column.
    flows: Box<[u64]>,
}

#[derive(Clone, Default)]
struct StageEnds {
    entered: u64,
    /// In whatever way.
    ended: u64,
    service: tally::Times,
    response: tally::Times,
}

impl GlobalRun {
    pub(super) fn new(law: Box<dyn GlobalLaw>, plan: &Plan) -> Self {
        let count = plan.stages.len();
        let percentiles = plan.classes.iter().map(|(_, class)| class.target.at().get());
        Self {
            law,
            sample: Sample::new(0, count),
            percentile: Ratio::saturating(percentiles.fold(0.0, f64::max)),
            promised: vec![plan.classes.clone(); count].into(),
        }
    }

    /// A request asks to enter the network.
    pub(super) fn ask(&mut self, now: u64) -> Result<(), Rejection> {
        match self.law.on_entry(Timestamp::from_nanos(now)) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    /// A request was let in by `stage`.
    pub(super) fn entered(&mut self, stage: u32) {
        self.sample.stages[stage as usize].entered += 1;
    }

    /// A request was done at its stage, and goes on to `next`, if anywhere.
    pub(super) fn finished(&mut self, now: u64, job: &Job, next: Option<u32>) {
        let Sample { stages, flows, .. } = &mut self.sample;
        let stage = &mut stages[job.stage as usize];
        stage.service.record(now - job.started);
        stage.response.record(now - job.entered);
        if let Some(next) = next {
            flows[job.stage as usize * stages.len() + next as usize] += 1;
        }
    }

    /// A request that ran at `stage` has ended there, in whatever way.
    pub(super) fn ended(&mut self, stage: u32) {
        self.sample.stages[stage as usize].ended += 1;
    }

    pub(super) fn tick(&mut self, now: u64, stages: &mut [StageRun]) {
        let inside = stages.iter().map(|stage| {
            let (queued, running) = (stage.inside.queued.now, stage.inside.running.now);
            u64::from(queued) + u64::from(running)
        });
        self.law.on_tick(Timestamp::from_nanos(now), inside.sum());
        let lasted = Duration::from_nanos(now - self.sample.began);
        if lasted >= self.law.period() {
            self.end_sample(now, lasted, stages);
            self.promise(stages);
        }
    }

    fn end_sample(&mut self, now: u64, lasted: Duration, stages: &[StageRun]) {
        let count = stages.len();
        let Sample { stages: tallies, flows, .. } =
            std::mem::replace(&mut self.sample, Sample::new(now, count));
        let of_stage = |(tally, stage): (&StageEnds, &StageRun)| StageSample {
            entered: tally.entered,
            processed: tally.ended,
            workers: stage.inside.workers,
            service: times(&tally.service, self.percentile),
            response: times(&tally.response, self.percentile),
        };
        let samples: Vec<_> = tallies.iter().zip(stages).map(of_stage).collect();
        let edge = |(index, &flow): (usize, &u64)| (index / count, index % count, flow as f64);
        let edges: Vec<_> = flows.iter().enumerate().map(edge).collect();
        self.law.on_sample(&GraphSample { lasted, stages: &samples, edges: &edges });
    }

    /// Tells the laws of the stages what they are to promise and to complete now.
    fn promise(&mut self, stages: &mut [StageRun]) {
        for (index, (stage, promised)) in stages.iter_mut().zip(&mut self.promised).enumerate() {
            if let Some(throughput) = self.law.throughput(index) {
                stage.ruling.set_throughput(throughput);
            }
            let mut classes = promised.clone();
            for (id, _) in promised.iter() {
                if let Some(target) = self.law.target(index, id) {
                    classes.set_target(id, target);
                }
            }
            if classes != *promised {
                stage.ruling.admission_mut().set_targets(&classes);
                *promised = classes;
            }
        }
    }
}

impl Sample {
    fn new(began: u64, stages: usize) -> Self {
        let flows = vec![0; stages * stages].into();
        Self { began, stages: vec![StageEnds::default(); stages].into(), flows }
    }
}

fn times(of: &tally::Times, percentile: Ratio) -> Option<Times> {
    let percentile = of.histogram.quantile(percentile.get())?;
    Some(Times {
        mean: Duration::from_nanos((of.sum / u128::from(of.count.max(1))) as u64),
        percentile: Duration::from_nanos(percentile as u64),
    })
}
