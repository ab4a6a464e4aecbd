//! A tick of the slow laws, and the changes that it makes to a stage.

use std::ops::RangeInclusive;

use tamarisk_control::{Activity, BatchSize, ClassId, Concurrency, Timestamp, WorkersLaw};
use tamarisk_laws::Ruling;

use super::settings::SharedSettings;

/// A change of the number of workers or of the batching factor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerChange {
    pub(crate) workers: Option<Concurrency>,
    pub(crate) batch: Option<BatchSize>,
    /// The [generation](super::Core::generation) of the laws that want it.
    pub(crate) generation: u64,
}

/// The fewest and the most workers that `law` may set.
pub(crate) fn bounds(law: &dyn WorkersLaw) -> RangeInclusive<u32> {
    let range = law.range();
    range.start().get()..=range.end().get()
}

/// A tick of the slow laws. What did not change is left alone, for an operator may
/// have set it otherwise.
pub(super) fn tick_slow_laws(
    ruling: &mut Ruling,
    now: Timestamp,
    activity: &Activity<'_>,
    settings: &SharedSettings,
) -> WorkerChange {
    let (Some(before), Some(wanted)) = (ruling.knobs(), ruling.govern(now, activity)) else {
        return WorkerChange::default();
    };
    for index in 0..activity.backlog.queued.len() {
        let class = ClassId::new(index);
        settings.set_limit(class, ruling.limit(class));
    }
    settings.set_quality(wanted.quality);
    WorkerChange {
        workers: (wanted.workers != before.workers).then_some(wanted.workers),
        batch: (wanted.batch != before.batch).then_some(wanted.batch),
        generation: 0,
    }
}
