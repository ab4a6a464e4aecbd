//! One connection to an upstream, driven by whoever holds it.
//!
//! hyper's connection is a future beside the request, usually run as a task of its
//! own, so that each request crosses tasks four times. Here the request itself polls
//! the connection, and a connection that nobody uses is polled by nobody. While it is
//! idle it wakes nobody either: whether the upstream has closed it is found out
//! when it is next looked at.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, Parts, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::request_body::RequestBody;

/// hyper's buffer for each direction, as on the client's side.
const BUFFER_MAX: usize = 64 * 1024;

/// A connection to an upstream.
pub(super) struct Line {
    sender: SendRequest<RequestBody>,
    connection: Connection<TokioIo<Witness>, RequestBody>,
    ended: bool,
    answering: Arc<AtomicBool>,
}

/// Why a request has no answer.
pub(super) struct Unanswered {
    pub(super) error: hyper::Error,
    /// The request, if no byte of it was sent.
    pub(super) unsent: Option<Request<RequestBody>>,
    /// No byte of an answer came.
    pub(super) silent: bool,
}

impl Line {
    pub(super) async fn open(stream: TcpStream) -> hyper::Result<Box<Self>> {
        let answering = Arc::new(AtomicBool::new(false));
        let io = TokioIo::new(Witness { stream, seen: Arc::clone(&answering) });
        let (sender, connection) =
            http1::Builder::new().max_buf_size(BUFFER_MAX).handshake(io).await?;
        let mut line = Box::new(Self { sender, connection, ended: false, answering });
        line.drive(&mut Context::from_waker(Waker::noop()));
        Ok(line)
    }

    /// Lets the connection do what it can.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        // An error goes to whoever waits for an answer or a body; with nobody
        // waiting it only means that the connection is over.
        self.ended = self.ended || self.connection.poll_without_shutdown(cx).is_ready();
    }

    /// Whether it can take a request: the last exchange is complete and the
    /// upstream has not closed.
    pub(super) fn is_idle(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Unanswered> {
        self.answering.store(false, Ordering::Relaxed);
        let mut answer = pin!(self.sender.try_send_request(request));
        let (connection, ended) = (&mut self.connection, &mut self.ended);
        let answered = std::future::poll_fn(|cx| {
            *ended = *ended || connection.poll_without_shutdown(cx).is_ready();
            // Only the connection, just polled, can have changed the answer.
            answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        })
        .await;
        answered.map_err(|error: TrySendError<_>| {
            let silent = !self.answering.load(Ordering::Relaxed);
            let mut error = error;
            Unanswered { unsent: error.take_message(), error: error.into_error(), silent }
        })
    }

    /// The bare connection after an upgrade, and what was read beyond its head.
    pub(super) async fn into_stream(mut self: Box<Self>) -> (TcpStream, Bytes) {
        std::future::poll_fn(|cx| {
            self.drive(cx);
            if self.ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let Parts { io, read_buf, .. } = self.connection.into_parts();
        (io.into_inner().stream, read_buf)
    }
}

/// A socket that remembers whether anything came.
struct Witness {
    stream: TcpStream,
    seen: Arc<AtomicBool>,
}

impl AsyncRead for Witness {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.seen.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Witness {
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
