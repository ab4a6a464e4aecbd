//! What a connection says of itself in the table of connections: since when its client is waited for,
//! and what ends it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_http_gate::GivesWay;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub(crate) type ConnectionTable = tamarisk_http_gate::ConnectionTable<Entry>;
pub(crate) type ConnectionPermit = tamarisk_http_gate::ConnectionPermit<Entry>;

/// One connection.
#[derive(Debug)]
pub(crate) struct Entry {
    began: Instant,
    /// Since when its client is waited for, in nanoseconds after `began`; [`NOT_WAITING`] while it is
    /// not.
    waits_since: AtomicU64,
    /// What ends it while it has a task.
    task: Mutex<Option<AbortHandle>>,
}

const NOT_WAITING: u64 = u64::MAX;

impl Entry {
    /// Of a connection that begins, and has no task.
    pub(crate) fn new() -> Arc<Self> {
        let (waits_since, task) = (AtomicU64::new(NOT_WAITING), Mutex::default());
        Arc::new(Self { began: Instant::now(), waits_since, task })
    }

    /// The client is waited for, as if it had been ever since then.
    pub(crate) fn waits_since(&self, since: Instant) {
        let since = since.saturating_duration_since(self.began).as_nanos();
        let since = u64::try_from(since).unwrap_or(NOT_WAITING - 1);
        self.waits_since.store(since, Relaxed);
    }

    /// The same from now on, if not before.
    pub(crate) fn waits(&self) {
        if self.waits_since.load(Relaxed) == NOT_WAITING {
            self.waits_since(Instant::now());
        }
    }

    /// The client is not waited for.
    pub(crate) fn moves(&self) {
        self.waits_since.store(NOT_WAITING, Relaxed);
    }

    /// The task that runs it has been started.
    pub(crate) fn runs(&self, task: AbortHandle) {
        *self.task.lock() = Some(task);
    }
}

impl GivesWay for Entry {
    fn waits_since(&self) -> Option<Instant> {
        let since = Some(self.waits_since.load(Relaxed)).filter(|since| *since != NOT_WAITING)?;
        let is_running = self.task.lock().as_ref().is_some_and(|task| !task.is_finished());
        is_running.then(|| self.began + Duration::from_nanos(since))
    }

    fn end(&self) {
        let task = self.task.lock().take();
        // Its future is dropped by the runtime that it runs on.
        task.iter().for_each(AbortHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_gives_way_while_it_waits_for_its_client_and_has_a_task() {
        let entry = Entry::new();
        let since = || GivesWay::waits_since(&*entry);
        entry.waits();
        assert_eq!(since(), None, "it has no task");
        let task = tokio::spawn(pending::<()>());
        entry.runs(task.abort_handle());
        let began = Instant::now();
        advance(Duration::from_secs(3)).await;
        entry.waits();
        assert_eq!(since(), Some(began));
        // Its bytes have not won back all.
        entry.waits_since(began + Duration::from_secs(2));
        assert_eq!(since(), Some(began + Duration::from_secs(2)));
        entry.moves();
        assert_eq!(since(), None, "it waits for the service");
        entry.waits();
        entry.end();
        assert_eq!(since(), None, "it is ending");
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
