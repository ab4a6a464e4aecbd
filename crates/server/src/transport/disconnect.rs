//! Detects disconnects of clients that nothing reads from.
//!
//! A connection learns by reading that its client has left. A body that nobody has asked for yet
//! is not read: whoever leaves while such a request queues would keep its place, and be served in
//! the end. So while a request with a body waits for its answer, and the connection does not wait
//! for the client's bytes, its [`DisconnectWatch`] tells of the client's disconnect, and the connection is
//! broken off.
//!
//! A client has left when it has closed its sending side or reset the connection, as
//! once a body is read. The kernel must have been told: a close behind more of a body
//! than the socket's buffers hold (some 100 KB at first) arrives only as they are read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tamarisk_http_gate::Deadline;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How long a client may go unheard before its socket is looked at: longer than a body that is
/// wanted at once waits for its reader, and short against a queue that is worth leaving.
const UNHEARD_MAX: Duration = Duration::from_millis(100);

/// Looks out for a client who leaves unheard.
#[derive(Default)]
pub(crate) struct DisconnectWatch {
    disconnect: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    unheard: Deadline,
    pending_body: PendingBody,
}

impl DisconnectWatch {
    /// Where the service says that a body may be owed.
    pub(crate) fn pending_body(&self) -> PendingBody {
        self.pending_body.clone()
    }

    /// Whether it matters that the client leaves.
    pub(crate) fn is_needed(&self) -> bool {
        self.pending_body.is_open()
    }

    /// The client has been heard, or written to; nobody else has its stream.
    pub(crate) fn end(&mut self) {
        self.disconnect = None;
        self.unheard.stop();
    }

    /// Whether the client of `stream`, for whose bytes nobody waits, has left.
    pub(crate) fn poll_left(&mut self, stream: &Arc<TcpStream>, cx: &mut Context<'_>) -> Poll<()> {
        if self.disconnect.is_none() {
            ready!(self.unheard.poll_over(UNHEARD_MAX, cx));
        }
        let disconnect = || Box::pin(disconnect(Arc::clone(stream))) as _;
        ready!(self.disconnect.get_or_insert_with(disconnect).as_mut().poll(cx));
        self.disconnect = None;
        Poll::Ready(())
    }
}

/// Waits for the client to close its sending side, or the connection, whatever it
/// sent before and nobody has read.
#[cfg(target_os = "linux")]
async fn disconnect(stream: Arc<TcpStream>) {
    // `PRIORITY` is the only interest that fires on half-close but not on data; tokio does not ask
    // the system for urgent data on a TCP stream.
    let _ = stream.ready(Interest::PRIORITY).await;
}

/// Elsewhere there is no way to wait past unread bytes.
#[cfg(not(target_os = "linux"))]
async fn disconnect(_: Arc<TcpStream>) {
    std::future::pending().await
}

/// Whether a request waits for its answer whose body may still be owed.
#[derive(Clone, Default)]
pub(crate) struct PendingBody(Arc<AtomicBool>);

impl PendingBody {
    /// There is such a request, until the answer to it is dropped.
    pub(crate) fn begin(&self) -> PendingBodyGuard {
        self.0.store(true, Ordering::Relaxed);
        PendingBodyGuard(self.clone())
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An open [`PendingBody`].
pub(crate) struct PendingBodyGuard(PendingBody);

impl Drop for PendingBodyGuard {
    fn drop(&mut self) {
        let Self(PendingBody(open)) = self;
        open.store(false, Ordering::Relaxed);
    }
}
