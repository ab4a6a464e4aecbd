//! The body of a request, at the pace of its client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tamarisk_http_gate::Deadline;

use crate::body_error::ClientBodyError;
use crate::guard::{Limits, Patience, Violation};
use crate::h1::body::RequestBody;

/// How much of a body that nobody wants is read, and for how long: what a client has sent by the
/// time that it could be told.
const REST_MAX: usize = 32 * 1024;
const REST_TIME: Duration = Duration::from_millis(500);

/// The body of a client's request.
#[derive(Debug)]
pub struct ClientBody(Kind);

#[derive(Debug)]
enum Kind {
    Empty,
    /// Over HTTP/1, where the connection sees to it that it goes on.
    Request(RequestBody),
    Stream(Arc<Mutex<Upload>>),
}

/// What comes on a stream of HTTP/2.
#[derive(Debug)]
struct Upload {
    body: Incoming,
    patience: Patience,
    limits: Limits,
}

impl ClientBody {
    /// None at all.
    pub(crate) fn empty() -> Self {
        Self(Kind::Empty)
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
        let upload = Arc::new(Mutex::new(Upload { body, patience, limits }));
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
            Kind::Empty => Poll::Ready(None),
            Kind::Request(body) => Pin::new(body).poll_frame(cx),
            Kind::Stream(upload) => upload.lock().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Request(body) => body.is_end_stream(),
            Kind::Stream(upload) => upload.lock().body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Request(body) => body.size_hint(),
            Kind::Stream(upload) => upload.lock().body.size_hint(),
        }
    }
}

impl Upload {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.patience.poll_over(&self.limits, cx));
            return Poll::Ready(Some(Err(ClientBodyError::Slow(Violation::BodyTooSlow))));
        };
        let frame = frame.transpose()?;
        self.patience.moved(frame.as_ref().map_or(0, length), &self.limits);
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
