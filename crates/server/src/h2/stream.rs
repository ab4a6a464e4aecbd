//! The stream of a connection that speaks HTTP/2.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::h1::wire::Wire;
use crate::h2::header_blocks::HeaderGuard;
use crate::transport::outlet::Outlet;
use crate::transport::stream::Paced;
use crate::tunnel::Rejoined;

/// A client's stream that tells whether the client takes what is written, and guards the header
/// blocks that come.
pub(crate) struct H2Stream<T> {
    stream: Rejoined<Paced<T>>,
    unsent: Unsent,
    guard: HeaderGuard,
    /// What the guard has put in place of what came.
    replaced: Bytes,
}

/// Whether a client's socket takes no more at present.
#[derive(Clone, Default)]
pub(crate) struct Unsent(Arc<AtomicBool>);

impl Unsent {
    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<T: AsyncRead + Outlet> H2Stream<T> {
    /// Of a connection on which the preface has been seen.
    pub(crate) fn of(wire: Wire<T>) -> Self {
        let (stream, read) = wire.into_parts();
        let (stream, unsent) = (Rejoined { read, stream }, Unsent::default());
        Self { stream, unsent, guard: HeaderGuard::new(), replaced: Bytes::new() }
    }

    pub(crate) fn unsent(&self) -> Unsent {
        self.unsent.clone()
    }
}

impl<T: Unpin> H2Stream<T> {
    fn noticed<R>(
        &mut self,
        poll: impl FnOnce(Pin<&mut Rejoined<Paced<T>>>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let polled = poll(Pin::new(&mut self.stream));
        self.unsent.0.store(polled.is_pending(), Ordering::Relaxed);
        polled
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for H2Stream<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, guard, replaced, .. } = self.get_mut();
        let before = buf.filled().len();
        // Nothing in the buffer would mean the end.
        while replaced.is_empty() {
            ready!(Pin::new(&mut *stream).poll_read(cx, buf))?;
            let read = &buf.filled()[before..];
            let (passed, behind) = guard.follow(read);
            *replaced = Bytes::from(behind);
            if passed > 0 || read.is_empty() {
                buf.set_filled(before + passed);
                return Poll::Ready(Ok(()));
            }
            buf.set_filled(before);
        }
        buf.put_slice(&replaced.split_to(replaced.len().min(buf.remaining())));
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for H2Stream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.noticed(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.noticed(|stream| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.noticed(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.noticed(|stream| stream.poll_shutdown(cx))
    }
}
