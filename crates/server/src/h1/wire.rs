//! The bytes of one connection on their way in, as the codec reads them, and its end.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tamarisk_h1::{Event, RequestHead, RequestReader, Violation};
use tamarisk_http_gate::{Deadline, Patience};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection_entry::Entry;
use crate::guard::Limits;
use crate::transport::outlet::Outlet;
use crate::transport::stream::{Paced, Protocol};

/// Read at once between requests: most heads are shorter.
const READ_BYTES: usize = 4096;

/// Bytes of a body that are read at once.
const BODY_READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// Where a body is read into, before as much as came is kept: a connection that waits for its
    /// client reserves nothing for what may come.
    static BODY_READ: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How long, and for how many bytes, a closing connection listens on, so that
/// its last answer is not lost to a reset [RFC9112 §9.6].
const LINGER_TIME: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// What HTTP/2 clients with prior knowledge send first [RFC9113 §3.4].
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A client's connection, and what has come on it.
pub(in super::super) struct Wire<T> {
    pub(super) stream: Paced<T>,
    reader: RequestReader,
    /// Bytes that no event has stood for.
    held: BytesMut,
    /// The client sends no more.
    ended: bool,
    head_time: Deadline,
    body_patience: Patience,
    lingering: Option<Box<Lingering>>,
}

#[derive(Default)]
struct Lingering {
    time: Deadline,
    bytes: usize,
}

/// Why no more can be read.
#[derive(Debug)]
pub(super) enum Fault {
    Violation(Violation),
    /// The client has left, or the connection broke.
    Gone,
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl<T: AsyncRead + Outlet> Wire<T> {
    /// On `stream`, before anything is read.
    pub(in super::super) fn new(stream: T, limits: Limits) -> Self {
        Self {
            reader: RequestReader::new(limits.bytes),
            stream: Paced::new(stream, limits),
            held: BytesMut::new(),
            ended: false,
            head_time: Deadline::default(),
            body_patience: Patience::default(),
            lingering: None,
        }
    }

    /// Tells `entry` when the client is waited for.
    pub(in super::super) fn tell(&mut self, entry: &Arc<Entry>) {
        self.stream.tell(entry);
    }

    pub(in super::super) fn get_ref(&self) -> &T {
        self.stream.get_ref()
    }

    pub(in super::super) fn get_mut(&mut self) -> &mut T {
        self.stream.get_mut()
    }

    /// The stream, which speaks something else now, and what has been read of it and not been used.
    pub(in super::super) fn into_parts(mut self) -> (Paced<T>, Bytes) {
        self.stream.follow();
        (self.stream, self.held.freeze())
    }

    /// Waits for the first bytes and tells the protocol by them; `None` if the client leaves before.
    pub(in super::super) fn poll_protocol(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Protocol>>> {
        loop {
            let known = self.held.len().min(PREFACE.len());
            if self.held[..known] != PREFACE[..known] {
                return Poll::Ready(Ok(Some(Protocol::Http1)));
            }
            if known == PREFACE.len() {
                return Poll::Ready(Ok(Some(Protocol::Http2)));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// The next event, whose bytes are to be [taken](Self::take) before the one after it.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, Fault>> {
        loop {
            match self.reader.next(&self.held)? {
                Some(event) => {
                    self.stream.moved();
                    match event {
                        Event::Head(_) => {
                            self.head_time.stop();
                            self.body_patience.renew();
                        }
                        event => {
                            self.body_patience.moved(event.len(), self.stream.limits().patience)
                        }
                    }
                    return Poll::Ready(Ok(event));
                }
                None if self.ended => return Poll::Ready(Err(Fault::Gone)),
                None => {}
            }
            match self.poll_fill(cx) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Fault::Gone)),
                Poll::Pending => return self.poll_slow(cx).map(|violation| Err(violation.into())),
            }
        }
    }

    /// Whether there is nothing of an unread event but its end: that of a request without a body.
    pub(super) fn finish_empty(&mut self) {
        let next = self.reader.next(&self.held);
        debug_assert_eq!(next, Ok(Some(Event::End)));
    }

    /// Takes the whole body behind a head, of this length.
    pub(super) fn take_body(&mut self, length: usize) -> Bytes {
        self.reader.skip_body();
        self.take(length)
    }

    /// Takes the bytes of an event.
    pub(super) fn take(&mut self, length: usize) -> Bytes {
        self.held.split_to(length).freeze()
    }

    /// Drops the bytes of an event.
    #[inline]
    pub(super) fn skip(&mut self, length: usize) {
        self.held.advance(length);
    }

    /// A head of this length, what it says, and where the answer goes.
    #[inline]
    pub(super) fn request(&mut self, length: usize) -> (&[u8], RequestHead<'_>, &mut Paced<T>) {
        (&self.held[..length], self.reader.head(), &mut self.stream)
    }

    /// What the last head said.
    #[inline]
    pub(super) fn head(&self) -> RequestHead<'_> {
        self.reader.head()
    }

