//! How many workers there should be, and are.

use crate::sync::{AtomicU64, Ordering};

/// Both numbers in one word, so that a change of one sees the current other.
pub(super) struct PoolSize(AtomicU64);

impl PoolSize {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(pack(0, 0)))
    }

    /// How many there should be.
    pub(super) fn wanted(&self) -> u32 {
        unpack(self.0.load(Ordering::Acquire)).0
    }

    /// From now on there should be `wanted`. Returns how many are to be started
    /// for that; they count already.
    pub(super) fn set_wanted(&self, wanted: u32) -> u32 {
        let (_, live) = self.change(|(_, live)| Some((wanted, live.max(wanted)))).unwrap_or((0, 0));
        wanted.saturating_sub(live)
    }

    /// Whether the worker that asks is one too many; if so, it counts no more.
    pub(super) fn try_retire(&self) -> bool {
        self.change(|(wanted, live)| (live > wanted).then(|| (wanted, live - 1))).is_some()
    }

    /// A worker counts no more that should be there; `true` if it was the last.
    pub(super) fn lose(&self) -> bool {
        let left = self.change(|(wanted, live)| Some((wanted, live.saturating_sub(1))));
        left.is_some_and(|(wanted, live)| wanted > 0 && live <= 1)
    }

    /// Whether there should be some, and none is. Who [loses](Self::lose) the last one afterwards
    /// sees what was written before this.
    pub(super) fn is_lost(&self) -> bool {
        self.change(Some).is_some_and(|(wanted, live)| wanted > 0 && live == 0)
    }

    /// Returns what was before.
    fn change(&self, change: impl Fn((u32, u32)) -> Option<(u32, u32)>) -> Option<(u32, u32)> {
        let changed = |word| change(unpack(word)).map(|(wanted, live)| pack(wanted, live));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed).ok().map(unpack)
    }
}

fn pack(wanted: u32, live: u32) -> u64 {
    (u64::from(wanted) << 32) | u64::from(live)
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(all(test, not(tamarisk_loom)))]
mod tests {
    use super::*;

    #[test]
    fn workers_are_started_for_what_is_missing_and_retire_for_what_is_too_much() {
        let size = PoolSize::new();
        assert_eq!(size.set_wanted(3), 3);
        assert_eq!(size.set_wanted(5), 2);
        assert_eq!(size.set_wanted(4), 0);
        assert!(size.try_retire());
        assert!(!size.try_retire());
        assert_eq!(size.wanted(), 4);
    }

    #[test]
    fn a_worker_wanted_again_before_it_retired_stays() {
        let size = PoolSize::new();
        assert_eq!((size.set_wanted(2), size.set_wanted(1), size.set_wanted(2)), (2, 0, 0));
        assert!(!size.try_retire());
    }

    #[test]
    fn the_last_worker_lost_is_told_unless_nobody_was_wanted() {
        let size = PoolSize::new();
        size.set_wanted(2);
        assert!(!size.lose());
        assert!(!size.is_lost());
        assert!(size.lose());
        assert!(size.is_lost());
        size.set_wanted(1);
        size.set_wanted(0);
        assert!(!size.lose());
    }
}

#[cfg(all(test, tamarisk_loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Two workers look whether they should retire while the pool is shrunk and
    /// grown again: afterwards there are as many as are wanted.
    #[test]
    fn resizing_never_loses_a_worker() {
        loom::model(|| {
            let size = Arc::new(PoolSize::new());
            size.set_wanted(2);
            size.set_wanted(1);
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let size = Arc::clone(&size);
                    thread::spawn(move || size.try_retire())
                })
                .collect();
            let started = size.set_wanted(2);
            let retired = workers.into_iter().filter_map(|worker| worker.join().ok());
            let left = 2 + started - retired.filter(|retired| *retired).count() as u32;
            assert_eq!(left, 2);
        });
    }
}
