//! HTTP/1 on one connection, request after request, by one task or among the
//! [idle connections](crate::idle::connections).
//!
//! The [codec](tamarisk_h1) finds the requests. One whose response is [prepared](crate::prepared) is
//! answered here and now; for any other the service is called, and an [`Exchange`] goes on until
//! its response is sent.

mod exchange;
mod response;
pub(super) mod wire;

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::TE;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use tamarisk_h1::grammar::lists;
use tamarisk_h1::{Event, Framing, RequestHead, Version, Violation};
use tamarisk_http_gate::Deadline;
use tokio::io::AsyncRead;
use tokio::sync::oneshot;

use crate::client_body::{self, ClientBody};
use crate::client_service::ClientService;
use crate::idle_queue::{Idle, IdleQueue};
use crate::prepared::outgoing::{Outgoing, Reply, Sent};
use crate::prepared::{FastResponse, PlainRequest, PreparedBody, PreparedResponse};
use crate::rejected::{Counts, rejection_text};
use crate::rejection_backoff::RejectionBackoff;
use crate::transport::disconnect::PendingBody;
use crate::transport::outlet::{EndedBy, Outlet};
use crate::tunnel::{Occupied, Rejoined, Upgrade, Upgraded};
use exchange::{Exchange, ExchangeEnd};
use response::{RequestFacts, spare_fields};
use wire::{Fault, Wire};

/// Steps that a connection takes in one turn at most; an answer takes a few.
const TURN_STEPS: usize = 64;

/// How long a connection keeps its task and its memory if its next request needs them too: longer
/// than most clients take to ask again, and short against how long browsers keep theirs.
const HELD_TIME: Duration = Duration::from_secs(1);

/// How the requests of a connection are answered and counted.
#[derive(Clone)]
pub(super) struct RequestSettings {
    pub(super) backoff: RejectionBackoff,
    pub(super) rejected: Arc<Counts>,
    pub(super) pending_body: PendingBody,
    pub(super) idle_time: Duration,
    /// Where it waits while it is idle, so that it can be closed for a new client.
    pub(super) idle_queue: Option<IdleQueue>,
}

/// The requests of one connection, until it closes or stops speaking HTTP.
pub(super) struct Connection<T, S: ClientService> {
    wire: Wire<T>,
    service: S,
    settings: RequestSettings,
    state: State<S>,
    /// Whether its future ends when it is idle.
    pub(super) may_idle: bool,
    /// A rejected client is read again after it.
    pause: Deadline,
    /// How long it keeps what it does nothing with.
    held_time: Duration,
    /// It has let go of that.
    is_released: bool,
    idle: Deadline,
    queued: Option<Idle>,
    /// There have been requests, and some since somebody wanted to know.
    has_asked: bool,
    is_asked: bool,
    /// There may be another request, but others are to have their turn first.
    gives_way: bool,
    /// What is being answered is the last request, because of the drain.
    is_drained: bool,
    /// It is no proper request that is being answered: the connection closes behind that.
    is_rejected: bool,
    upgrading: Option<oneshot::Sender<Upgraded>>,
    tunnel: Option<Occupied>,
}

/// What a connection is at.
enum State<S: ClientService> {
    /// It waits for a request to come, or to be complete.
    Waiting,
    /// A head of this length is there, and is for the service.
    Asked(usize),
    /// A prepared response waits for its client.
    Prepared(Box<Outgoing>),
    /// The service answers.
    Exchange(Pin<Box<Exchange<S::Future, S::Sent>>>),
    /// Nothing is on its way any more; the client has been told why, or said so.
    Ending(EndedBy),
    /// The same, but what the client may be sending is read for a while.
    Closing {
        is_sending: bool,
    },
    Over,
    /// The protocol has changed.
    Switched,
}

/// How a connection is left that has been polled as a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It has ended.
    Over,
    /// It waits for a request of which nothing has come, if it may be left idle then.
    Idle,
    /// It speaks another protocol now; see [`Connection::switch`].
    Switched,
}

/// How a connection stands that has been asked for prepared responses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// It waits for a request, of which nothing has come, and perhaps has answered some.
    Idle { is_asked: bool },
    /// It has answered a request, and more has come: it is to be asked again after the others.
    More,
    /// It is to be polled as a future.
    Busy,
    /// It has ended.
    Over,
}

