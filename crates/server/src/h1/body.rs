//! A request's body between its connection, which reads it, and the service, which asks for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use crate::body_error::ClientBodyError;

/// The service's end. Nothing is read of the body before it is asked for, and one part at a time.
#[derive(Debug)]
pub(in super::super) struct RequestBody(Arc<Mutex<BodyState>>);

/// The connection's end.
#[derive(Debug)]
pub(super) struct BodySender(Arc<Mutex<BodyState>>);

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
pub(super) enum Demand {
    /// The next part of it.
    Wanted,
    /// Nothing at present.
    Later,
    /// Nothing any more.
    Never,
}

/// Both ends of a body of so many bytes, if that is known.
pub(super) fn channel(left: Option<u64>) -> (BodySender, RequestBody) {
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
    pub(super) fn demand(&self) -> Demand {
        self.0.lock().demand()
    }

    /// Ready when it is no longer `known`.
    pub(super) fn poll_change(&self, known: Demand, cx: &mut Context<'_>) -> Poll<()> {
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
    pub(super) fn forget_waker(&self) {
        self.0.lock().connection = None;
    }

    pub(super) fn send(&self, frame: Frame<Bytes>) {
        let mut shared = self.0.lock();
        shared.frame = Some(frame);
        shared.answer();
    }

    /// There is no more of it.
    pub(super) fn end(&self, end: Result<(), ClientBodyError>) {
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
