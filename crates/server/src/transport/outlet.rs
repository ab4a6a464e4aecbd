//! The output of prepared responses: a socket or a TLS stream.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// What is taken out at once where it cannot: a record of TLS.
const PIECE_BYTES: usize = 16 * 1024;

/// A stream that sends files without taking them out of the kernel, and ends without more ado
/// than it needs, where either can be done.
pub(crate) trait Outlet: AsyncWrite + Unpin {
    /// Writes some of the `length` bytes of `file` from `at` on, which must not come from a disk;
    /// how many. None are there if the file is shorter.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        poll_copy_file(self, cx, file, at, length)
    }

    /// Whether something follows what is written from now on at once, be it the end: it may wait
    /// for that, and go out with it.
    fn set_followed(&mut self, is_followed: bool) {
        let _ = is_followed;
    }

    /// Whether the stream, if it is closed now, is to be reset: its end alone tells that an answer is
    /// complete, and this one is not.
    fn set_unfinished(&mut self, is_unfinished: bool) {
        let _ = is_unfinished;
    }

    /// Says that nothing follows, before the stream is closed at once.
    fn poll_end(&mut self, by: EndedBy, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = by;
        Pin::new(self).poll_shutdown(cx)
    }
}

/// Whose wish it is that a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The client has said that it sends nothing more [RFC9112 §9.6]: nobody looks whether that is
    /// true, and one that does may lose the answer.
    Client,
    /// The client may not know, and send more.
    Us,
}

/// A file's bytes, by reading and writing.
pub(crate) fn poll_copy_file(
    stream: &mut (impl AsyncWrite + Unpin + ?Sized),
    cx: &mut Context<'_>,
    file: BorrowedFd<'_>,
    at: u64,
    length: usize,
) -> Poll<io::Result<usize>> {
    let mut piece = [const { MaybeUninit::uninit() }; PIECE_BYTES];
    let (bytes, _) = rustix::io::pread(file, &mut piece[..length.min(PIECE_BYTES)], at)?;
    if bytes.is_empty() {
        return Poll::Ready(Ok(0));
    }
    Pin::new(stream).poll_write(cx, bytes)
}

#[cfg(test)]
impl Outlet for tokio::io::DuplexStream {}
