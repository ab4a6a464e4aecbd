//! Unserved demand: the share of arrivals that is rejected, the input of the slow loops.

use std::time::Duration;

use tamarisk_control::{
    Activity, ClassId, Classes, Ending, Finished, QualityLaw, Target, Timestamp, Together,
};

use super::OVERLOADED;

/// More late events than this in a tick tell the quality law nothing new: they fill
/// ten of its periods.
const LATE_TOLD_MAX: u64 = 1000;

/// A queue stands that something is in at so many of the ticks.
const QUEUE_STANDS: f64 = 0.9;

/// What the fast loop and the stage itself let go unserved in this period.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// What the fast loop was asked about.
    pub(super) offered: u64,
    rejected: u64,
    /// Ended early while they ran.
    pub(super) terminated: u64,
    /// What the stage had counted when the period began.
    counted: Option<Counted>,
    /// Ticks of the period, and those at which something was queued.
    ticks: u64,
    ticks_queued: u64,
    pub(super) classes: Box<[ClassDemand]>,
}

/// Counts of the stage, as in [`Activity`].
#[derive(Clone, Copy, Debug)]
struct Counted {
    offered: u64,
    lost: u64,
}

/// What one class was rejected since the last tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassDemand {
    rejected: u64,
    target: Duration,
    /// How many late answers one rejection stands for: so many that a share of
    /// rejections which means overload makes the promised percentile late.
    weight: u64,
}

impl Demand {
    pub(super) fn new(classes: &Classes) -> Self {
        Self {
            offered: 0,
            rejected: 0,
            terminated: 0,
            counted: None,
            ticks: 0,
            ticks_queued: 0,
            classes: classes.targets().map(ClassDemand::of).collect(),
        }
    }

    pub(super) fn set_targets(&mut self, classes: &Classes) {
        for (demand, target) in self.classes.iter_mut().zip(classes.targets()) {
            *demand = ClassDemand { rejected: demand.rejected, ..ClassDemand::of(target) };
        }
    }

    pub(super) fn reject(&mut self, class: ClassId) {
        self.rejected += 1;
        let index = if class.index() < self.classes.len() { class.index() } else { 0 };
        self.classes[index].rejected += 1;
    }

    /// Tells `quality` of what was rejected since the last tick: events that came
    /// twice as late as they may.
    pub(super) fn tell(&mut self, now: Timestamp, quality: &mut dyn QualityLaw) {
        for (index, demand) in self.classes.iter_mut().enumerate() {
            let rejected = std::mem::take(&mut demand.rejected);
            let late = Finished {
                kind: 0,
                class: ClassId::new(index),
                service: Duration::ZERO,
                response: demand.target * 2,
                ending: Ending::Failed,
                together: Together::ALONE,
            };
            let told = rejected.saturating_mul(demand.weight).min(LATE_TOLD_MAX);
            (0..told).for_each(|_| quality.on_finish(now, &late));
        }
    }

    /// A tick of the period.
    pub(super) fn on_tick(&mut self, activity: &Activity<'_>) {
        self.counted.get_or_insert_with(|| Counted::of(activity));
        self.ticks += 1;
        self.ticks_queued += u64::from(activity.backlog.queued_total > 0);
    }

    /// Ends the period: the share that the fast loop rejected or dropped of what it was asked about,
    /// or that the stage lost of all that came, if that is more.
    pub(super) fn take_rejected_share(&mut self, activity: &Activity<'_>) -> f64 {
        let own = share(std::mem::take(&mut self.rejected), std::mem::take(&mut self.offered));
        let of_stage = self.take_lost_share(activity);
        let queued = share(std::mem::take(&mut self.ticks_queued), std::mem::take(&mut self.ticks));
        // Without a queue, what the stage rejects tells of no overload: a predicate does so too.
        if queued >= QUEUE_STANDS { own.max(of_stage) } else { own }
    }

    /// What the stage rejected or dropped: also for a full queue, a resource or a deadline, of which
    /// the fast loop is told nothing. What is terminated has had a worker.
    fn take_lost_share(&mut self, activity: &Activity<'_>) -> f64 {
        let now = Counted::of(activity);
        let before = self.counted.replace(now).unwrap_or(now);
        let terminated = std::mem::take(&mut self.terminated);
        let lost = now.lost.saturating_sub(before.lost).saturating_sub(terminated);
        share(lost, now.offered.saturating_sub(before.offered))
    }
}

impl Counted {
    fn of(activity: &Activity<'_>) -> Self {
        Self { offered: activity.offered, lost: activity.lost }
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

impl ClassDemand {
    fn of(target: Target) -> Self {
        Self {
            rejected: 0,
            target: target.response_time(),
            weight: ((1.0 - target.at().get()) / OVERLOADED).ceil().max(1.0) as u64,
        }
    }
}
