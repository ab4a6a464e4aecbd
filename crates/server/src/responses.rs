//! Responses counted by status code.
//!
//! A web server answers from memory in a few microseconds on every core at once: one counter that
//! all cores write would be passed from cache to cache. So there are several sets of counters, and
//! each thread writes its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use http::StatusCode;

/// The status codes that exist, 100 to 999.
const CODE_MIN: u16 = 100;
const CODES: usize = 900;

/// More threads than this share their counters: with 7 KB a set, all take less than half a
/// megabyte.
const SHARDS_MAX: usize = 64;

/// How many responses were sent, by status code. Clones share the counters.
#[derive(Clone)]
pub struct Responses(Arc<[Shard]>);

/// The counters of one thread, as a rule.
#[repr(align(128))]
struct Shard([AtomicU64; CODES]);

thread_local! {
    /// Which of the sets is this thread's.
    static SHARD: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}

impl Default for Responses {
    fn default() -> Self {
        // Two for each core: not only those threads that serve have a number.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let shards = (2 * cores).next_power_of_two().min(SHARDS_MAX);
        Self((0..shards).map(|_| Shard([const { AtomicU64::new(0) }; CODES])).collect())
    }
}

impl Responses {
    /// Counts a response with this status.
    #[inline]
    pub(crate) fn count(&self, status: StatusCode) {
        // A thread that ends has sent its responses.
        let Ok(thread) = SHARD.try_with(|shard| *shard) else { return };
        let Shard(counts) = &self.0[thread % self.0.len()];
        if let Some(count) = counts.get(usize::from(status.as_u16() - CODE_MIN)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a response that begins with this status line.
    #[inline]
    pub(crate) fn count_line(&self, line: &[u8]) {
        let code = line.get(b"HTTP/1.1 ".len()..b"HTTP/1.1 200".len());
        if let Some(Ok(status)) = code.map(StatusCode::from_bytes) {
            self.count(status);
        }
    }

    /// The codes that have been sent, in ascending order, and how often each.
    pub fn read(&self) -> Vec<(StatusCode, u64)> {
        let sum = |index: usize| -> u64 {
            self.0.iter().map(|Shard(counts)| counts[index].load(Ordering::Relaxed)).sum()
        };
        let codes = (0..CODES).map(|index| (index, sum(index))).filter(|(_, count)| *count > 0);
        codes
            .filter_map(|(index, count)| {
                Some((StatusCode::from_u16(CODE_MIN + index as u16).ok()?, count))
            })
            .collect()
    }
}

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Responses").field(&self.read()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_counted_alone_whatever_thread_counts_it() {
        let responses = Responses::default();
        assert_eq!(responses.read(), []);
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        responses.count(StatusCode::OK);
                    }
                    responses.clone().count(StatusCode::SERVICE_UNAVAILABLE);
                });
            }
        });
        let expected = [(StatusCode::OK, 10_000), (StatusCode::SERVICE_UNAVAILABLE, 10)];
        assert_eq!(responses.read(), expected);
    }

    #[test]
    fn the_first_and_the_last_code_have_a_counter() {
        let responses = Responses::default();
        let codes = [100, 999].map(|code| StatusCode::from_u16(code).unwrap());
        codes.iter().for_each(|code| responses.count(*code));
        assert_eq!(responses.read(), codes.map(|code| (code, 1)));
    }

    #[test]
    fn a_status_line_is_counted_by_its_code() {
        let responses = Responses::default();
        responses.count_line(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n");
        responses.count_line(b"HTTP/1.1 20");
        responses.count_line(b"");
        assert_eq!(responses.read(), [(StatusCode::NOT_FOUND, 1)]);
    }
}
