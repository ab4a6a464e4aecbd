//! The streams of one HTTP/2 connection, and how long it may have none: as long as it answers
//! pings it is alive.

pub(crate) mod stream;

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::Service;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tamarisk_http_gate::{
    Deadline, PatienceLimits, Rejection, SlowStreams, WatchedStream, WriteProgress,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::client_body::{ClientBody, Rest};
use crate::guard::{Limits, Violation, check_head};
use crate::h2::stream::Unsent;
use crate::idle_queue::IdleQueue;
use crate::prepared::FastPath;
use crate::rejected::{Counts, rejection_text};
use crate::rejection_backoff::RejectionBackoff;
use crate::send_memory::{ConnectionMemory, Reserved, STREAM_BYTES, ServerMemory, StreamMemory};

/// As good as never, and within what the clock can tell.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A connection that has been without a request for so long gives way to a new client: longer than
/// most clients take to ask again.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// The streams of one connection. hyper runs them on it.
#[derive(Clone)]
pub(crate) struct Streams(Arc<Shared>);

struct Shared {
    limits: Limits,
    unsent: Unsent,
    memory: Arc<ConnectionMemory>,
    /// Requests that are not answered to the end.
    open: AtomicUsize,
    /// When there was last one more of them, or one less.
    moved: Mutex<Instant>,
    /// The last of them has ended.
    ended: Notify,
    backoff: RejectionBackoff,
}

impl Streams {
    /// Those of the connection whose client takes no more while it is `unsent`; what they hold is counted in `memory` too.
    pub(crate) fn new(
        limits: Limits,
        unsent: Unsent,
        backoff: RejectionBackoff,
        memory: ServerMemory,
    ) -> Self {
        let memory = Arc::new(ConnectionMemory::new(memory));
        let (open, moved) = (AtomicUsize::new(0), Mutex::new(Instant::now()));
        let ended = Notify::new();
        Self(Arc::new(Shared { limits, unsent, memory, open, moved, ended, backoff }))
    }

    /// Counts the requests to `service`, and those that are `rejected` before.
    pub(crate) fn counted<S>(&self, service: S, rejected: Arc<Counts>) -> Counted<S> {
        Counted { service, streams: self.clone(), rejected }
    }

    /// Waits until there has been no request for so long.
    pub(crate) async fn idle(&self, limit: Duration) {
        let limit = limit.min(YEAR);
        loop {
            let left = limit.saturating_sub(self.unmoved());
            // Of what ends from here on it is told.
            let ended = self.0.ended.notified();
            if !left.is_zero() {
                sleep(left).await;
            } else if self.open() == 0 {
                return;
            } else {
                ended.await;
            }
        }
    }

    /// Waits until the place of the connection is given to a new client, which may be while it is
    /// in the queue of the `idle` ones.
    pub(crate) async fn place_given_away(&self, idle: &IdleQueue) {
        loop {
            self.idle(QUIET_TIME).await;
            if !self.are_taken() {
                sleep(QUIET_TIME).await;
                continue;
            }
            let place = idle.enter();
            let is_given_away = poll_fn(|cx| match place.poll_closing(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                // It is the connection that opens a stream, and its task that looks here then.
                Poll::Pending if self.open() > 0 => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            });
            if is_given_away.await {
                return;
            }
        }
    }

    /// Waits until the client, who has been told to part, has had so long for that, is owed no answer
    /// any more, and has taken the last one; or nothing of it in the time for that.
    pub(crate) async fn parted(&self, limit: Duration) {
        loop {
            sleep(limit).await;
            self.idle(limit).await;
            if self.are_taken() || self.unmoved() >= self.limits().patience.stall_time {
                return;
            }
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Whether the client's socket takes no more at present.
    pub(crate) fn are_unsent(&self) -> bool {
        self.0.unsent.is_so()
    }

    /// Whether the client has taken what it was sent, but for a small piece of each answer.
    fn are_taken(&self) -> bool {
        !self.are_unsent() && !self.0.memory.is_lent()
    }

    /// How many requests are not answered to the end.
    pub(crate) fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    fn moved(&self) {
        *self.0.moved.lock() = Instant::now();
    }

    /// For how long there has been neither one more of them nor one less.
    fn unmoved(&self) -> Duration {
        self.0.moved.lock().elapsed()
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(WatchedStream::new(stream, self.clone()));
    }
}

impl SlowStreams for Streams {
    fn patience(&self) -> PatienceLimits {
        self.limits().patience
    }

    fn is_blocked(&self) -> bool {
        self.are_unsent()
    }

    fn open(&self) -> usize {
        Self::open(self)
    }
}

/// A stream that is counted as open.
struct Open(Streams);

impl Open {
    fn new(streams: &Streams) -> Self {
        streams.0.open.fetch_add(1, Ordering::Relaxed);
        streams.moved();
        Self(streams.clone())
    }

    /// Counts an answer; the pause before it, if it is a rejection that is to wait. What others ask
    /// on the connection is read meanwhile.
    fn pause<B>(&self, answer: &Response<B>) -> Deadline {
        let is_rejection = answer.extensions().get::<Rejection>().is_some();
        let time = self.0.0.backoff.answered(is_rejection);
        let mut pause = Deadline::default();
        if !time.is_zero() {
            pause.start(time);
        }
        pause
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.moved();
        if self.0.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.0.ended.notify_waiters();
        }
    }
}

/// A service whose requests are counted until their answers have been taken.
pub(crate) struct Counted<S> {
    service: S,
    streams: Streams,
    rejected: Arc<Counts>,
}

impl<S, B> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<ClientBody>, Response = Response<B>> + FastPath,
    B: Body<Data = Bytes>,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future, B>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (head, body) = request.into_parts();
        let open = Some(Open::new(&self.streams));
        let is_head = head.method == Method::HEAD;
        let limits = self.streams.limits();
        if let Err(violation) = check_head(&head).and_then(|()| check_length(&body, limits)) {
            let text = rejection_text(violation);
            self.rejected.rejected(violation);
            self.service.rejected(violation, text.len());
            return Answering::Rejected { violation, text, is_head, open };
        }
        let (body, rest) = ClientBody::of_stream(body, limits);
        // Who waits for a word before it sends the body may have the answer as that word.
        let rest = rest.filter(|_| !head.headers.contains_key(EXPECT));
        Answering::Awaited {
            answer: self.service.call(Request::from_parts(head, body)),
            is_head,
            rest,
            open,
        }
    }
}

