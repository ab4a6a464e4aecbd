//! The slow laws of a stage, and what they are told at a tick.

use tamarisk_control::{
    Activity, BatchLaw, BatchSize, ClassId, Concurrency, Finished, Leeway, QualityLaw, Reading,
    TerminationLaw, Timestamp, WorkersLaw,
};

use super::knobs::Knobs;

/// Those that a stage has; it stays as it is built in what no law is for.
#[derive(Default)]
pub(crate) struct SlowLaws {
    pub(crate) workers: Option<Box<dyn WorkersLaw>>,
    pub(crate) batch: Option<Box<dyn BatchLaw>>,
    pub(crate) quality: Option<Box<dyn QualityLaw>>,
    pub(crate) termination: Option<Box<dyn TerminationLaw>>,
}

/// What the slow laws want of the workers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Adjustment {
    pub(crate) workers: Option<Concurrency>,
    pub(crate) batch: Option<BatchSize>,
}

impl SlowLaws {
    #[inline]
    pub(super) fn on_finish(&mut self, now: Timestamp, finished: &Finished) {
        if let Some(quality) = &mut self.quality {
            quality.on_finish(now, finished);
        }
    }

    pub(super) fn on_tick(
        &mut self,
        now: Timestamp,
        activity: &Activity<'_>,
        knobs: &Knobs,
    ) -> Adjustment {
        if let Some(law) = &mut self.quality {
            knobs.set_quality(law.on_tick(now, activity, Leeway::Either));
        }
        if let Some(law) = &mut self.termination {
            law.on_tick(now, activity, Leeway::Either);
            for index in 0..activity.backlog.queued.len() {
                let class = ClassId::new(index);
                knobs.set_limit(class, law.limit(class));
            }
        }
        let workers = |law: &mut Box<dyn WorkersLaw>| law.on_tick(now, activity, Leeway::Either);
        Adjustment {
            workers: self.workers.as_mut().map(workers),
            batch: self.batch.as_mut().map(|law| law.on_tick(now, activity)),
        }
    }

    pub(super) fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        if let Some(law) = &self.workers {
            law.readings(visit);
        }
        if let Some(law) = &self.batch {
            law.readings(visit);
        }
        if let Some(law) = &self.quality {
            law.readings(visit);
        }
        if let Some(law) = &self.termination {
            law.readings(visit);
        }
    }
}
