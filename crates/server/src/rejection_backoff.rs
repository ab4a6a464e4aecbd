//! Clients that are rejected and ask again at once must not take the processor from
//! the work that was let in.
//!
//! Rejecting costs half of what proxying costs, so a few hundred clients that ignore
//! `Retry-After` can keep a core busy with rejections, and everything that was admitted
//! waits behind them: it looks slow to the law, which then rejects even more. So when a
//! core has no room and rejections take a good part of it, connections that have just been
//! rejected are read again only after a pause. It is doubled until rejections take little,
//! and is never longer than the `Retry-After` that their clients were told. With room on
//! the core there is no pause at all.
//!
//! Over HTTP/1 rejections themselves are never delayed. On a connection of HTTP/2 there are
//! other streams to be read: there the rejection waits, and keeps its stream open, of which
//! a client may have a hundred.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::responses::Responses;

/// How often the load of a core is looked at: often against the second in which
/// a law is expected to react, seldom against the scheduler's 4 ms.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// A core that runs, or waits for a processor, for more than this share of its
/// time has no room; below the lower mark it has it again.
const FULL: f64 = 0.8;
const ROOM: f64 = 0.6;

/// The share of a core that rejections may take when it has no room, and the one
/// below which the pause is too long: even that is some ten thousand a second,
/// so that there is always someone to be let in.
const REJECTING_MAX: f64 = 0.1;
const REJECTING_MIN: f64 = 0.05;

/// The first pause, below which there is none, and the longest one: the least
/// `Retry-After` there is.
const PAUSE_MIN_MILLIS: u32 = 4;
const PAUSE_MAX_MILLIS: u32 = 1000;

/// What the connections of a core know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct RejectionBackoff(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    pause_millis: AtomicU32,
    answers: AtomicU32,
    rejections: AtomicU32,
    parting: AtomicBool,
    responses: Responses,
}

impl RejectionBackoff {
    /// Of connections whose answers are counted among these.
    pub(crate) fn new(responses: Responses) -> Self {
        Self(Arc::new(Counts { responses, ..Counts::default() }))
    }

    /// Where answers are counted by status.
    #[inline]
    pub(crate) fn responses(&self) -> &Responses {
        &self.0.responses
    }

    /// Counts an answer; if it is a rejection, the pause for its connection.
    #[inline]
    pub(crate) fn answered(&self, is_rejection: bool) -> Duration {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        if !is_rejection {
            return Duration::ZERO;
        }
        self.0.rejections.fetch_add(1, Ordering::Relaxed);
        Duration::from_millis(u64::from(self.0.pause_millis.load(Ordering::Relaxed)))
    }

    /// From now on every answer is to be the last one of its connection.
    pub(crate) fn part(&self) {
        self.0.parting.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_parting(&self) -> bool {
        self.0.parting.load(Ordering::Relaxed)
    }

    /// With this pause after each rejection.
    #[cfg(test)]
    pub(crate) fn with_pause(pause: Duration) -> Self {
        let pause_millis = AtomicU32::new(pause.as_millis() as u32);
        Self(Arc::new(Counts { pause_millis, ..Counts::default() }))
    }

    /// The share of answers since the last call that were rejections.
    pub(crate) fn take_rejected(&self) -> f64 {
        let answers = self.0.answers.swap(0, Ordering::Relaxed);
        let rejections = self.0.rejections.swap(0, Ordering::Relaxed);
        f64::from(rejections) / f64::from(answers.max(1))
    }
}

/// How a core spent its time in the last interval, as shares of it.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Running, or waiting for a processor.
    busy: f64,
    /// Running to reject.
    rejecting: f64,
}

fn next_pause(pause: u32, load: Load) -> u32 {
    if load.busy > FULL && load.rejecting > REJECTING_MAX {
        (2 * pause).clamp(PAUSE_MIN_MILLIS, PAUSE_MAX_MILLIS)
    } else if load.busy < ROOM || load.rejecting < REJECTING_MIN {
        let shorter = pause * 3 / 4;
        if shorter < PAUSE_MIN_MILLIS { 0 } else { shorter }
    } else {
        pause
    }
}

/// Looks at the load of the thread that it is called on.
pub(crate) struct BackoffController {
    backoff: RejectionBackoff,
    schedstat: Option<File>,
    thread: ThreadId,
    seen: Option<(Instant, Spent)>,
}

/// A thread's time so far, as the scheduler counts it.
#[derive(Clone, Copy, Debug)]
struct Spent {
    run_nanos: u64,
    waited_nanos: u64,
}

impl BackoffController {
    /// For the current thread. Without the scheduler's accounts there is no pause.
    pub(crate) fn new(backoff: RejectionBackoff) -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        Self { backoff, schedstat, thread: thread::current().id(), seen: None }
    }

    /// To be called every [`INTERVAL`]. On another thread it does nothing: a
    /// runtime that moves its tasks has no core that is theirs.
    pub(crate) fn tick(&mut self) {
        let Some(spent) = self.spent() else { return };
        let now = Instant::now();
        let rejected = self.backoff.take_rejected();
        if let Some((then, before)) = self.seen.replace((now, spent)) {
            let passed = now.duration_since(then).as_nanos().max(1) as f64;
            let run = spent.run_nanos.saturating_sub(before.run_nanos) as f64;
            let waited = spent.waited_nanos.saturating_sub(before.waited_nanos) as f64;
            let load = Load { busy: (run + waited) / passed, rejecting: rejected * run / passed };
            let pause = &self.backoff.0.pause_millis;
            pause.store(next_pause(pause.load(Ordering::Relaxed), load), Ordering::Relaxed);
        }
    }

    fn spent(&self) -> Option<Spent> {
        if thread::current().id() != self.thread {
            return None;
        }
        let mut text = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse);
        Some(Spent { run_nanos: numbers.next()?.ok()?, waited_nanos: numbers.next()?.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(loads: &[(f64, f64)]) -> Vec<u32> {
        let mut pause = 0;
        let next = |&(busy, rejecting): &(f64, f64)| {
            pause = next_pause(pause, Load { busy, rejecting });
            pause
        };
        loads.iter().map(next).collect()
    }

    #[test]
    fn the_pause_doubles_until_rejections_take_little() {
        let loads = [(0.5, 0.4), (0.9, 0.4), (1.0, 0.2), (1.0, 0.11), (1.0, 0.1), (1.0, 0.06)];
        assert_eq!(pauses(&loads), [0, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn the_pause_ends_when_there_is_room_or_little_to_reject() {
        let rising = [(0.9, 0.4); 3];
        assert_eq!(pauses(&[&rising[..], &[(0.5, 0.4); 5]].concat())[2..], [16, 12, 9, 6, 4, 0]);
        assert_eq!(pauses(&[&rising[..], &[(1.0, 0.01); 5]].concat())[2..], [16, 12, 9, 6, 4, 0]);
    }

    #[test]
    fn the_pause_is_never_longer_than_the_least_retry_after() {
        assert_eq!(pauses(&[(1.0, 1.0); 20]).last(), Some(&1000));
    }

    #[test]
    fn a_thread_that_is_busy_rejecting_is_seen_to_be() {
        let backoff = RejectionBackoff::default();
        let mut maker = BackoffController::new(backoff.clone());
        maker.tick();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            assert_eq!(backoff.answered(true), Duration::ZERO);
        }
        maker.tick();
        assert_eq!(backoff.answered(true), Duration::from_millis(4));
        assert_eq!(backoff.answered(false), Duration::ZERO);
    }
}
