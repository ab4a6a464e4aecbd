//! Answers callers of blocking handlers when their events are overdue: a thread cannot be ended, but
//! its caller need not wait for it. The thread is busy until the handler returns.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tamarisk_control::Timestamp;

use super::overdue::Attendance;
use super::{Worker, WorkerRegistry};
use crate::clock::Clock;

/// Watches the workers of a stage, until it is closed and none has an event that may become overdue.
pub(crate) async fn watch(registry: Arc<WorkerRegistry>, clock: Clock) {
    let schedule = &registry.schedule;
    loop {
        // What begins from here on wakes the watch, unless it is seen below.
        schedule.looks_at.store(u64::MAX, Ordering::SeqCst);
        let now = clock.now();
        let workers = registry.workers().into_iter();
        let next = workers.filter_map(|worker| tell_overdue(&worker, now)).min();
        let Some(next) = next else {
            if schedule.is_closed.load(Ordering::SeqCst) {
                return;
            }
            schedule.changed.notified().await;
            continue;
        };
        schedule.looks_at.store(next.as_nanos(), Ordering::SeqCst);
        // Either is a reason to look.
        let _ = tokio::time::timeout(next.since(now), schedule.changed.notified()).await;
    }
}

/// Tells the caller, if the event of `worker` is overdue; else returns when it will be.
fn tell_overdue(worker: &Worker, now: Timestamp) -> Option<Timestamp> {
    let mut state = worker.attended.0.lock();
    let Attendance::Waits { sequence, caller } = &*state else { return None };
    let end = worker.end();
    if end > now {
        return Some(end);
    }
    worker.slot.request(*sequence);
    let told = caller.end_overdue(worker, *sequence);
    *state = if told { Attendance::Told } else { Attendance::Nobody };
    None
}
