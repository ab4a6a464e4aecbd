//! How long an upstream takes at least, by kind of request, for messages about targets that
//! cannot be kept.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tamarisk_control::ClassId;

/// Kinds whose time is kept. A proxy folds the paths of an application into a few dozen.
const KINDS_MAX: usize = 64;

/// One request in this many is measured, so that cores do not wait for each other.
const ONE_OF: u32 = 8;

/// No more is kept of a path.
const PATH_MAX: usize = 100;

/// Of one upstream; all cores share it.
#[derive(Debug, Default)]
pub(crate) struct KindTimes {
    requests: AtomicU32,
    kinds: Mutex<HashMap<u64, KindTime>>,
}

/// The shortest time that a kind of requests has taken upstream.
#[derive(Clone, Debug)]
pub struct KindTime {
    /// The method and the path of one of them, without the query.
    pub example: String,
    /// Its class at the upstream's gate.
    pub class: ClassId,
    /// From the gate to the head of the answer.
    pub least: Duration,
}

impl KindTimes {
    /// Whether the next request is to be looked at.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_OF)
    }

    /// A request that was looked at has been answered after so long upstream.
    pub(crate) fn answered(
        &self,
        kind: u64,
        class: ClassId,
        (method, path): (&Method, &str),
        took: Duration,
    ) {
        let mut kinds = self.kinds.lock();
        if let Some(known) = kinds.get_mut(&kind) {
            known.least = known.least.min(took);
        } else if kinds.len() < KINDS_MAX {
            let path = &path[..path.floor_char_boundary(PATH_MAX)];
            let example = format!("{method} {path}");
            kinds.insert(kind, KindTime { example, class, least: took });
        }
    }

    /// All that is kept.
    pub(crate) fn read(&self) -> Vec<KindTime> {
        self.kinds.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_of_each_kind_is_kept_and_kinds_are_bounded() {
        let times = KindTimes::default();
        let look = |kind, path: &str, ms| {
            let took = Duration::from_millis(ms);
            times.answered(kind, ClassId::DEFAULT, (&Method::GET, path), took);
        };
        look(1, "/reports/1", 800);
        look(1, "/reports/2", 700);
        look(1, "/reports/3", 900);
        let read = times.read();
        assert_eq!((read.len(), &*read[0].example), (1, "GET /reports/1"));
        assert_eq!(read[0].least, Duration::from_millis(700));
        for kind in 0..1000 {
            look(kind, &"é".repeat(100), 1);
        }
        let read = times.read();
        assert_eq!(read.len(), KINDS_MAX);
        assert!(read.iter().all(|time| time.example.len() <= "GET ".len() + PATH_MAX));
    }
}
