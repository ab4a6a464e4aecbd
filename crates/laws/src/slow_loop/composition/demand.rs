//! Unserved demand: the share of arrivals that is rejected, the input of the slow loops.

use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Ending, Finished, QualityLaw, Target, Timestamp};

use super::OVERLOADED;

/// More late events than this in a tick tell the quality law nothing new: they fill
/// ten of its periods.
const LATE_TOLD_MAX: u64 = 1000;

/// What the fast loop answered in this period.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) offered: u64,
    rejected: u64,
    pub(super) classes: Box<[ClassDemand]>,
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
        Self { offered: 0, rejected: 0, classes: classes.targets().map(ClassDemand::of).collect() }
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
            };
            let told = rejected.saturating_mul(demand.weight).min(LATE_TOLD_MAX);
            (0..told).for_each(|_| quality.on_finish(now, &late));
        }
    }

    /// Ends the period.
    pub(super) fn take_rejected_share(&mut self) -> f64 {
        let offered = std::mem::take(&mut self.offered);
        let rejected = std::mem::take(&mut self.rejected);
        if offered == 0 { 0.0 } else { rejected as f64 / offered as f64 }
    }
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
