//! Requests whose clients have left while the upstream works on them.
//!
//! Most upstreams go on with abandoned requests. So the place is free when the
//! upstream is, and not when the client is gone. The upstream is not told: many close the
//! connection at once and do the work all the same, so that the proxy could no longer tell how
//! much they have to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many there may be in a process. Each has a connection, a place and a small task.
const ABANDONED_MAX: usize = 4096;

/// The longest that an upstream is waited for. It is the usual time for an answer.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// How many there are; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

/// One that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Abandoned(Count);

impl Count {
    /// One more, unless there are too many.
    pub(crate) fn add(&self) -> Option<Abandoned> {
        let counted = Abandoned(self.clone());
        (self.0.fetch_add(1, Ordering::Relaxed) < ABANDONED_MAX).then_some(counted)
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Self(Count(count)) = self;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_bounded_and_counted_back() {
        let count = Count::default();
        let all: Vec<_> = (0..ABANDONED_MAX).map(|_| count.add().expect("there is room")).collect();
        assert!(count.add().is_none() && count.add().is_none());
        drop(all);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
    }
}
