//! Connections that stop speaking HTTP.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::timeout_at;

use super::Drain;
use super::connection::Ended;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The rest of a connection after a `101 Switching Protocols`.
///
/// A service puts it into the extensions of that answer. It runs in the
/// connection's place, counted and drained like any other connection.
#[derive(Clone)]
pub struct Tunnel(Slot);

/// Where the answer leaves a tunnel for the connection to find.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Task>>>);

impl Tunnel {
    /// A connection that goes on as `task` once hyper has let go of it, which
    /// `task` learns from [`hyper::upgrade::on`].
    pub fn new(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Slot(Arc::new(Mutex::new(Some(Box::pin(task))))))
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

impl Slot {
    pub(super) fn fill(&self, tunnel: &Tunnel) {
        *self.0.lock() = tunnel.0.0.lock().take();
    }

    pub(super) fn take(&self) -> Option<Occupied> {
        self.0.lock().take().map(Occupied)
    }
}

pub(super) struct Occupied(Task);

impl Occupied {
    /// Runs to its end, or to the end of the drain.
    pub(super) async fn run(mut self, drain: &Drain) -> Ended {
        match drain.until(self.0.as_mut()).await {
            Ok(()) => Ended::ByItself,
            Err(end) if timeout_at(end, self.0).await.is_ok() => Ended::ByItself,
            Err(_) => Ended::CutOff,
        }
    }
}
