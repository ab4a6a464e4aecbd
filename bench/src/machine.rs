//! Whether the machine kept up: how late a thread wakes that does next to nothing, and how long
//! threads waited for a processor.
//!
//! A run that measures response times says something of the proxy only where load generator and
//! upstream got the processor when they asked for it. Beside another build they do not.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the thread wakes: often enough for hundreds of samples in the shortest run, and
/// seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(5);

/// Later than this is late: a fifth of the shortest target of all situations (100 ms).
const LATE: Duration = Duration::from_millis(20);

/// The machine kept up if no greater share of wakes was late. If it delays one answer of twenty, half of
/// what a bar on the ninetieth percentile allows is gone.
const LATE_SHARE_MAX: f64 = 0.05;

/// The share of the time in which threads may wait for a processor. All situations at once make it
/// 0.16 at most on two idle cores; beside a build it is above 0.8.
const STALLED_SHARE_MAX: f64 = 0.4;

/// Watches the machine until it is asked how it did.
pub struct Watch {
    begun: Instant,
    stalled: Option<Duration>,
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
        Self { begun: Instant::now(), stalled: stalled(), ended, thread }
    }

    /// How it did since the start.
    pub fn stop(self) -> Timeliness {
        self.ended.store(true, Ordering::Relaxed);
        let (wakes, late) = self.thread.join().unwrap_or((1, 1));
        let stalled = self.stalled.zip(stalled());
        let stalled = stalled.map_or(0.0, |(before, now)| now.saturating_sub(before).as_secs_f64());
        Timeliness {
            late_share: f64::from(late) / f64::from(wakes.max(1)),
            stalled_share: stalled / self.begun.elapsed().as_secs_f64(),
        }
    }
}

/// How punctually threads ran.
#[derive(Clone, Copy, Debug)]
pub struct Timeliness {
    /// The share of wakes that came more than 20 ms late.
    pub late_share: f64,
    /// The share of the time in which a thread of the machine waited for a processor; 0 where the
    /// kernel does not count it.
    pub stalled_share: f64,
}

impl Timeliness {
    /// Whether what was measured meanwhile is sound.
    pub fn kept_up(self) -> bool {
        self.late_share <= LATE_SHARE_MAX && self.stalled_share <= STALLED_SHARE_MAX
    }
}

/// The time since the machine's start in which at least one thread waited for a processor
/// (pressure stall information of Linux).
fn stalled() -> Option<Duration> {
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    let total = some.split_once("total=")?.1;
    Some(Duration::from_micros(total.trim().parse().ok()?))
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
