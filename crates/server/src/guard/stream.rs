//! A socket whose bytes hyper sees only once they have been checked.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tamarisk_h1::Violation;
use tamarisk_http_gate::Deadline;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::Limits;
use super::patience::Patience;
use super::sideband::{Sideband, Verdict};
use super::watch::Watch;
use crate::outlet::{EndedBy, Outlet};

/// What HTTP/2 clients with prior knowledge send first [RFC9113 §3.4].
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What hyper reads instead of a head that was refused: it keeps the refusal in
/// its place behind the answers to the requests before.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// The most bytes kept for a protocol that is not agreed yet.
const UNDECIDED_MAX: usize = 64 * 1024;

/// How long, and for how many bytes, a closing connection listens on, so that
/// its last answer is not lost to a reset [RFC9112 §9.6].
const LINGER_TIME: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A client's connection behind a [`Watch`].
#[derive(Debug)]
pub struct Guarded<S> {
    inner: S,
    watch: Watch,
    limits: Limits,
    sideband: Arc<Sideband>,
    /// Bytes read and not passed on; the first `released` of them may be.
    held: BytesMut,
    released: usize,
    refused: bool,
    ended: bool,
    head: Deadline,
    body: Patience,
    writing: Patience,
    resting: Deadline,
    closing: Option<Closing>,
}

