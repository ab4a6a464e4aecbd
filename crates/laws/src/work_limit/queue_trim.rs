//! Queue trim: feedback that shrinks the queue's bound while answers are late, and widens it while
//! places stay free.

/// The share of the queue is looked at after so many answers, …
const TRIM_EVERY: u32 = 100;
/// … and shrinks if more of them were late than this share of those that may be.
const TRIM_LATE: f64 = 0.3;
const TRIM_DOWN: f64 = 0.85;
const TRIM_UP: f64 = 0.02;
/// It grows by this factor if a place was free while somebody was rejected.
const TRIM_FREE: f64 = 1.1;
const TRIM_MIN: f64 = 0.1;

/// How much of the queue's bound is left.
#[derive(Clone, Debug)]
pub(super) struct QueueTrim {
    /// From 0.1 to 1.
    share: f64,
    answers: u32,
    late: u32,
    rejected: bool,
}

impl Default for QueueTrim {
    fn default() -> Self {
        Self { share: 1.0, answers: 0, late: 0, rejected: false }
    }
}

impl QueueTrim {
    /// The share of the queue's bound that is left.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// An event was rejected.
    pub(super) fn on_rejection(&mut self) {
        self.rejected = true;
    }

    /// An answer that came through the queue was late or not, where this share may be.
    pub(super) fn on_answer(&mut self, is_late: bool, may_be_late: f64) {
        self.answers += 1;
        self.late += u32::from(is_late);
        if self.answers >= TRIM_EVERY {
            let share = f64::from(self.late) / f64::from(self.answers);
            let may = TRIM_LATE * may_be_late;
            self.share = if share > may { TRIM_DOWN * self.share } else { self.share + TRIM_UP };
            self.share = self.share.clamp(TRIM_MIN, 1.0);
            (self.answers, self.late) = (0, 0);
        }
    }

    /// A place is free, and nobody waits. `is_full` says whether the upstream is known to be
    /// saturated.
    pub(super) fn on_free_place(&mut self, is_full: bool) {
        if std::mem::take(&mut self.rejected) && is_full {
            self.share = (TRIM_FREE * self.share).min(1.0);
        }
    }
}
