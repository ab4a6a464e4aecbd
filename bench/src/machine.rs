//! Whether the machine kept up: how late a thread wakes that does next to nothing.
//!
//! A run that measures response times says something of the proxy only where load generator and
//! upstream got the processor when they asked for it. Beside another build they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the thread wakes: often enough for hundreds of samples in the shortest run, and
/// seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(5);

/// Later than this is late: a fifth of the shortest target of all situations (100 ms).
const LATE: Duration = Duration::from_millis(20);

/// The share of late wakes up to which the machine kept up: what makes one answer of twenty late
/// misses a bar on the ninetieth percentile by itself.
const LATE_SHARE_MAX: f64 = 0.05;

/// Watches the machine until it is asked how it did.
pub struct Watch {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<(u32, u32)>,
}

impl Watch {
    /// Begins now.
    pub fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let ended = Arc::clone(&ended);
            move || count_late(&ended)
        });
        Self { ended, thread }
    }

    /// How it did since the start.
    pub fn stop(self) -> Timeliness {
        self.ended.store(true, Ordering::Relaxed);
        let (wakes, late) = self.thread.join().unwrap_or((1, 1));
        Timeliness { late_share: f64::from(late) / f64::from(wakes.max(1)) }
    }
}

/// How punctually threads ran.
#[derive(Clone, Copy, Debug)]
pub struct Timeliness {
    /// The share of wakes that came more than 20 ms late.
    pub late_share: f64,
}

impl Timeliness {
    /// Whether what was measured meanwhile is sound.
    pub fn kept_up(self) -> bool {
        self.late_share <= LATE_SHARE_MAX
    }
}

/// Wakes, and those that were late.
fn count_late(ended: &AtomicBool) -> (u32, u32) {
    let (mut wakes, mut late) = (0, 0);
    while !ended.load(Ordering::Relaxed) {
        let due = Instant::now() + INTERVAL;
        thread::sleep(INTERVAL);
        wakes += 1;
        late += u32::from(due.elapsed() > LATE);
    }
    (wakes, late)
}
