//! The body of a request between its connection, which reads it, and the service, which asks for
//! it, at the pace of its client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tamarisk_http_gate::{Deadline, Patience};

use crate::body_error::ClientBodyError;
use crate::guard::{Limits, Violation};
use crate::h2_frames::header_blocks::remove_mark;

/// How much of a body that nobody wants is read, and for how long: what a client has sent by the
/// time that it could be told.
const REST_MAX: usize = 32 * 1024;
const REST_TIME: Duration = Duration::from_millis(500);

/// The body of a client's request.
#[derive(Debug)]
pub struct ClientBody(Kind);

#[derive(Debug)]
enum Kind {
    /// All of it has come.
    Whole(Bytes),
    /// Over HTTP/1, where the connection sees to it that it goes on.
    Request(RequestBody),
    Stream(Arc<Mutex<Upload>>),
}

/// What comes on a stream of HTTP/2.
#[derive(Debug)]
struct Upload {
    body: Incoming,
    /// What has come of it.
    bytes: u64,
    patience: Patience,
    limits: Limits,
}

impl ClientBody {
    /// None at all.
    pub(crate) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// One that has come with its head.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(bytes))
    }

    /// All of it, if it has come with its head and was not taken.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.0 {
            Kind::Whole(bytes) if !bytes.is_empty() => Some(std::mem::take(bytes)),
            _ => None,
        }
    }

    /// Whether all of it has come with its head.
    pub fn has_come(&self) -> bool {
        matches!(self.0, Kind::Whole(_))
    }

    /// The body of a request over HTTP/1.
    pub(crate) fn of_request(body: RequestBody) -> Self {
        Self(Kind::Request(body))
    }

    /// The body of a stream of HTTP/2, and what becomes of it if nobody wants it; nothing if it is
    /// empty.
    pub(crate) fn of_stream(body: Incoming, limits: &Limits) -> (Self, Option<Rest>) {
        if body.is_end_stream() {
            return (Self::empty(), None);
        }
        let (patience, limits) = (Patience::default(), limits.clone());
        let upload = Arc::new(Mutex::new(Upload { body, bytes: 0, patience, limits }));
        let rest = Rest { upload: Arc::clone(&upload), bytes: 0, time: Deadline::default() };
        (Self(Kind::Stream(upload)), Some(rest))
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = ClientBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Request(body) => Pin::new(body).poll_frame(cx),
            Kind::Stream(upload) => upload.lock().poll_within_limit(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Request(body) => body.is_end_stream(),
            Kind::Stream(upload) => upload.lock().body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Request(body) => body.size_hint(),
            Kind::Stream(upload) => upload.lock().body.size_hint(),
        }
    }
}

impl Upload {
    /// The next frame, unless there has been too much.
    fn poll_within_limit(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let frame = ready!(self.poll_frame(cx));
        Poll::Ready(match self.limits.body_limit() {
            Some(max) if self.bytes > max => {
                Some(Err(ClientBodyError::Malformed(Violation::BodyTooLarge)))
            }
            _ => frame,
        })
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.patience.poll_over(self.limits.patience, cx));
            return Poll::Ready(Some(Err(ClientBodyError::Slow(Violation::BodyTooSlow))));
        };
        let mut frame = frame.transpose()?;
        if let Some(frame) = &mut frame {
            remove_mark(frame);
        }
        let length = frame.as_ref().map_or(0, length);
        self.bytes = self.bytes.saturating_add(length as u64);
        self.patience.moved(length, self.limits.patience);
        Poll::Ready(frame.map(Ok))
    }
}

fn length(frame: &Frame<Bytes>) -> usize {
    frame.data_ref().map_or(0, Bytes::len)
}

/// A body that is read for the answer's sake, if the service has let go of it.
///
/// An answer that overtakes its request ends the stream for both sides: h2 resets it, and judges
/// nothing that comes on it any more. So a client would be told that all was well where its
/// request turns out malformed, and many a client takes the reset for a failure and loses
/// the answer [RFC9113 §8.1].
#[derive(Debug)]
pub(crate) struct Rest {
    upload: Arc<Mutex<Upload>>,
    bytes: usize,
    time: Deadline,
}

