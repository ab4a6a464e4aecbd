//! The stream of a connection that speaks HTTP/2.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::h1::wire::Wire;
use crate::h2_frames::header_blocks::HeaderGuard;
use crate::h2_frames::sent_frames::SentFrames;
use crate::rejected::Counts;
use crate::transport::outlet::Outlet;
use crate::transport::stream::Paced;
use crate::tunnel::Rejoined;

/// A client's stream that tells whether the client takes what is written, guards the header
/// blocks that come, and counts requests that are rejected as malformed.
pub(crate) struct H2Stream<T> {
    stream: Rejoined<Paced<T>>,
    unsent: Unsent,
    guard: HeaderGuard,
    sent: SentFrames,
    rejected: Arc<Counts>,
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
    /// Of a connection on which the preface has been seen. In `rejected` it counts requests that are
    /// malformed, and the connection if the client sends too many frames that bring nothing further.
    pub(crate) fn of(wire: Wire<T>, rejected: Arc<Counts>) -> Self {
        let (stream, read) = wire.into_parts();
        let (stream, unsent) = (Rejoined { read, stream }, Unsent::default());
        let (guard, sent, replaced) = (HeaderGuard::new(), SentFrames::default(), Bytes::new());
        Self { stream, unsent, guard, sent, rejected, replaced }
    }

    pub(crate) fn unsent(&self) -> Unsent {
        self.unsent.clone()
    }
}

impl<T: Unpin> H2Stream<T> {
    /// Of these pieces so much was `written`.
    fn sent<'a>(
        &mut self,
        written: &Poll<io::Result<usize>>,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) {
        let Poll::Ready(Ok(bytes)) = *written else { return };
        self.guard.budget().sent(bytes);
        let mut left = bytes;
        for piece in pieces {
            let sent = &piece[..piece.len().min(left)];
            left -= sent.len();
            self.rejected.malformed(self.sent.follow(sent));
        }
    }

    fn noticed<R>(
        &mut self,
        poll: impl FnOnce(Pin<&mut Rejoined<Paced<T>>>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let polled = poll(Pin::new(&mut self.stream));
        self.unsent.0.store(polled.is_pending(), Ordering::Relaxed);
        polled
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for H2Stream<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, guard, replaced, rejected, .. } = self.get_mut();
        let before = buf.filled().len();
        // Nothing in the buffer would mean the end.
        while replaced.is_empty() {
            ready!(Pin::new(&mut *stream).poll_read(cx, buf))?;
            let read = &buf.filled()[before..];
            let (passed, behind) = guard.follow(read);
            if guard.budget().is_spent() {
                rejected.flooded();
                // As far as it goes without waiting: the client may not read at all.
                let _ = Pin::new(&mut *stream).poll_write(cx, &guard.budget().goaway());
                return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
            }
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
        let written = self.noticed(|stream| stream.poll_write(cx, bytes));
        self.sent(&written, [bytes]);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.noticed(|stream| stream.poll_write_vectored(cx, slices));
        self.sent(&written, slices.iter().map(|slice| &**slice));
        written
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
