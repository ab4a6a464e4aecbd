//! Whether an upstream can be connected to, and since when it cannot.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

/// What is known of the connections to an upstream; all cores share it.
#[derive(Debug, Default)]
pub(crate) struct Connectivity {
    is_lost: AtomicBool,
    loss: Mutex<Option<Loss>>,
}

#[derive(Debug)]
struct Loss {
    since: Instant,
    attempts: u64,
}

impl Connectivity {
    /// A connection was made.
    pub(crate) fn connected(&self, name: &str) {
        if !self.is_lost.load(Ordering::Relaxed) {
            return;
        }
        let Some(Loss { since, attempts }) = self.loss.lock().take() else { return };
        self.is_lost.store(false, Ordering::Relaxed);
        tracing::info!(
            upstream = name,
            "Upstream {name:?} is back after {:.1} s; {attempts} attempts to connect failed.",
            since.elapsed().as_secs_f64()
        );
    }

    /// No connection could be made to `address`. The first time it is logged, then counted.
    pub(crate) fn failed(&self, name: &str, address: &str, error: &io::Error) {
        let mut loss = self.loss.lock();
        if let Some(loss) = &mut *loss {
            loss.attempts += 1;
            tracing::debug!(upstream = name, "Cannot connect to {address}: {error}.");
            return;
        }
        *loss = Some(Loss { since: Instant::now(), attempts: 1 });
        self.is_lost.store(true, Ordering::Relaxed);
        tracing::warn!(
            upstream = name,
            "Upstream {name:?} is lost: cannot connect to {address}: {error}."
        );
    }
}
