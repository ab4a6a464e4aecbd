//! Ending a stage without losing track of anything.

use std::time::Duration;

use crate::core::{Core, Item};

/// After a drain's time is up, running events that were told to end get this
/// long to reach an await or a checkpoint.
const GRACE: Duration = Duration::from_millis(500);

/// What a drain finished and what it cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// The stage.
    pub stage: String,
    /// Events that ended by themselves while it drained.
    pub finished: u64,
    /// Events cut from the queue.
    pub dropped: u64,
    /// Events ended while they ran.
    pub terminated: u64,
    /// Events that still ran when it closed: they could not be ended.
    pub left: u64,
}

impl DrainReport {
    /// Whether every event came to its own end.
    pub fn is_clean(&self) -> bool {
        self.dropped + self.terminated + self.left == 0
    }
}

/// Stops admitting, waits for what is inside, and after `timeout` cuts the rest:
/// what is queued is dropped, what runs is told to end by `terminate`.
pub(crate) async fn drain<T: Item>(
    core: &Core<T>,
    timeout: Duration,
    terminate: impl FnOnce(),
) -> DrainReport {
    core.begin_drain();
    let before = core.observe().total();
    let mut cut = 0;
    let mut terminated_before = before.terminated;
    if tokio::time::timeout(timeout, core.emptied()).await.is_err() {
        terminated_before = core.observe().total().terminated;
        cut = core.close() as u64;
        terminate();
        // An error is no surprise here: whoever did not end in time is reported as left.
        let _ = tokio::time::timeout(GRACE, core.emptied()).await;
    }
    core.close();
    let after = core.observe().total();
    let terminated = after.terminated - terminated_before;
    DrainReport {
        stage: core.name.clone(),
        finished: before.inside() - cut - terminated - after.running,
        dropped: cut,
        terminated,
        left: after.running,
    }
}
