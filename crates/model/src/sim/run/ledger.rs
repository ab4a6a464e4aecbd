//! The accounts of the network: the outcome of each request on its whole way.

use tamarisk_control::ClassId;

use super::stage::{StageRun, StageTally};
use super::tally::{Counts, Level, Times};
use super::watch::Outcome;
use crate::sim::plan::resolved::Plan;

pub(in crate::sim) struct Ledger {
    pub(in crate::sim) classes: Box<[ClassTally]>,
    pub(in crate::sim) flows: Box<[FlowCounts]>,
    /// One more than the parts of the measured time that are over.
    pub(in crate::sim) batches_begun: u32,
    /// Everything as it stood when measuring began.
    pub(in crate::sim) base: Base,
}

/// What became of one class.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct ClassTally {
    /// Since the beginning of all, the warm-up included.
    pub(in crate::sim) counts: Counts,
    /// Response time to be met, in nanoseconds, and by which share.
    target: u64,
    percentile: f64,
    /// Of those completed since measuring began, how many kept it, and by how much the
    /// others together missed it.
    pub(in crate::sim) in_time: u64,
    pub(in crate::sim) late: u128,
    pub(in crate::sim) retried: u64,
    pub(in crate::sim) given_up: u64,
    pub(in crate::sim) pages: PageCounts,
    pub(in crate::sim) response: Times,
    /// In the present second.
    completed_now: u64,
    in_time_now: u64,
    /// Whether the promise was broken in the last second that could tell.
    is_over: bool,
    pub(in crate::sim) seconds_over: u64,
    /// `in_time` at the end of each part.
    pub(in crate::sim) in_time_marks: Vec<u64>,
}

/// What came of pages, of which each needs all of its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// How many ended: all their calls did.
    pub ended: u64,
    /// Of these, all calls were answered, the last within the target of the class.
    pub in_time: u64,
}

impl PageCounts {
    /// The share of those that ended that was in time, and whole; zero of none.
    pub fn in_time_share(self) -> f64 {
        self.in_time as f64 / (self.ended as f64).max(1.0)
    }
}

/// What came of the requests of one flow, in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// How many attempts it made.
    pub offered: u64,
    /// How many were completed.
    pub completed: u64,
    /// How many of these within the target of their class.
    pub in_time: u64,
}

#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Base {
    pub(in crate::sim) classes: Vec<Counts>,
    pub(in crate::sim) stages: Vec<StageBase>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct StageBase {
    pub(in crate::sim) classes: Vec<Counts>,
    pub(in crate::sim) queued: i128,
    pub(in crate::sim) running: i128,
    pub(in crate::sim) parked: i128,
    /// Of workers, batch and quality.
    pub(in crate::sim) knobs: [f64; 3],
}

impl Ledger {
    pub(in crate::sim) fn new(plan: &Plan) -> Self {
        let tally = |target: tamarisk_control::Target| ClassTally {
            target: target.response_time().as_nanos() as u64,
            percentile: target.at().get(),
            ..ClassTally::default()
        };
        Self {
            classes: plan.classes.iter().map(|(_, class)| tally(class.target)).collect(),
            flows: vec![FlowCounts::default(); plan.flows as usize].into(),
            batches_begun: 0,
            base: Base::default(),
        }
    }

    #[inline]
    pub(in crate::sim) fn offer(&mut self, class: ClassId, flow: u32) {
        self.classes[class.index()].counts.offered += 1;
        self.flows[flow as usize].offered += 1;
    }

    #[inline]
    pub(in crate::sim) fn leave(
        &mut self,
        class: ClassId,
        flow: u32,
        outcome: Outcome,
        response: u64,
    ) {
        let tally = &mut self.classes[class.index()];
        tally.counts.end(outcome);
        if outcome != Outcome::Completed {
            return;
        }
        let in_time = response <= tally.target;
        tally.response.record(response);
        tally.completed_now += 1;
        let flow = &mut self.flows[flow as usize];
        flow.completed += 1;
        if in_time {
            tally.in_time += 1;
            tally.in_time_now += 1;
            flow.in_time += 1;
        } else {
            tally.late += u128::from(response - tally.target);
        }
    }

    /// A request came when there was no memory for more.
    pub(in crate::sim) fn reject(&mut self, class: ClassId, flow: u32) {
        self.offer(class, flow);
        self.classes[class.index()].counts.rejected += 1;
    }

    pub(in crate::sim) fn retry(&mut self, class: ClassId) {
        self.classes[class.index()].retried += 1;
    }

    pub(in crate::sim) fn give_up(&mut self, class: ClassId) {
        self.classes[class.index()].given_up += 1;
    }

    /// A page has ended, so long after it came.
    pub(in crate::sim) fn end_page(&mut self, class: ClassId, is_whole: bool, response: u64) {
        let tally = &mut self.classes[class.index()];
        tally.pages.ended += 1;
        tally.pages.in_time += u64::from(is_whole && response <= tally.target);
    }

    /// A second has passed. Its percentile of response times was over the target if
    /// fewer than that share of its answers were in time; a second without answers
    /// is as the one before, as long as somebody waits for one.
    pub(in crate::sim) fn second(&mut self) {
        for tally in &mut self.classes {
            let inside = tally.counts.offered - tally.counts.ended();
            if tally.completed_now > 0 {
                let due = tally.percentile * tally.completed_now as f64;
                tally.is_over = (tally.in_time_now as f64) < due;
            } else if inside == 0 {
                tally.is_over = false;
            }
            tally.seconds_over += u64::from(tally.is_over);
            tally.completed_now = 0;
            tally.in_time_now = 0;
        }
    }

    /// A part of the measured time begins, or the last one ends.
    pub(in crate::sim) fn mark(&mut self, stages: &mut [StageRun]) {
        self.batches_begun += 1;
        for tally in &mut self.classes {
            tally.response.mark();
            tally.in_time_marks.push(tally.in_time);
        }
        for tally in stages.iter_mut().flat_map(|stage| &mut stage.classes) {
            tally.wait.mark();
            tally.response.mark();
        }
    }

    /// Measuring begins: what was before is forgotten, except who is inside.
    pub(in crate::sim) fn begin(&mut self, now: u64, stages: &mut [StageRun]) {
        self.batches_begun = 0;
        self.base.classes = self.classes.iter().map(|tally| tally.counts).collect();
        self.base.stages.clear();
        for tally in &mut self.classes {
            let ClassTally { counts, target, percentile, .. } = *tally;
            *tally = ClassTally { counts, target, percentile, ..ClassTally::default() };
        }
        self.flows.fill(FlowCounts::default());
        let area = |level: &Level| level.area(now);
        for stage in stages {
            self.base.stages.push(StageBase {
                classes: stage.classes.iter().map(|tally| tally.counts).collect(),
                queued: area(&stage.inside.queued),
                running: area(&stage.inside.running),
                parked: area(&stage.inside.parked),
                knobs: stage.courses.areas(now),
            });
            stage.reasons.clear();
            for tally in &mut stage.classes {
                let counts = tally.counts;
                *tally = StageTally { counts, ..StageTally::default() };
            }
        }
    }
}
