//! What a connection reads from and writes to: a socket, TLS above it, or something else.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::h1::wire::Protocol;
use crate::transport::disconnect::PendingBody;
use crate::transport::outlet::{EndedBy, Outlet, poll_copy_file};
use crate::transport::socket::Socket;

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

    /// Where the service says that a body may be owed. Where there is no socket nobody looks.
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

    fn poll_end(&mut self, by: EndedBy, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_end(by, cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Other(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
