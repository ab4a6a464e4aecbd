//! What a stage knows of the lack of workers.

use std::time::Duration;

use tamarisk_control::Timestamp;

/// An event that waits beside an idle worker for longer than this waits for what runs the workers, a
/// processor most of the time, which more workers would not give it. A worker is woken within
/// microseconds; some milliseconds are what others of the machine take from it.
const WAKING_MAX: Duration = Duration::from_millis(5);

/// For so long none is asked for after one could not be started: the system has no thread left, and
/// asking costs a system call.
const PUT_OFF: Duration = Duration::from_secs(1);

/// What is known of the lack of workers.
pub(super) struct Shortage {
    /// Since when events have waited beside idle workers.
    pub(super) waking_since: Option<Timestamp>,
    pub(super) none_before: Timestamp,
    /// Of each class, what runs and what is about to. Kept for its memory.
    pub(super) running_soon: Box<[u32]>,
    pub(super) none_queued: Box<[u32]>,
}

impl Shortage {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            waking_since: None,
            none_before: Timestamp::ZERO,
            running_soon: vec![0; classes].into(),
            none_queued: vec![0; classes].into(),
        }
    }

    /// A worker could not be started.
    pub(super) fn put_off(&mut self, now: Timestamp) {
        self.none_before = now + PUT_OFF;
    }

    /// Whether workers that are idle come too late for the events that wait.
    pub(super) fn is_slow(&mut self, now: Timestamp) -> bool {
        now.since(*self.waking_since.get_or_insert(now)) > WAKING_MAX
    }
}