impl<T: AsyncRead + Outlet + Send + 'static, S: ClientService> Connection<T, S> {
    /// Speaks with the client of `wire`. It closes when there has been no request for a while, for
    /// which it has a `clock`.
    pub(super) fn new(
        wire: Wire<T>,
        service: S,
        settings: RequestSettings,
        mut clock: Deadline,
    ) -> Self {
        clock.stop();
        Self {
            wire,
            service,
            settings,
            state: State::Waiting,
            may_idle: false,
            pause: Deadline::default(),
            held_time: if S::ENABLED { Duration::ZERO } else { HELD_TIME },
            is_released: true,
            idle: clock,
            queued: None,
            has_asked: false,
            is_asked: false,
            gives_way: false,
            is_drained: false,
            is_rejected: false,
            upgrading: None,
            tunnel: None,
        }
    }

    /// What it speaks over.
    pub(super) fn stream(&self) -> &T {
        self.wire.get_ref()
    }

    /// The same, to be changed.
    pub(super) fn stream_mut(&mut self) -> &mut T {
        self.wire.get_mut()
    }

    /// Gives prepared responses without waiting for anything: for a connection that is left idle
    /// the caller does that.
    pub(super) fn answer(&mut self) -> ConnectionState {
        let polled = self.poll_turns(&mut Context::from_waker(Waker::noop()), false);
        match polled {
            Poll::Ready(_) => ConnectionState::Over,
            Poll::Pending if self.is_idle() => {
                ConnectionState::Idle { is_asked: mem::take(&mut self.is_asked) }
            }
            Poll::Pending if self.has_more() => {
                self.is_asked = false;
                ConnectionState::More
            }
            Poll::Pending => ConnectionState::Busy,
        }
    }

    /// Lets go of what only a future needs; for how long it has been without a request.
    pub(super) fn become_idle(&mut self) -> Duration {
        self.release();
        self.queued = None;
        let left = mem::take(&mut self.idle).left().unwrap_or(self.settings.idle_time);
        self.settings.idle_time.saturating_sub(left)
    }

    /// Closes after what is being answered, or after the next answer if its request has come.
    pub(super) fn graceful_shutdown(&mut self) {
        self.is_drained = true;
        match &mut self.state {
            State::Waiting if self.wire.is_idle() => self.state = State::Over,
            State::Exchange(exchange) => exchange.as_mut().closes_later(),
            _ => {}
        }
    }

    /// Hands the stream over to whoever waits for it; what goes on in its place.
    pub(super) fn switch(self) -> Option<Occupied> {
        let (stream, read) = self.wire.into_parts();
        if let Some(upgrading) = self.upgrading {
            // Who has granted it may have gone since.
            let _ = upgrading.send(Box::new(Rejoined { read, stream }));
        }
        self.tunnel
    }

    /// Whether it waits for a request to come, or to be complete.
    fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Whether it waits for a request of which nothing has come, and nothing keeps it from reading.
    fn is_idle(&self) -> bool {
        self.is_waiting() && !self.gives_way && !self.pause.is_started() && self.wire.is_idle()
    }

    /// Whether it could go on at once, and has given way to others.
    fn has_more(&self) -> bool {
        self.is_waiting() && self.gives_way && !self.pause.is_started()
    }

    fn release(&mut self) {
        self.wire.release();
        self.pause = Deadline::default();
        self.is_released = true;
    }

    /// Answers what can be answered; ready when there will be no more. Only a task calls the
    /// service.
    fn poll_turns(&mut self, cx: &mut Context<'_>, is_task: bool) -> Poll<Left> {
        for step in 0..TURN_STEPS {
            // One answer a turn: the next request has come already, and others wait.
            if step > 0 && self.is_waiting() && !self.wire.is_idle() {
                break;
            }
            self.state = match &mut self.state {
                State::Waiting => ready!(self.poll_request(cx)),
                State::Asked(_) if !is_task => return Poll::Pending,
                &mut State::Asked(length) => self.call(length),
                State::Prepared(outgoing) => {
                    let written = ready!(outgoing.poll_write(&mut self.wire.stream, cx));
                    let is_last = outgoing.is_last;
                    self.after(written.is_ok(), is_last)
                }
                State::Exchange(exchange) => {
                    let exchange = exchange.as_mut();
                    match ready!(exchange.poll(
                        &mut self.wire,
                        &self.service,
                        &self.settings.backoff,
                        cx
                    )) {
                        ExchangeEnd::Next { pause } => {
                            self.upgrading = None;
                            self.pause_for(pause);
                            State::Waiting
                        }
                        ExchangeEnd::Close { is_sending } => State::Closing { is_sending },
                        ExchangeEnd::Broken => State::Over,
                        ExchangeEnd::Switched(tunnel) => {
                            self.tunnel = tunnel;
                            State::Switched
                        }
                    }
                }
                &mut State::Ending(by) => {
                    let _ = ready!(self.wire.stream.poll_end(by, cx));
                    State::Over
                }
                &mut State::Closing { is_sending } => {
                    ready!(self.wire.poll_close(is_sending, cx));
                    State::Over
                }
                State::Over => return Poll::Ready(Left::Over),
                State::Switched => return Poll::Ready(Left::Switched),
            };
            if let State::Prepared(_) = self.state {
                return Poll::Pending;
            }
        }
        // A client that sends its requests without waiting for answers gets as many as others.
        self.gives_way = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// What comes of a prepared response that was sent as far as it went at once.
    fn sent(&self, Sent { outgoing, written, .. }: Sent) -> State<S> {
        match written {
            Poll::Ready(written) => self.after(written.is_ok(), outgoing.is_last),
            Poll::Pending => State::Prepared(Box::new(outgoing)),
        }
    }

    /// What comes after a prepared response.
    fn after(&self, is_written: bool, is_last: bool) -> State<S> {
        match is_written {
            false => State::Over,
            true if self.is_rejected => State::Closing { is_sending: true },
            true if is_last => State::Ending(EndedBy::Client),
            true if self.is_drained => State::Ending(EndedBy::Us),
            true => State::Waiting,
        }
    }

    fn pause_for(&mut self, pause: Duration) {
        if !pause.is_zero() {
            self.pause.start(pause);
        }
    }

    /// Waits for a request, and sends the prepared response to it if there is one.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<State<S>> {
        self.gives_way = false;
        if self.pause.is_started() {
            ready!(self.pause.poll(cx));
            self.pause.stop();
        }
        let event = ready!(self.wire.poll_event(cx));
        let is_first = !mem::replace(&mut self.has_asked, true);
        self.is_asked = true;
        Poll::Ready(match event {
            Ok(Event::Head(length)) => self.asked(length, cx),
            Err(Fault::Violation(violation)) => self.reject(violation, is_first, cx),
            Ok(_) | Err(Fault::Gone) => State::Over,
        })
    }

    /// Has the service send a prepared response to the request with a head of this length.
    fn asked(&mut self, length: usize, cx: &mut Context<'_>) -> State<S> {
        let backoff = &self.settings.backoff;
        let (head, said, stream) = self.wire.request(length);
        let is_plain = said.version == Version::Http11
            && said.framing == Framing::Empty
            && !said.upgrade
            && !said.expects_continue;
        if !S::ENABLED || !is_plain || backoff.is_parting() {
            return State::Asked(length);
        }
        let reply = Reply::new(stream, cx, backoff.responses(), !said.keep);
        match self.service.fast_response(&PlainRequest::of(head, &said), reply) {
            FastResponse::Answered(sent) => {
                let pause = backoff.answered(sent.is_rejection);
                self.pause_for(pause);
                self.wire.skip(length);
                self.wire.finish_empty();
                self.sent(sent)
            }
            FastResponse::Unavailable => {
                self.held_time = Duration::ZERO;
                State::Asked(length)
            }
            FastResponse::NeverAvailable => {
                self.held_time = HELD_TIME;
                State::Asked(length)
            }
        }
    }

    /// The answer to what is no proper request, and the end.
    fn reject(&mut self, violation: Violation, is_first: bool, cx: &mut Context<'_>) -> State<S> {
        self.settings.rejected.rejected(violation);
        if violation == Violation::NotHttp && is_first {
            // Whose client would not understand an answer.
            self.service.rejected(violation, 0);
            return State::Over;
        }
        let status = violation.status();
        let text = rejection_text(violation);
        self.service.rejected(violation, text.len());
        let head = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            text.len()
        );
        let body = Bytes::from(text);
        let prepared = PreparedResponse {
            head: head.as_bytes(),
            fields: b"",
            body: PreparedBody::Bytes(&body),
            is_rejection: false,
            account: None,
        };
        self.is_rejected = true;
        let responses = self.settings.backoff.responses();
        let sent = Reply::new(&mut self.wire.stream, cx, responses, true).send(prepared);
        self.sent(sent)
    }

    /// Has the service answer the request with a head of this length.
    fn call(&mut self, length: usize) -> State<S> {
        self.is_released = false;
        let head = self.wire.take(length);
        let said = self.wire.head();
        let whole = said.whole;
        let Some((parts, asked)) = read_request(&head, &said) else {
            return State::Over;
        };
        // A client that asks whether to send its body is told so when the service wants it.
        let is_asked_for = asked.expects_continue && asked.framing != Framing::Empty;
        let (sender, body) = match whole {
            Some(length) if !is_asked_for => (None, ClientBody::whole(self.wire.take_body(length))),
            _ => {
                let (sender, body) = client_body::channel(self.wire.left());
                (Some(sender), ClientBody::of_request(body))
            }
        };
        let mut request = Request::from_parts(parts, body);
        if asked.upgrade {
            let (sender, upgrade) = Upgrade::new();
            self.upgrading = Some(sender);
            request.extensions_mut().insert(upgrade);
        }
        let pending_body = sender.is_some().then(|| self.settings.pending_body.begin());
        let mut exchange = Box::pin(Exchange::new(request, asked, sender, pending_body));
        if self.is_drained {
            exchange.as_mut().closes_later();
        }
        State::Exchange(exchange)
    }

    /// How long it keeps its memory: where it is not left idle, it may need that again at once.
    fn held_time(&self) -> Duration {
        if self.may_idle { self.held_time } else { HELD_TIME }
    }

    /// Whether it has been idle for too long, or for long enough to be left so.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Left> {
        let idle_time = self.settings.idle_time;
        if !self.idle.is_started() {
            self.is_released |= self.held_time().is_zero();
            let held = if self.is_released { idle_time } else { self.held_time() };
            self.idle.start(held.min(idle_time));
        }
        loop {
            if self.is_released && self.may_idle && self.is_idle() {
                return Poll::Ready(Left::Idle);
            }
            if self.queued.is_none()
                && let Some(queue) = &self.settings.idle_queue
            {
                // It has just entered, and only leaves its waker.
                let _ = self.queued.insert(queue.enter()).poll_closing(cx);
            }
            ready!(self.idle.poll(cx));
            if self.is_released {
                return Poll::Ready(Left::Over);
            }
            if self.is_idle() {
                self.release();
            }
            self.is_released = true;
            self.idle.start(idle_time.saturating_sub(self.held_time()));
        }
    }
}

