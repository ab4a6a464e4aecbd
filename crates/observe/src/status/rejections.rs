//! The latest rejected requests (`/rejections`).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::RequestId;

/// Enough to see a pattern in; a few kilobytes.
const KEPT: usize = 100;

/// The last hundred rejections, for the status page and `/rejections`, and how many are of clients
/// that left no time for an answer. Clones share them.
///
/// Code that rejects a request [pushes](Self::push) it, from any thread: that takes a lock for the
/// time of one copy and allocates nothing. Show them by
/// [`Board::rejections`](super::Board::rejections).
///
/// # Examples
/// ```
/// use std::time::SystemTime;
/// use tamarisk_observe::RequestId;
/// use tamarisk_observe::status::{Board, Rejection, Rejections};
///
/// let rejections = Rejections::default();
/// let board = Board::new().rejections(&rejections);
/// rejections.push(Rejection {
///     at: SystemTime::now(),
///     client: [192, 0, 2, 7].into(),
///     route: "/search".into(),
///     stage: "shop".into(),
///     class: "default".into(),
///     reason: "queue_full",
///     id: RequestId::new("0123456789abcdef0000000000000001"),
/// });
/// ```
#[derive(Clone)]
pub struct Rejections(Arc<Mutex<Kept>>);

struct Kept {
    /// The latest last.
    latest: VecDeque<Rejection>,
    /// By stage, those that are only counted.
    overdue: HashMap<Arc<str>, u64>,
}

/// A request that was rejected.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// When.
    pub at: SystemTime,
    /// Who sent it.
    pub client: IpAddr,
    /// The route that it took, as the configuration names it.
    pub route: Arc<str>,
    /// The stage that rejected it.
    pub stage: Arc<str>,
    /// Its class there.
    pub class: Arc<str>,
    /// The short name of the reason, such as
    /// [`Reason::as_str`](tamarisk_control::Reason::as_str) gives.
    pub reason: &'static str,
    /// Its id, as in the logs.
    pub id: RequestId,
}

impl Default for Rejections {
    fn default() -> Self {
        let latest = VecDeque::with_capacity(KEPT);
        Self(Arc::new(Mutex::new(Kept { latest, overdue: HashMap::new() })))
    }
}

impl Rejections {
    /// Keeps `rejection`, and forgets the oldest if there are a hundred already.
    pub fn push(&self, rejection: Rejection) {
        let mut kept = self.0.lock();
        let oldest = if kept.latest.len() == KEPT { kept.latest.pop_front() } else { None };
        kept.latest.push_back(rejection);
        drop(kept);
        // Without the lock: it may hold the last handle to a name.
        drop(oldest);
    }

    /// Counts a request that `stage` has rejected because its client left no time for an answer.
    /// That says nothing of the stage, and anybody can have it at any time: it is not kept beside
    /// the others, and no verdict counts it as rejected.
    pub fn count_overdue(&self, stage: &Arc<str>) {
        *self.0.lock().overdue.entry(Arc::clone(stage)).or_default() += 1;
    }

    /// How many of these there were at each stage so far.
    pub(super) fn all_overdue(&self) -> HashMap<Arc<str>, u64> {
        self.0.lock().overdue.clone()
    }

    /// How many of these there were at `stage` so far.
    pub(super) fn overdue(&self, stage: &str) -> u64 {
        self.0.lock().overdue.get(stage).copied().unwrap_or_default()
    }

    /// Those that are kept, the latest first.
    pub fn latest(&self) -> Vec<Rejection> {
        self.0.lock().latest.iter().rev().cloned().collect()
    }
}

impl fmt::Debug for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().latest.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn rejection(id: &str) -> Rejection {
        Rejection {
            at: SystemTime::UNIX_EPOCH,
            client: [127, 0, 0, 1].into(),
            route: "/".into(),
            stage: "app".into(),
            class: "default".into(),
            reason: "queue_full",
            id: RequestId::new(id),
        }
    }

    #[test]
    fn the_last_hundred_are_kept_the_latest_first() {
        let rejections = Rejections::default();
        for number in 0..250 {
            rejections.clone().push(rejection(&number.to_string()));
        }
        let kept = rejections.latest();
        assert_eq!(kept.len(), 100);
        assert_eq!((kept[0].id.as_str(), kept[99].id.as_str()), ("249", "150"));
    }

    #[test]
    fn those_of_clients_that_left_no_time_are_counted_by_stage_and_not_kept() {
        let rejections = Rejections::default();
        for stage in ["app", "app", "other"] {
            rejections.clone().count_overdue(&stage.into());
        }
        let count = ["app", "other", "third"].map(|stage| rejections.overdue(stage));
        assert_eq!((count, rejections.latest().len()), ([2, 1, 0], 0));
    }

    #[test]
    fn many_threads_may_push_at_once() {
        let rejections = Rejections::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| rejections.push(rejection("x"))));
            }
        });
        assert_eq!(rejections.latest().len(), 100);
        assert_eq!(rejections.0.lock().latest.capacity(), KEPT, "it has not grown");
    }
}