    /// How many bytes of the body are still to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        self.reader.left()
    }

    /// The protocol has not changed, though the last request asked for that.
    pub(super) fn resume(&mut self) {
        self.reader.resume();
    }

    /// Ready when the client has left, whose request is complete. What it sends meanwhile stays
    /// held, and nobody looks further.
    pub(super) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended {
            return Poll::Ready(());
        }
        if !self.held.is_empty() {
            return Poll::Pending;
        }
        match ready!(self.poll_fill(cx)) {
            Ok(1..) => Poll::Pending,
            Ok(0) | Err(_) => Poll::Ready(()),
        }
    }

    /// Whether something of the next request has come.
    pub(super) fn has_more(&mut self, cx: &mut Context<'_>) -> bool {
        !self.held.is_empty() || matches!(self.poll_fill(cx), Poll::Ready(Ok(1..)))
    }

    /// Whether nothing of the next request has come.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && !self.ended && self.reader.is_between_requests()
    }

    /// Lets go of what only a request or the waiting for its client needs.
    pub(super) fn release(&mut self) {
        self.held = BytesMut::new();
        self.head_time = Deadline::default();
        self.body_patience.release();
        self.stream.release();
        self.reader.release();
    }

    /// Says that nothing follows, and, if the client may be `sending` what nobody will read,
    /// listens on for a while.
    pub(super) fn poll_close(&mut self, is_sending: bool, cx: &mut Context<'_>) -> Poll<()> {
        if self.lingering.is_none() {
            // A client that is gone is told nothing.
            if ready!(Pin::new(&mut self.stream).poll_shutdown(cx)).is_err() {
                return Poll::Ready(());
            }
        }
        if self.ended || !is_sending {
            return Poll::Ready(());
        }
        self.stream.waits_from_now();
        let lingering = self.lingering.get_or_insert_default();
        if lingering.time.poll_over(LINGER_TIME, cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [const { MaybeUninit::uninit() }; 16 * 1024];
        while lingering.bytes < LINGER_BYTES {
            let mut buf = ReadBuf::uninit(&mut bytes);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => lingering.bytes += buf.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }

    /// Reads more behind what is held; 0 at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = if self.reader.is_within_body() {
            ready!(self.poll_read_body(cx))?
        } else {
            let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
            let mut buf = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
            self.held.extend_from_slice(buf.filled());
            buf.filled().len()
        };
        self.ended |= count == 0;
        Poll::Ready(Ok(count))
    }

    /// The same within a body, of which a memory of its own is made: where some of it went before,
    /// `held` would reserve as much again for a few bytes.
    fn poll_read_body(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = BODY_READ.take();
        bytes.resize(BODY_READ_BYTES, 0);
        let mut buf = ReadBuf::new(&mut bytes);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buf);
        let count = buf.filled().len();
        match self.held.is_empty() {
            true if count > 0 => self.held = BytesMut::from(buf.filled()),
            _ => self.held.extend_from_slice(buf.filled()),
        }
        BODY_READ.set(bytes);
        read.map_ok(|()| count)
    }

    /// The stream has nothing: ready when we have waited for it too long.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<Violation> {
        let limits = self.stream.limits();
        if self.reader.is_within_body() {
            let over = self.body_patience.poll_over(limits.patience, cx);
            self.stream.waits(self.body_patience.since());
            over.map(|()| Violation::BodyTooSlow)
        } else if self.held.is_empty() {
            Poll::Pending
        } else {
            self.stream.waits_from_now();
            let limits = self.stream.limits();
            self.head_time.poll_over(limits.head_time, cx).map(|()| Violation::HeadTooSlow)
        }
    }
}
