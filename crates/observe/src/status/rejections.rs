//! The latest rejected requests (`/rejections`).

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::RequestId;

/// Enough to see a pattern in; a few kilobytes.
const KEPT: usize = 100;

/// The last hundred rejections, for the status page and `/rejections`. Clones share them.
///
/// Whoever rejects a request [pushes](Self::push) it, from any thread: that takes a lock for the
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
pub struct Rejections(Arc<Mutex<VecDeque<Rejection>>>);

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
        Self(Arc::new(Mutex::new(VecDeque::with_capacity(KEPT))))
    }
}

impl Rejections {
    /// Keeps `rejection`, and forgets the oldest if there are a hundred already.
    pub fn push(&self, rejection: Rejection) {
        let mut kept = self.0.lock();
        let oldest = if kept.len() == KEPT { kept.pop_front() } else { None };
        kept.push_back(rejection);
        drop(kept);
        // Without the lock: it may hold the last handle to a name.
        drop(oldest);
    }

    /// Those that are kept, the latest first.
    pub fn latest(&self) -> Vec<Rejection> {
        self.0.lock().iter().rev().cloned().collect()
    }
}

impl fmt::Debug for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().iter()).finish()
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
    fn many_threads_may_push_at_once() {
        let rejections = Rejections::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| rejections.push(rejection("x"))));
            }
        });
        assert_eq!(rejections.latest().len(), 100);
        assert_eq!(rejections.0.lock().capacity(), KEPT, "it has not grown");
    }
}
