//! What rules a simulated stage, and what it begins with.

use tamarisk_control::{AdmissionLaw, BatchSize, Classes, Concurrency, Ratio};
use tamarisk_laws::catalogue::{InvalidKnob, Laws};
use tamarisk_laws::{Knobs, Open, Ruling, SlowLaws};

/// Laws, and what the stage begins with under them.
pub(super) struct Ruled {
    pub(super) ruling: Ruling,
    pub(super) knobs: Knobs,
    /// Whether running events are ended early.
    pub(super) terminates: bool,
}

impl Ruled {
    /// `law` alone, at a stage of so many workers.
    pub(super) fn by(law: Box<dyn AdmissionLaw>, workers: Concurrency) -> Self {
        let knobs = Knobs { workers, batch: BatchSize::ONE, quality: Ratio::ONE };
        Self { ruling: Ruling::Admission(law), knobs, terminates: false }
    }

    /// All of `laws`. Without an admission law everybody may enter.
    ///
    /// # Errors
    /// [`InvalidKnob`] if constants do not go together.
    pub(super) fn by_all(
        laws: &Laws,
        classes: &Classes,
        workers: Concurrency,
    ) -> Result<Self, InvalidKnob> {
        let admission = laws.make_admission(classes, || Box::new(Open))?;
        let slow = SlowLaws::named(laws, classes)?;
        let terminates = slow.termination.is_some();
        let knobs = Knobs {
            workers: slow.workers.as_ref().map_or(workers, |law| *law.range().start()),
            batch: slow.batch.as_ref().map_or(BatchSize::ONE, |law| law.most()),
            quality: Ratio::ONE,
        };
        Ok(Self { ruling: slow.with(admission, classes, knobs), knobs, terminates })
    }
}