#[derive(Debug)]
struct Closing {
    time: Deadline,
    bytes: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guarded<S> {
    /// Guards `inner`, of which nothing has been read yet.
    pub fn new(inner: S, limits: Limits) -> Self {
        Self {
            inner,
            watch: Watch::new(limits.clone()),
            limits,
            sideband: Arc::default(),
            held: BytesMut::new(),
            released: 0,
            refused: false,
            ended: false,
            head: Deadline::default(),
            body: Patience::default(),
            writing: Patience::default(),
            resting: Deadline::default(),
            closing: None,
        }
    }

    pub(crate) fn sideband(&self) -> Arc<Sideband> {
        Arc::clone(&self.sideband)
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.inner
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Waits for the first bytes and tells the protocol by them; `None` if the
    /// client leaves before that.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn protocol(&mut self) -> io::Result<Option<Protocol>> {
        std::future::poll_fn(|cx| self.poll_protocol(cx)).await
    }

    pub(crate) fn poll_protocol(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Protocol>>> {
        loop {
            let known = self.held.len().min(PREFACE.len());
            if self.held[..known] != PREFACE[..known] {
                return Poll::Ready(Ok(Some(Protocol::Http1)));
            }
            if known == PREFACE.len() {
                self.watch.tunnel();
                return Poll::Ready(Ok(Some(Protocol::Http2)));
            }
            if ready!(self.poll_hold(cx))? == 0 {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Waits until there is something to read: true; or until the client has left.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            // Also for what has been read already: many heads may have come together.
            ready!(self.poll_rested(cx));
            self.scan_held()?;
            if self.released > 0 || self.ended {
                return Poll::Ready(Ok(self.released > 0));
            }
            match self.poll_hold(cx) {
                Poll::Ready(read) => drop(read?),
                Poll::Pending => ready!(self.poll_slow(cx))?,
            }
        }
    }

    /// Whether nothing of the next request has come, and nothing keeps us from reading it.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_waiting = self.held.is_empty() && !self.ended && !self.resting.is_started();
        is_waiting && self.watch.is_between_requests()
    }

    /// It will be quiet for a while: lets go of what only waiting for the client needs.
    pub(crate) fn rest(&mut self) {
        self.held = BytesMut::new();
        (self.head, self.resting) = Default::default();
        self.body.rest();
        self.writing.rest();
    }

    /// What has been checked and not been read: whole heads, and perhaps of a body; nothing if
    /// it stands for what was refused.
    #[inline]
    pub(crate) fn checked(&self) -> &[u8] {
        if self.refused { &[] } else { &self.held[..self.released] }
    }

    /// Takes so many bytes of what has been checked away.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.held.advance(bytes);
        self.released -= bytes;
    }

    /// Reads more behind what is held; 0 at the end of the stream.
    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [const { MaybeUninit::uninit() }; 4096];
        let mut buf = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf))?;
        self.held.extend_from_slice(buf.filled());
        self.ended |= buf.filled().is_empty();
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Shows the watch what is held.
    fn scan_held(&mut self) -> io::Result<()> {
        if self.refused || self.released > 0 || self.held.is_empty() {
            return Ok(());
        }
        let scanned = self.watch.scan(&self.held);
        self.released = self.settle(scanned)?;
        Ok(())
    }

    /// Draws the consequences of a scan; how many bytes it released.
    fn settle(&mut self, scanned: Result<usize, Violation>) -> io::Result<usize> {
        match scanned {
            Ok(released) => {
                if released > 0 {
                    self.head.stop();
                    self.sideband.give(self.watch.requests());
                    if self.watch.is_within_body() {
                        self.body.moved(released, &self.limits);
                    } else {
                        self.body.renew();
                    }
                    if self.watch.asks_upgrade() {
                        self.sideband.ask_upgrade(self.watch.requests());
                    }
                }
                Ok(released)
            }
            Err(violation) => self.refuse(violation).map(|()| self.released),
        }
    }

    /// A request already passed on fails by its body; one that was held back
    /// is replaced by a stand-in that the service knows to refuse.
    fn refuse(&mut self, violation: Violation) -> io::Result<()> {
        if self.watch.is_within_body() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
        }
        self.refused = true;
        self.sideband.give(self.watch.requests() + 1);
        self.sideband.refuse(self.watch.requests() + 1, violation);
        self.held.clear();
        self.held.extend_from_slice(STAND_IN);
        self.released = STAND_IN.len();
        Ok(())
    }

    /// The socket has nothing: whether we have waited for it too long.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.watch.is_within_body() {
            ready!(self.body.poll_over(&self.limits, cx));
            self.refuse(Violation::BodyTooSlow)?;
        } else if self.watch.is_between_requests() && !self.held.is_empty() {
            ready!(self.head.poll_over(self.limits.head_time, cx));
            self.refuse(Violation::HeadTooSlow)?;
        } else {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Whether a pause that the service asked for is over.
    fn poll_rested(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = self.sideband.take_pause() {
            self.resting.start(pause);
        }
        if self.resting.is_started() {
            ready!(self.resting.poll(cx));
            self.resting.stop();
        }
        Poll::Ready(())
    }

    /// Reads straight into hyper's buffer and takes back what may not go on.
    /// Whether there is something for hyper: bytes, or the end.
    fn poll_read_through(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let new = &buf.filled()[before..];
        if new.is_empty() {
            self.ended = true;
            return Poll::Ready(Ok(true));
        }
        let scanned = self.watch.scan(new);
        if let Ok(released) = scanned {
            self.held.extend_from_slice(&new[released..]);
            buf.set_filled(before + released);
        } else {
            buf.set_filled(before);
        }
        self.settle(scanned)?;
        Poll::Ready(Ok(buf.filled().len() > before))
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.sideband.set_unsent(written.is_pending());
        match written {
            Poll::Ready(written) => {
                self.writing.moved(*written.as_ref().unwrap_or(&0), &self.limits);
                Poll::Ready(written)
            }
            Poll::Pending => {
                ready!(self.writing.poll_over(&self.limits, cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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

    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(closing) = &mut self.closing else { return Poll::Ready(()) };
        if closing.time.poll_over(LINGER_TIME, cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 16 * 1024];
        while closing.bytes < LINGER_BYTES {
            let mut buf = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => closing.bytes += buf.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.watch.is_undecided()
                && let Poll::Ready(verdict) = this.sideband.poll_verdict(cx)
            {
                match verdict {
                    Verdict::Tunnel => this.watch.tunnel(),
                    Verdict::Resume => this.watch.resume(),
                }
            }
            this.scan_held()?;
            if this.released > 0 {
                let bytes = this.released.min(buf.remaining());
                buf.put_slice(&this.held[..bytes]);
                this.take(bytes);
                return Poll::Ready(Ok(()));
            }
            if this.refused {
                return Poll::Pending;
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            if this.watch.is_between_requests() {
                this.sideband.set_asks(true);
                ready!(this.poll_rested(cx));
            }
            let read = if this.held.is_empty() {
                match this.poll_read_through(cx, buf) {
                    Poll::Ready(Ok(true)) => return Poll::Ready(Ok(())),
                    other => other.map_ok(drop),
                }
            } else if this.watch.is_undecided() && this.held.len() >= UNDECIDED_MAX {
                return Poll::Pending;
            } else {
                this.poll_hold(cx).map_ok(drop)
            };
            match read {
                Poll::Ready(read) => read?,
                Poll::Pending => ready!(this.poll_slow(cx))?,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.poll_passed(cx, flushed)
    }

    /// Shuts the sending side, then listens on for a while if the client may
    /// still be sending what nobody will read.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sideband.set_asks(false);
        if self.closing.is_none() {
            let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.poll_passed(cx, shut))?;
            self.closing = Some(Closing { time: Deadline::default(), bytes: 0 });
        }
        if !self.ended && (self.refused || self.watch.is_within_body()) {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Outlet> Outlet for Guarded<S> {
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        at: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let sent = self.inner.poll_send_file(cx, file, at, length);
        self.poll_written(cx, sent)
    }

    fn set_followed(&mut self, is_followed: bool) {
        self.inner.set_followed(is_followed);
    }

    fn poll_end(&mut self, by: EndedBy, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.inner.poll_end(by, cx);
        self.poll_passed(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_connection_rests_for_as_long_as_it_was_asked_to() {
        let (mut client, socket) = duplex(4096);
        let mut guarded = Guarded::new(socket, Limits::default());
        let mut request = vec![0; REQUEST.len()];
        for pause in [0, 250, 0] {
            client.write_all(REQUEST).await.unwrap();
            guarded.sideband().pause(Duration::from_millis(pause));
            let start = Instant::now();
            guarded.read_exact(&mut request).await.unwrap();
            assert_eq!(request, REQUEST);
            assert_eq!(start.elapsed(), Duration::from_millis(pause));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_too_long_is_given_up() {
        let (_client, socket) = duplex(16);
        let limits = Limits::default().stall_time(Duration::from_secs(3));
        let mut guarded = Guarded::new(socket, limits);
        let start = Instant::now();
        let error = guarded.write_all(&[b'x'; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_layer_below_cannot_pass_on_for_too_long_is_given_up() {
        let (_client, socket) = duplex(16);
        let limits = Limits::default().stall_time(Duration::from_secs(3));
        let mut guarded = Guarded::new(tokio::io::BufWriter::new(socket), limits);
        guarded.write_all(&[b'x'; 17]).await.unwrap();
        let start = Instant::now();
        let error = guarded.flush().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up() {
        let (mut client, socket) = duplex(16);
        let limits = Limits::default().stall_time(Duration::from_secs(3));
        let mut guarded = Guarded::new(socket, limits);
        let start = Instant::now();
        let dripping = async {
            loop {
                client.read_u8().await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let bytes = [b'x'; 1000];
        let error = tokio::select! {
            written = guarded.write_all(&bytes) => written.unwrap_err(),
            () = dripping => unreachable!(),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_by_the_byte_is_broken_off() {
        let (mut client, socket) = duplex(4096);
        let limits = Limits::default().stall_time(Duration::from_secs(3));
        let mut guarded = Guarded::new(socket, limits);
        client
            .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n")
            .await
            .unwrap();
        let dripping = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let start = Instant::now();
        let error = guarded.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(start.elapsed().as_secs(), 3);
        dripping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_head_is_replaced_by_the_stand_in() {
        let (mut client, socket) = duplex(4096);
        let mut guarded = Guarded::new(socket, Limits::default());
        client.write_all(&REQUEST[..10]).await.unwrap();
        let start = Instant::now();
        let mut stand_in = vec![0; STAND_IN.len()];
        guarded.read_exact(&mut stand_in).await.unwrap();
        assert_eq!(stand_in, STAND_IN);
        assert_eq!(start.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test]
    async fn the_protocol_is_told_by_the_first_bytes() {
        for (bytes, protocol) in [
            (&b"GET"[..], Some(Protocol::Http1)),
            (b"PRI * HTTP/1.1\r\n", Some(Protocol::Http1)),
            (PREFACE, Some(Protocol::Http2)),
            (b"PRI * HTTP/2.0", None),
            (b"", None),
        ] {
            let (mut client, socket) = duplex(4096);
            client.write_all(bytes).await.unwrap();
            drop(client);
            let told = Guarded::new(socket, Limits::default()).protocol().await.unwrap();
            assert_eq!(told, protocol, "{bytes:?}");
        }
    }
}
