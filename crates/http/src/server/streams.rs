//! Idle limits for HTTP/2, whose connections are alive as long as they answer pings.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::time::{Instant, sleep};

/// What hyper gets of a body at once: it takes all that it gets, whatever the client's window,
/// and we could not see the client take it. Two frames; the last piece is taken in an idle time
/// even at the least rate.
const PIECE_MAX: usize = 32 * 1024;

/// The streams of one connection, and when one of them last went on.
#[derive(Clone)]
pub(super) struct Streams(Arc<Shared>);

struct Shared {
    /// Requests that are not answered to the end.
    open: AtomicUsize,
    /// Those of them whose client has yet to take what is there for it.
    blocked: AtomicUsize,
    moved: Mutex<Instant>,
}

impl Streams {
    pub(super) fn new() -> Self {
        let (open, blocked) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Shared { open, blocked, moved: Mutex::new(Instant::now()) }))
    }

    /// Counts the requests to `service`.
    pub(super) fn counted<S>(&self, service: S) -> Counted<S> {
        Counted { service, streams: self.clone() }
    }

    /// Waits until there has been no request for so long.
    pub(super) async fn idle(&self, limit: Duration) {
        self.still(limit, |open, _| open == 0).await;
    }

    /// Waits until the client has taken nothing of any answer for so long, and all of them
    /// wait for it.
    pub(super) async fn stalled(&self, limit: Duration) {
        self.still(limit, |open, blocked| open > 0 && blocked == open).await;
    }

    /// Waits until nothing has moved for so long, and `open` and `blocked` are as they should.
    async fn still(&self, limit: Duration, is: impl Fn(usize, usize) -> bool) {
        loop {
            let moved = *self.0.moved.lock();
            let now = Instant::now();
            let left = limit.min(YEAR).saturating_sub(now - moved);
            let [open, blocked] =
                [&self.0.open, &self.0.blocked].map(|count| count.load(Ordering::Relaxed));
            if !left.is_zero() {
                sleep(left).await;
            } else if is(open, blocked) {
                return;
            } else {
                sleep(limit.min(YEAR)).await;
            }
        }
    }

    fn moved(&self) {
        *self.0.moved.lock() = Instant::now();
    }
}

/// As good as never, and within what the clock can tell.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A stream that is counted as open, and perhaps as blocked.
struct Open {
    streams: Streams,
    blocked: bool,
}

impl Open {
    fn new(streams: &Streams) -> Self {
        streams.0.open.fetch_add(1, Ordering::Relaxed);
        streams.moved();
        Self { streams: streams.clone(), blocked: false }
    }

    fn set_blocked(&mut self, blocked: bool) {
        if self.blocked != blocked {
            self.blocked = blocked;
            let count = &self.streams.0.blocked;
            if blocked {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.streams.moved();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.set_blocked(false);
        self.streams.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A service whose requests are counted until their answers have been taken.
pub(super) struct Counted<S> {
    service: S,
    streams: Streams,
}

impl<S, B> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Answering { answer: self.service.call(request), open: Some(Open::new(&self.streams)) }
    }
}

pin_project! {
    /// The answer of a [`Counted`].
    pub(super) struct Answering<F> {
        #[pin]
        answer: F,
        open: Option<Open>,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(cx))?;
        let mut open = this.open.take();
        open.iter_mut().for_each(|open| open.set_blocked(true));
        Poll::Ready(Ok(answer.map(|body| CountedBody { body, rest: Bytes::new(), open })))
    }
}

pin_project! {
    /// A body that is blocked from one of its pieces until the next one is asked for.
    pub(super) struct CountedBody<B> {
        #[pin]
        body: B,
        // What is left of its last frame.
        rest: Bytes,
        open: Option<Open>,
    }
}

impl<B: Body<Data = Bytes>> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if this.rest.is_empty() {
            let frame = this.body.poll_frame(cx);
            this.open.iter_mut().for_each(|open| open.set_blocked(frame.is_ready()));
            match ready!(frame).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => *this.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        } else {
            this.open.iter_mut().for_each(|open| open.set_blocked(true));
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_MAX));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper().and_then(|upper| upper.checked_add(rest)) {
            whole.set_upper(upper);
        }
        whole
    }
}
