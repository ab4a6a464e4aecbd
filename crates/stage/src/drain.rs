//! Draining: a stage ends, and every event inside is accounted for.

use std::time::Duration;

use crate::core::{Core, Item};
use crate::observe::DrainReport;

/// After the timeout of a drain, running events that were asked to end get this
/// long to reach an await or a checkpoint.
const GRACE: Duration = Duration::from_millis(500);

/// Stops admitting, waits for what is inside, and after `timeout` cuts the rest:
/// what is queued is dropped, what runs is asked to end by `terminate`.
pub(crate) async fn drain<T: Item>(
    core: &Core<T>,
    timeout: Duration,
    terminate: impl FnOnce(),
) -> DrainReport {
    core.begin_drain();
    let before = core.observe().total();
    if tokio::time::timeout(timeout, core.emptied()).await.is_err() {
        core.close();
        terminate();
        // Events that did not end in time are reported as left.
        let _ = tokio::time::timeout(GRACE, core.emptied()).await;
    }
    core.close();
    let after = core.observe().total();
    DrainReport {
        stage: core.name.to_string(),
        finished: after.completed + after.failed - before.completed - before.failed,
        dropped: after.dropped - before.dropped,
        terminated: after.terminated - before.terminated,
        abandoned: after.abandoned - before.abandoned,
        left: after.in_service(),
    }
}
