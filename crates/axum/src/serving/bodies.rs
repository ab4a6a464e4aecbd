//! Bodies of requests and of answers, with a limit on the time that the client is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body as AxumBody, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tamarisk_http_gate::{Patience, WriteProgress};

use crate::serving::state::{ConnectionState, RequestUnderWay};

/// The most of an answer over HTTP/2 that hyper has while its client gives it no window.
const PIECE_MAX: usize = 16 * 1024;

/// The body of a request.
pub(super) struct RequestBody {
    body: Incoming,
    patience: Patience,
    connection: Arc<ConnectionState>,
    is_too_slow: Arc<AtomicBool>,
}

/// A client sends the body of its request too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the request body took too long")]
pub(super) struct BodyTooSlow;

impl RequestBody {
    /// `is_too_slow` is set when the client has been waited for too long.
    pub(super) fn new(
        body: Incoming,
        connection: Arc<ConnectionState>,
        is_too_slow: Arc<AtomicBool>,
    ) -> Self {
        Self { body, patience: Patience::default(), connection, is_too_slow }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let Self { body, patience, connection, is_too_slow } = &mut *self;
        let limits = connection.limits().patience;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            if patience.since().is_some() {
                connection.body_waits(None);
            }
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            patience.moved(data.map_or(0, Bytes::len), limits);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let over = patience.poll_over(limits, cx);
        connection.body_waits(patience.since());
        ready!(over);
        is_too_slow.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(BodyTooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if self.patience.since().is_some() {
            self.connection.body_waits(None);
        }
    }
}

/// The body of an answer. Its request is under way until it is dropped.
pub(super) struct ResponseBody {
    body: AxumBody,
    /// What is left of the last data, over HTTP/2.
    rest: Bytes,
    is_http2: bool,
    _request: RequestUnderWay,
}

impl ResponseBody {
    pub(super) fn new(body: AxumBody, is_http2: bool, request: RequestUnderWay) -> Self {
        if !body.is_end_stream() {
            // hyper asks for none of it while there is no window.
            WriteProgress::next(1);
        }
        Self { body, rest: Bytes::new(), is_http2, _request: request }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_MAX));
        WriteProgress::next(piece.len());
        Frame::data(piece)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.next_piece())));
        }
        WriteProgress::next(0);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(match frame {
            Some(Ok(frame)) if self.is_http2 => Some(Ok(match frame.into_data() {
                Ok(data) => {
                    self.rest = data;
                    self.next_piece()
                }
                Err(trailers) => trailers,
            })),
            other => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}
