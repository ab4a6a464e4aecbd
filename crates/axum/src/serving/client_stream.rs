//! A client's socket, which tells the connection's state what it moves, and ends when that is closed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tamarisk_http_gate::ConnectionPermit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::serving::state::ConnectionState;

/// A client's socket. It counts as a connection until it is dropped, also after an upgrade.
pub(super) struct ClientStream {
    socket: TcpStream,
    permit: ConnectionPermit<ConnectionState>,
}

impl ClientStream {
    pub(super) fn new(socket: TcpStream, permit: ConnectionPermit<ConnectionState>) -> Self {
        Self { socket, permit }
    }

    fn state(&self) -> &ConnectionState {
        self.permit.connection()
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match poll(Pin::new(&mut self.socket), cx) {
            Poll::Ready(Ok(bytes)) => Poll::Ready(self.state().sent(bytes).map(|()| bytes)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.state().poll_unsent(cx).map(Err),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.socket).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(self.state().received(&buffer.filled()[before..])),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.state().poll_unread(cx).map(Err),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(cx, |socket, cx| socket.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(cx, |socket, cx| socket.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_flush(cx);
        if polled.is_ready() {
            self.state().flushed();
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