/// Whether a body may be as long as its head says.
fn check_length(body: &Incoming, limits: &Limits) -> Result<(), Violation> {
    let is_longer = limits.body_limit().is_some_and(|max| body.size_hint().lower() > max);
    if is_longer { Err(Violation::BodyTooLarge) } else { Ok(()) }
}

pin_project! {
    /// The answer of a [`Counted`].
    #[project = AnsweringProjected]
    pub(crate) enum Answering<F, B> {
        Awaited {
            #[pin]
            answer: F,
            is_head: bool,
            rest: Option<Rest>,
            open: Option<Open>,
        },
        /// It is there, and comes after the rest of the request, and after the pause of a client
        /// that is rejected.
        Held {
            answer: Option<Response<CountedBody<B>>>,
            rest: Option<Rest>,
            pause: Deadline,
        },
        /// The service was not asked.
        Rejected { violation: Violation, text: String, is_head: bool, open: Option<Open> },
    }
}

impl<F, B, E> Future for Answering<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let AnsweringProjected::Rejected { violation, text, is_head, open } =
            self.as_mut().project()
        {
            let rest = Bytes::from(mem::take(text));
            let body = CountedBody { body: None, rest, memory: Memory::Small, _open: open.take() };
            let mut answer = rejection(*violation, body);
            if *is_head {
                strip_body(&mut answer);
            }
            return sent(answer);
        }
        if let AnsweringProjected::Awaited { answer, is_head, rest, open } = self.as_mut().project()
        {
            let answer = ready!(answer.poll(cx))?;
            let open = open.take();
            let pause = open.as_ref().map_or_else(Deadline::default, |open| open.pause(&answer));
            let mut answer = answer.map(|body| CountedBody::of(body, open));
            if *is_head {
                strip_body(&mut answer);
            }
            let rest = rest.take();
            if rest.is_none() && !pause.is_started() {
                return sent(answer);
            }
            self.set(Self::Held { answer: Some(answer), rest, pause });
        }
        let AnsweringProjected::Held { answer, rest, pause } = self.project() else {
            unreachable!("it has just been set")
        };
        if let Some(reading) = rest {
            ready!(reading.poll(cx));
            *rest = None;
        }
        if pause.is_started() {
            ready!(pause.poll(cx));
        }
        sent(answer.take().expect("it is polled no more once it is ready"))
    }
}

