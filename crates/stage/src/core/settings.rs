//! The settings made by slow laws, which workers read without the stage's lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tamarisk_control::{ClassId, Ratio, Timestamp};

use crate::queue::EventMetadata;

/// Each is a word of its own: they need not agree with one another.
pub(crate) struct SharedSettings {
    /// The bits of a ratio.
    quality: AtomicU64,
    /// How long an event of each class may run, in nanoseconds; `u64::MAX` if only
    /// its deadline ends it.
    limits: Box<[AtomicU64]>,
    /// Of each class, whatever the quality of the stage is: the bits of a ratio.
    least_quality: Box<[AtomicU64]>,
}

impl SharedSettings {
    pub(crate) fn new(least_quality: Vec<Ratio>) -> Self {
        let unlimited = || AtomicU64::new(u64::MAX);
        Self {
            quality: AtomicU64::new(bits(Ratio::ONE)),
            limits: std::iter::repeat_with(unlimited).take(least_quality.len()).collect(),
            least_quality: least_quality.iter().map(|&least| AtomicU64::new(bits(least))).collect(),
        }
    }

    pub(crate) fn quality(&self) -> Ratio {
        ratio(&self.quality)
    }

    pub(crate) fn quality_of(&self, class: ClassId) -> Ratio {
        let (quality, least) = (self.quality(), ratio(&self.least_quality[class.index()]));
        if quality < least { least } else { quality }
    }

    pub(crate) fn set_quality(&self, quality: Ratio) {
        self.quality.store(bits(quality), Ordering::Relaxed);
    }

    pub(crate) fn limit(&self, class: ClassId) -> Option<Duration> {
        let nanos = self.limits[class.index()].load(Ordering::Relaxed);
        (nanos != u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    /// As if no slow law had ever ruled.
    pub(crate) fn reset(&self) {
        self.set_quality(Ratio::ONE);
        for index in 0..self.limits.len() {
            self.set_limit(ClassId::new(index), None);
        }
    }

    /// As if no slow law had ever ruled, and with the least qualities of `other`, which has the
    /// same classes.
    pub(crate) fn follow(&self, other: &Self) {
        for (own, others) in self.least_quality.iter().zip(&other.least_quality) {
            own.store(others.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.reset();
    }

    pub(crate) fn set_limit(&self, class: ClassId, limit: Option<Duration>) {
        let nanos = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        self.limits[class.index()].store(nanos.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When an event that starts at `now` is to end: at its deadline, or when it
    /// has run for as long as its class may. [`Timestamp::MAX`] if neither is set.
    #[inline]
    pub(crate) fn end(&self, meta: &EventMetadata, now: Timestamp) -> Timestamp {
        let limit = self.limits[meta.class.index()].load(Ordering::Relaxed);
        meta.deadline.min(Timestamp::from_nanos(now.as_nanos().saturating_add(limit)))
    }
}

fn bits(ratio: Ratio) -> u64 {
    ratio.get().to_bits()
}

fn ratio(bits: &AtomicU64) -> Ratio {
    Ratio::saturating(f64::from_bits(bits.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_at_its_deadline_or_at_its_limit_whichever_comes_first() {
        let settings = SharedSettings::new(vec![Ratio::ONE]);
        let (class, now) = (ClassId::DEFAULT, Timestamp::from_nanos(100));
        let meta = |deadline| {
            let (requested, entered) = (now, now);
            EventMetadata { requested, entered, deadline, flow: 0, kind: 0, cost: 1, class }
        };
        let due = Timestamp::from_nanos(500);
        assert_eq!(settings.end(&meta(Timestamp::MAX), now), Timestamp::MAX);
        settings.set_limit(class, Some(Duration::from_nanos(300)));
        assert_eq!(settings.end(&meta(Timestamp::MAX), now), Timestamp::from_nanos(400));
        assert_eq!(settings.end(&meta(due), now), Timestamp::from_nanos(400));
        settings.set_limit(class, None);
        assert_eq!(settings.end(&meta(due), now), due);
    }
}
