//! Fixed laws: workers, batch, quality and termination stay as configured.

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, BatchLaw, BatchSize, ClassId, Concurrency, Finished, Leeway, QualityLaw, Ratio,
    Reading, Strain, TerminationLaw, Timestamp, WorkersLaw,
};

use crate::constants::constants;

constants! {
    /// Of [`FixedWorkers`].
    pub(crate) struct FixedWorkersConstants {
        /// worked on at once
        workers_count: Concurrency = 1.0 in 1.0..=32_768.0,
    }
}

constants! {
    /// Of [`FixedBatch`].
    pub(crate) struct FixedBatchConstants {
        /// events at once, at most
        batch_events_count: BatchSize = 32.0 in 1.0..=1e6,
    }
}

/// As many workers as were asked for.
#[derive(Clone, Copy, Debug)]
pub struct FixedWorkers(pub Concurrency);

impl WorkersLaw for FixedWorkers {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) -> Concurrency {
        self.0
    }

    fn range(&self) -> RangeInclusive<Concurrency> {
        self.0..=self.0
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let value = f64::from(self.0.get());
        visit(Reading { name: "workers_count", class: None, value });
    }
}

/// Batches of at most as many events as were asked for.
#[derive(Clone, Copy, Debug)]
pub struct FixedBatch(pub BatchSize);

impl BatchLaw for FixedBatch {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>) -> BatchSize {
        self.0
    }

    fn most(&self) -> BatchSize {
        self.0
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let value = f64::from(self.0.get());
        visit(Reading { name: "batch_events_count", class: None, value });
    }
}

/// Every event is served in full.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullQuality;

impl QualityLaw for FullQuality {
    fn name(&self) -> &'static str {
        "full"
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished) {}

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) -> Ratio {
        Ratio::ONE
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "quality_ratio", class: None, value: 1.0 });
    }
}

/// Events run until they are done or their own deadline has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineOnly;

impl TerminationLaw for DeadlineOnly {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) {}

    fn limit(&self, _: ClassId) -> Option<Duration> {
        None
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Backlog;

    use super::*;

    #[test]
    fn whatever_happens_they_answer_the_same() {
        let backlog = Backlog {
            queued: &[u32::MAX],
            running: &[u32::MAX],
            queued_total: u32::MAX,
            running_total: u32::MAX,
            workers: Concurrency::ONE,
        };
        let activity = Activity { backlog, offered: 9, lost: 9, completed: 0, workers_idle: 0 };
        let now = Timestamp::MAX;
        let workers =
            FixedWorkers(Concurrency::new(3)).on_tick(now, &activity, Leeway::Either).get();
        assert_eq!(workers, 3);
        assert_eq!(FixedBatch(BatchSize::new(7)).on_tick(now, &activity).get(), 7);
        assert_eq!(FullQuality.on_tick(now, &activity, Leeway::Press), Ratio::ONE);
        assert_eq!(DeadlineOnly.limit(ClassId::DEFAULT), None);
    }
}
