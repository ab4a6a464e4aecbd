//! Checkpoints of SQLite: a thread moves what has been committed from the write-ahead log to the
//! database. The disk takes milliseconds for it, for which writers would wait if one of them did it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

/// So many commits make a checkpoint worth its writes: some 15 MiB of log.
const COMMITS: u32 = 1000;
/// From this length on a writer makes a checkpoint itself, so that the log stays bounded while the
/// thread is held up, and where few commits are large. 64 MiB.
pub(super) const LOG_PAGES_MAX: i32 = 16 * 1024;

/// The thread, which ends with this.
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    commits: u32,
    is_ended: bool,
}

/// Told of each commit.
#[derive(Clone)]
pub(super) struct Committed(Arc<Shared>);

impl Checkpoints {
    pub(super) fn new() -> Self {
        Self { shared: Arc::default(), thread: Mutex::default() }
    }

    /// For a connection to the database at `path`: the first one starts the thread.
    pub(super) fn of(&self, path: &Path) -> Committed {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (shared, path) = (Arc::clone(&self.shared), path.to_owned());
            let named = thread::Builder::new().name("checkpoints".into());
            // Without the thread, writers make the checkpoints.
            *thread = named.spawn(move || shared.run(path)).ok();
        }
        Committed(Arc::clone(&self.shared))
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.state.lock().is_ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.get_mut().take() {
            // What it did last is of no use to anyone.
            let _ = thread.join();
        }
    }
}

impl Committed {
    pub(super) fn note(&self) {
        let mut state = self.0.state.lock();
        state.commits += 1;
        if state.commits == COMMITS {
            self.0.changed.notify_one();
        }
    }
}

impl Shared {
    fn run(&self, path: PathBuf) {
        while self.wait() {
            // What fails now is done by the next one, or by writers.
            let opened = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE);
            let _ = opened.and_then(|connection| {
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            });
        }
    }

    /// Waits until there is something to do; `false` at the end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.commits < COMMITS && !state.is_ended {
            self.changed.wait(&mut state);
        }
        state.commits = 0;
        !state.is_ended
    }
}
