//! Idle connections to one upstream, a pool for each core.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::upstream::connection::UpstreamConnection;

/// Idle connections kept to one upstream by one core. More than this many were
/// in use at once, which the admission law does not allow for long.
const IDLE_MAX: usize = 256;

/// How many sweeps an idle connection survives.
const SWEEPS: u64 = 6;

/// One core's idle connections to an upstream. The last one back is the first
/// one out: its caches are warm, and those too many grow old and go.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<VecDeque<Idle>>,
    sweeps: AtomicU64,
}

struct Idle {
    connection: Box<UpstreamConnection>,
    since: u64,
}

impl Pool {
    /// An idle connection that the upstream is not known to have closed.
    pub(crate) fn take(&self) -> Option<Box<UpstreamConnection>> {
        loop {
            let connection = self.idle.lock().pop_back()?.connection;
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection that can take another request.
    pub(crate) fn put(&self, connection: Box<UpstreamConnection>) {
        if !connection.is_idle() {
            return;
        }
        let since = self.sweeps.load(Ordering::Relaxed);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push_back(Idle { connection, since });
        }
    }

    /// Drops connections that have been idle for six sweeps, and those that the
    /// upstream has closed.
    pub(crate) fn sweep(&self) {
        let now = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        let mut idle = self.idle.lock();
        idle.retain(|idle| now - idle.since < SWEEPS && idle.connection.is_idle());
    }
}