/// The parts of a request with this head, of which the codec has said so much; `None` if its target
/// is no URI.
fn read_request(head: &Bytes, said: &RequestHead<'_>) -> Option<(Parts, RequestFacts)> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(said.method.of(head)).ok()?;
    parts.uri = Uri::from_maybe_shared(head.slice(said.target.range())).ok()?;
    let is_http10 = said.version == Version::Http10;
    parts.version = if is_http10 { http::Version::HTTP_10 } else { http::Version::HTTP_11 };
    let mut headers = spare_fields();
    headers.reserve(said.fields.len());
    for field in said.fields {
        let name = HeaderName::from_bytes(field.name.of(head)).ok()?;
        let value = HeaderValue::from_maybe_shared(head.slice(field.value.range())).ok()?;
        headers.append(name, value);
    }
    let takes_trailers =
        headers.get_all(TE).iter().any(|value| lists(value.as_bytes(), b"trailers"));
    parts.headers = headers;
    let asked = RequestFacts {
        is_head: parts.method == Method::HEAD,
        is_connect: parts.method == Method::CONNECT,
        is_http10,
        keep: said.keep,
        upgrade: said.upgrade,
        expects_continue: said.expects_continue,
        takes_trailers,
        framing: said.framing,
    };
    Some((parts, asked))
}

impl<T, S: ClientService> Unpin for Connection<T, S> {}

impl<T: AsyncRead + Outlet + Send + 'static, S: ClientService> Future for Connection<T, S> {
    type Output = Left;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Left> {
        let this = self.get_mut();
        // Before anything is read: its place has been given away.
        if this.queued.as_ref().is_some_and(|queued| queued.poll_closing(cx).is_ready()) {
            return Poll::Ready(Left::Over);
        }
        let polled = this.poll_turns(cx, true);
        if mem::take(&mut this.is_asked) || !this.is_waiting() {
            this.idle.stop();
            this.queued = None;
        }
        match polled {
            Poll::Ready(left) => Poll::Ready(left),
            Poll::Pending if this.is_waiting() && !this.gives_way => this.poll_idle(cx),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
