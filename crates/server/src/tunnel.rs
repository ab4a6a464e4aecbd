//! Tunnels: connections after a protocol upgrade.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::Drain;
use crate::settings::Ended;
use crate::transport::stream::Transport;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The rest of a connection after a `101 Switching Protocols`.
///
/// A service puts it into the extensions of that answer. It runs in the
/// connection's place, counted and drained like any other connection.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<Task>>>);

impl Tunnel {
    /// A connection that goes on as `task` once the answer is sent, which `task` learns from
    /// the request's [`Upgrade`].
    pub fn new(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(task)))))
    }

    pub(crate) fn take(&self) -> Option<Occupied> {
        self.0.lock().take().map(Occupied)
    }
}

/// A client's connection after the protocol has changed.
///
/// The server puts it into the extensions of a request that asks for that. It becomes the stream
/// once an answer that grants it is sent; an error if none is.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<oneshot::Receiver<Upgraded>>>);

/// What goes both ways on it, from the first byte behind the request on.
pub type Upgraded = Box<dyn Transport>;

impl Upgrade {
    /// And where the stream is to go.
    pub(crate) fn new() -> (oneshot::Sender<Upgraded>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(Arc::new(Mutex::new(receiver))))
    }
}

impl Future for Upgrade {
    type Output = io::Result<Upgraded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Upgraded>> {
        let received = Pin::new(&mut *self.0.lock()).poll(cx);
        received.map_err(|_| io::ErrorKind::ConnectionAborted.into())
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade").finish_non_exhaustive()
    }
}

/// A stream that has been read in part.
pub(crate) struct Rejoined<T> {
    pub(crate) read: Bytes,
    pub(crate) stream: T,
}

impl<T: AsyncRead + Unpin> AsyncRead for Rejoined<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Rejoined<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

pub(crate) struct Occupied(Task);

impl Occupied {
    /// Runs to its end, or to the end of the drain.
    pub(crate) async fn run(mut self, drain: &Drain) -> Ended {
        match drain.until(self.0.as_mut()).await {
            Ok(()) => Ended::ByItself,
            Err(end) if timeout_at(end, self.0).await.is_ok() => Ended::ByItself,
            Err(_) => Ended::CutOff,
        }
    }
}
