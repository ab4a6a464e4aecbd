//! What a connection reads from and writes to: a socket, TLS above it, or something else; and how
//! long a client may take nothing of what is written.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tamarisk_http_gate::Patience;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use crate::connection_entry::Entry;
use crate::guard::Limits;
use crate::transport::disconnect::PendingBody;
use crate::transport::outlet::{EndedBy, Outlet, poll_copy_file};
use crate::transport::socket::Socket;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A stream of bytes both ways, whatever carries them.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// One type for all, so that everything above exists once.
pub(crate) enum Stream {
    Plain(Socket),
    /// Boxed: it is ten times as large, and most servers have many connections of the other kind.
    Tls(Box<TlsStream<Socket>>),
    Other(Box<dyn Transport>),
}

impl Stream {
    /// The socket at the bottom of it.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(stream) => Some(stream.get_ref().0),
            Self::Other(_) => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn socket_mut(&mut self) -> Option<&mut Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(stream) => Some(stream.get_mut().0),
            Self::Other(_) => None,
        }
    }

    /// Where the service says that a body may be owed. Without a socket it is unused.
    pub(crate) fn pending_body(&self) -> PendingBody {
        self.socket().map(Socket::pending_body).unwrap_or_default()
    }

    /// The protocol that was agreed on in the TLS handshake, if one was.
    pub(crate) fn agreed(&self) -> Option<Protocol> {
        let Self::Tls(stream) = self else { return None };
        let (_, session) = stream.get_ref();
        let is_http2 = session.alpn_protocol()? == b"h2";
        Some(if is_http2 { Protocol::Http2 } else { Protocol::Http1 })
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Other(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Other(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Other(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Other(stream) => stream.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Self::Other(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Other(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Outlet for Stream {
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_send_file(cx, file, at, length),
            Self::Tls(stream) => poll_copy_file(stream, cx, file, at, length),
            Self::Other(stream) => poll_copy_file(stream, cx, file, at, length),
        }
    }

    fn set_followed(&mut self, is_followed: bool) {
        if let Self::Plain(socket) = self {
            socket.set_followed(is_followed);
        }
    }

    fn set_unfinished(&mut self, is_unfinished: bool) {
        if let Some(socket) = self.socket_mut() {
            socket.set_unfinished(is_unfinished);
        }
    }

    fn poll_end(&mut self, by: EndedBy, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_end(by, cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Other(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A stream whose client is given up when it takes nothing for too long.
pub(crate) struct Paced<T> {
    stream: T,
    limits: Limits,
    patience: Patience,
    /// Where it is told that the client is waited for.
    entry: Option<Arc<Entry>>,
    /// The client is waited for whenever nothing moves.
    is_followed: bool,
}

impl<T> Paced<T> {
    /// Of `stream`, whose client has as long as `limits` say.
    pub(crate) fn new(stream: T, limits: Limits) -> Self {
        Self { stream, limits, patience: Patience::default(), entry: None, is_followed: false }
    }

    /// Tells `entry` when the client is waited for.
    pub(crate) fn tell(&mut self, entry: &Arc<Entry>) {
        self.entry = Some(Arc::clone(entry));
    }

    /// Its client is waited for whenever nothing moves either way, because what it says is not
    /// followed any more.
    pub(crate) fn follow(&mut self) {
        self.is_followed = true;
        self.moved();
    }

    /// The client is waited for, and has been since then.
    pub(crate) fn waits(&self, since: Option<Instant>) {
        if let (Some(entry), Some(since)) = (&self.entry, since) {
            entry.waits_since(since);
        }
    }

    /// The same from now on, if not before.
    pub(crate) fn waits_from_now(&self) {
        self.entry.iter().for_each(|entry| entry.waits());
    }

    /// The client is not waited for, or only from now on.
    pub(crate) fn moved(&self) {
        match &self.entry {
            Some(entry) if self.is_followed => entry.waits_since(Instant::now()),
            Some(entry) => entry.moves(),
            None => {}
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.stream
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.stream
    }

    /// Nobody will wait for long: lets go of what only waiting needs.
    pub(crate) fn release(&mut self) {
        self.patience.release();
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                let bytes = *written.as_ref().unwrap_or(&0);
                if self.patience.since().is_some() || (self.is_followed && bytes > 0) {
                    self.moved();
                }
                self.patience.moved(bytes, self.limits.patience);
                Poll::Ready(written)
            }
            Poll::Pending => {
                let over = self.patience.poll_over(self.limits.patience, cx);
                self.waits(self.patience.since());
                over.map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// The same for what a layer below has taken and not passed on.
    fn poll_passed(
        &mut self,
        cx: &mut Context<'_>,
        passed: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        self.poll_written(cx, passed.map_ok(|()| 0)).map_ok(drop)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.is_followed && read.is_ready() {
            self.moved();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_passed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.poll_passed(cx, shut)
    }
}

impl<T: Outlet> Outlet for Paced<T> {
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let sent = self.stream.poll_send_file(cx, file, at, length);
        self.poll_written(cx, sent)
    }

    fn set_followed(&mut self, is_followed: bool) {
        self.stream.set_followed(is_followed);
    }

    fn set_unfinished(&mut self, is_unfinished: bool) {
        self.stream.set_unfinished(is_unfinished);
    }

    fn poll_end(&mut self, by: EndedBy, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.stream.poll_end(by, cx);
        self.poll_passed(cx, ended)
    }
}

/// Writes some of `pieces` in their order, and returns how many bytes. Not all are empty.
#[inline]
pub(crate) fn poll_write_pieces(
    stream: &mut (impl Outlet + ?Sized),
    cx: &mut Context<'_>,
    pieces: [&[u8]; 3],
) -> Poll<io::Result<usize>> {
    let stream = Pin::new(stream);
    let written = ready!(match pieces {
        [piece, [], []] | [[], piece, []] => stream.poll_write(cx, piece),
        [first, next, []] => stream.poll_write_vectored(cx, &[first, next].map(IoSlice::new)),
        pieces => stream.poll_write_vectored(cx, &pieces.map(IoSlice::new)),
    })?;
    match written {
        0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(Ok(written)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    fn limits() -> Limits {
        Limits::default().stall_time(Duration::from_secs(3))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_too_long_is_given_up() {
        let (_client, socket) = duplex(16);
        let start = Instant::now();
        let error = Paced::new(socket, limits()).write_all(&[b'x'; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_layer_below_cannot_pass_on_for_too_long_is_given_up() {
        let (_client, socket) = duplex(16);
        let mut paced = Paced::new(tokio::io::BufWriter::new(socket), limits());
        paced.write_all(&[b'x'; 17]).await.unwrap();
        let start = Instant::now();
        let error = paced.flush().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up() {
        let (mut client, socket) = duplex(16);
        let mut paced = Paced::new(socket, limits());
        let start = Instant::now();
        let dripping = async {
            loop {
                client.read_u8().await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let bytes = [b'x'; 1000];
        let error = tokio::select! {
            written = paced.write_all(&bytes) => written.unwrap_err(),
            () = dripping => unreachable!(),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 3);
    }
}