/// Makes of `answer` one to a HEAD request: without its body, whose length is still told.
fn strip_body<B: Body<Data = Bytes>>(answer: &mut Response<CountedBody<B>>) {
    if answer.body().is_end_stream() {
        return;
    }
    if let Some(length) = answer.body().size_hint().exact() {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    let body = answer.body_mut();
    (body.body, body.rest, body.memory) = (None, Bytes::new(), Memory::Small);
}

/// The answer goes out.
fn sent<B, E>(answer: Response<CountedBody<B>>) -> Poll<Result<Response<CountedBody<B>>, E>> {
    if let Some(Open(Streams(streams))) = &answer.body()._open {
        streams.backoff.responses().count(answer.status());
    }
    Poll::Ready(Ok(answer))
}

/// The answer to a request that is rejected before any service sees it.
fn rejection<B>(violation: Violation, body: B) -> Response<B> {
    let mut answer = Response::new(body);
    *answer.status_mut() = violation.status();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    answer
}

pin_project! {
    /// A body that is passed on in pieces.
    pub(crate) struct CountedBody<B> {
        // None if the request was rejected, or was one for the head alone.
        #[pin]
        body: Option<B>,
        // What is left of its last frame.
        rest: Bytes,
        memory: Memory,
        _open: Option<Open>,
    }
}

/// The memory that a body holds until the client takes it.
enum Memory {
    /// It needs no more than any stream may hold.
    Small,
    /// It is counted; some may be reserved for what the body is reading.
    Counted(Arc<StreamMemory>, Option<Reserved>),
}

impl<B: Body<Data = Bytes>> CountedBody<B> {
    fn of(body: B, open: Option<Open>) -> Self {
        let is_small = body.size_hint().upper().is_some_and(|upper| upper <= STREAM_BYTES as u64);
        let memory = match &open {
            Some(Open(streams)) if !is_small => {
                Memory::Counted(StreamMemory::new(Arc::clone(&streams.0.memory)), None)
            }
            _ => Memory::Small,
        };
        Self { body: Some(body), rest: Bytes::new(), memory, _open: open }
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
        // Until there is memory, what was there before is still to be taken.
        let mut reserved = match this.memory {
            Memory::Small => None,
            Memory::Counted(stream, reserved) => Some(match reserved.take() {
                Some(reserved) => (reserved, true),
                None => (ready!(stream.poll_reserve(cx)), false),
            }),
        };
        if this.rest.is_empty() {
            // hyper asks for more when the client has taken what there was.
            WriteProgress::next(0);
            let Some(body) = this.body.as_pin_mut() else { return Poll::Ready(None) };
            let polled = match &mut reserved {
                None => body.poll_frame(cx),
                Some((reserved, is_reading)) => {
                    let (polled, has_begun) = reserved.offer(|| body.poll_frame(cx));
                    *is_reading |= has_begun;
                    polled
                }
            };
            let polled = match polled {
                Poll::Ready(polled) => polled,
                Poll::Pending => {
                    // What a body waits for that reads nothing is not in memory.
                    if let (Memory::Counted(_, kept), Some((reserved, true))) =
                        (this.memory, reserved)
                    {
                        *kept = Some(reserved);
                    }
                    return Poll::Pending;
                }
            };
            match polled.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => *this.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = match reserved {
            None => mem::take(this.rest),
            Some((reserved, _)) => {
                let length = this.rest.len().min(reserved.bytes());
                reserved.count(this.rest.split_to(length))
            }
        };
        WriteProgress::next(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let none = || SizeHint::with_exact(0);
        let hint = self.body.as_ref().map_or_else(none, Body::size_hint);
        let rest = self.rest.len() as u64;
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper().and_then(|upper| upper.checked_add(rest)) {
            whole.set_upper(upper);
        }
        whole
    }
}

#[cfg(test)]
mod tests;