impl Rest {
    /// Ready when there is no more that is worth waiting for: the body's end, or enough of it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if Arc::strong_count(&self.upload) > 1 {
            return Poll::Ready(());
        }
        let mut upload = self.upload.lock();
        while self.bytes < REST_MAX {
            match upload.poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => self.bytes += length(&frame),
                Poll::Ready(Some(Err(_)) | None) => break,
                Poll::Pending => return self.time.poll_over(REST_TIME, cx),
            }
        }
        Poll::Ready(())
    }
}

/// The service's end. Nothing is read of the body before it is asked for, and one part at a time.
#[derive(Debug)]
pub(crate) struct RequestBody(Arc<Mutex<BodyState>>);

/// The connection's end.
#[derive(Debug)]
pub(crate) struct BodySender(Arc<Mutex<BodyState>>);

#[derive(Debug)]
struct BodyState {
    frame: Option<Frame<Bytes>>,
    /// What comes behind the frame.
    end: Option<Result<(), ClientBodyError>>,
    /// The service waits for a frame.
    is_wanted: bool,
    is_dropped: bool,
    /// Bytes that have not been taken by the service, if that is known.
    left: Option<u64>,
    service: Option<Waker>,
    connection: Option<Waker>,
}

/// What the service wants of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// The next part of it.
    Wanted,
    /// Nothing at present.
    Later,
    /// Nothing any more.
    Never,
}

/// Both ends of a body of this length, if it is known.
pub(crate) fn channel(left: Option<u64>) -> (BodySender, RequestBody) {
    let shared = Arc::new(Mutex::new(BodyState {
        frame: None,
        end: None,
        is_wanted: false,
        is_dropped: false,
        left,
        service: None,
        connection: None,
    }));
    (BodySender(Arc::clone(&shared)), RequestBody(shared))
}

impl BodySender {
    pub(crate) fn demand(&self) -> Demand {
        self.0.lock().demand()
    }

    /// Ready when it is no longer `known`.
    pub(crate) fn poll_change(&self, known: Demand, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.0.lock();
        if shared.demand() != known {
            return Poll::Ready(());
        }
        match &mut shared.connection {
            Some(waker) => waker.clone_from(cx.waker()),
            waker => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Nobody is to be woken while the connection looks itself.
    pub(crate) fn forget_waker(&self) {
        self.0.lock().connection = None;
    }

    pub(crate) fn send(&self, frame: Frame<Bytes>) {
        let mut shared = self.0.lock();
        shared.frame = Some(frame);
        shared.answer();
    }

    /// There is no more of it.
    pub(crate) fn end(&self, end: Result<(), ClientBodyError>) {
        let mut shared = self.0.lock();
        shared.end = Some(end);
        shared.answer();
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        if shared.end.is_none() {
            shared.end = Some(Err(ClientBodyError::Gone));
        }
        shared.answer();
    }
}

impl BodyState {
    fn demand(&self) -> Demand {
        match self.is_dropped {
            true => Demand::Never,
            false if self.is_wanted => Demand::Wanted,
            false => Demand::Later,
        }
    }

    fn answer(&mut self) {
        self.is_wanted = false;
        if let Some(waker) = self.service.take() {
            waker.wake();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = ClientBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let mut shared = self.0.lock();
        if let Some(frame) = shared.frame.take() {
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            shared.left = shared.left.map(|left| left.saturating_sub(length));
            return Poll::Ready(Some(Ok(frame)));
        }
        match shared.end.take() {
            Some(Ok(())) => {
                shared.end = Some(Ok(()));
                return Poll::Ready(None);
            }
            Some(Err(error)) => {
                shared.end = Some(Ok(()));
                return Poll::Ready(Some(Err(error)));
            }
            None => {}
        }
        if shared.left == Some(0) {
            return Poll::Ready(None);
        }
        match &mut shared.service {
            Some(waker) => waker.clone_from(cx.waker()),
            waker => *waker = Some(cx.waker().clone()),
        }
        if !shared.is_wanted {
            shared.is_wanted = true;
            if let Some(waker) = shared.connection.take() {
                waker.wake();
            }
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.0.lock();
        shared.frame.is_none() && (shared.left == Some(0) || matches!(shared.end, Some(Ok(()))))
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.is_dropped = true;
        shared.frame = None;
        if let Some(waker) = shared.connection.take() {
            waker.wake();
        }
    }
}
