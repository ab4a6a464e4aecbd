//! Idle connections, the oldest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// A connection that may be idle.
pub(super) trait MayBeIdle: Send + Sync {
    /// Closes it, if it is idle; whether it is.
    fn close_if_idle(&self) -> bool;
}

/// Connections that wait for a request, in the order in which they became idle.
#[derive(Default)]
pub(super) struct IdleConnections(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    last: u64,
    connections: BTreeMap<u64, Arc<dyn MayBeIdle>>,
}

impl IdleConnections {
    /// Adds one, as the latest; under which number.
    pub(super) fn add(&self, connection: Arc<dyn MayBeIdle>) -> u64 {
        let mut queue = self.0.lock();
        queue.last += 1;
        let number = queue.last;
        queue.connections.insert(number, connection);
        number
    }

    /// Removes one, if it is still there.
    pub(super) fn remove(&self, number: u64) {
        let removed = self.0.lock().connections.remove(&number);
        drop(removed);
    }

    /// Closes the connection that has been idle for longest; `false` if there is none.
    pub(super) fn close_oldest(&self) -> bool {
        loop {
            let oldest = self.0.lock().connections.pop_first();
            let Some((_, connection)) = oldest else { return false };
            // One whose next request has come meanwhile stays.
            if connection.close_if_idle() {
                return true;
            }
        }
    }
}
