//! What a connection waits for, and when that has taken too long.

use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tamarisk_http_gate::{Deadline, GivesWay, Stall};
use tokio::time::Instant;

use crate::serving::idle::{IdleConnections, MayBeIdle};
use crate::serving::limits::Limits;

/// How long a client may take to close a connection that was idle for too long.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// What a connection waits for. Its stream, its requests and its task share it.
pub(super) struct ConnectionState {
    limits: Arc<Limits>,
    idle: Arc<IdleConnections>,
    state: Mutex<State>,
}

struct State {
    /// Under way: from the head to the end of the answer.
    requests: usize,
    /// What is waited for while no request is under way, and since when.
    phase: Phase,
    since: Instant,
    has_begun: bool,
    protocol: Protocol,
    /// When bytes last went either way, if it does not speak HTTP/1.
    moved: Instant,
    /// The end of an answer may not have been written yet.
    is_unflushed: bool,
    writing: Stall,
    /// Since when the body of a request is waited for.
    body_waits_since: Option<Instant>,
    /// The number among the idle connections.
    place: Option<u64>,
    is_closed: bool,
    wakers: Wakers,
}

/// Who waits for something to happen on a connection: until an upgrade its task alone.
#[derive(Default)]
struct Wakers {
    task: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
    /// What the user of an upgraded connection speaks.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rest of a head, or the first byte of the connection.
    Head,
    /// The next request.
    Idle,
    /// The client's end of an idle connection.
    Closing,
}

/// What has taken too long, or has to end for another reason.
pub(super) enum Overdue {
    /// The connection has been idle for too long, and is to be closed in the protocol's way.
    Idle,
    /// The connection is to be cut.
    Cut,
}

impl ConnectionState {
    /// Of a connection that was accepted just now.
    pub(super) fn new(limits: Arc<Limits>, idle: Arc<IdleConnections>) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            requests: 0,
            phase: Phase::Head,
            since: now,
            has_begun: false,
            protocol: Protocol::Http1,
            moved: now,
            is_unflushed: false,
            writing: Stall::default(),
            body_waits_since: None,
            place: None,
            is_closed: false,
            wakers: Wakers::default(),
        };
        Arc::new(Self { limits, idle, state: Mutex::new(state) })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// These bytes were read from the client.
    pub(super) fn received(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.check_open()?;
        state.moved();
        if bytes.is_empty() || state.requests > 0 {
            return Ok(());
        }
        if !state.has_begun {
            state.has_begun = true;
            state.since = Instant::now();
            // No method of HTTP/1 begins so [RFC9113 §3.4].
            if bytes.starts_with(b"PRI") {
                (state.protocol, state.phase) = (Protocol::Http2, Phase::Idle);
            }
        } else if state.phase == Phase::Idle && state.protocol == Protocol::Http1 {
            // Idle → Head: the next request has begun.
            (state.phase, state.since) = (Phase::Head, Instant::now());
        }
        Ok(())
    }

    /// The socket has nothing to read. Ready when it is not to be read any more.
    pub(super) fn poll_unread(&self, cx: &Context<'_>) -> Poll<io::Error> {
        let mut state = self.state.lock();
        register(&mut state.wakers.reader, cx);
        state.check_open().map_or_else(Poll::Ready, |()| Poll::Pending)
    }

    /// The socket took `bytes`.
    pub(super) fn sent(&self, bytes: usize) -> io::Result<()> {
        let mut state = self.state.lock();
        state.writing.moved(bytes, self.limits.patience);
        state.moved();
        state.check_open()
    }

    /// The socket takes nothing: the client is waited for. Ready when no more is to be written.
    pub(super) fn poll_unsent(&self, cx: &Context<'_>) -> Poll<io::Error> {
        let mut state = self.state.lock();
        state.writing.waits();
        register(&mut state.wakers.writer, cx);
        state.check_open().map_or_else(Poll::Ready, |()| Poll::Pending)
    }

    /// The body of a request is waited for since then, or not.
    pub(super) fn body_waits(&self, since: Option<Instant>) {
        self.state.lock().body_waits_since = since;
    }

    /// How many requests are under way.
    pub(super) fn open(&self) -> usize {
        self.state.lock().requests
    }

    /// Whether the client is waited for to take what was written.
    pub(super) fn is_send_blocked(&self) -> bool {
        self.state.lock().writing.is_waiting()
    }

    /// The socket took all there was.
    pub(super) fn flushed(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_unflushed) {
            state.since = Instant::now();
        }
    }

    /// A request has come; `None` if the connection is closed already.
    pub(super) fn begin(self: &Arc<Self>) -> Option<RequestUnderWay> {
        let place = {
            let mut state = self.state.lock();
            if state.is_closed {
                return None;
            }
            if state.requests == 0 && !state.is_unflushed {
                state.writing = Stall::default();
            }
            state.requests += 1;
            state.place.take()
        };
        if let Some(place) = place {
            self.idle.remove(place);
        }
        Some(RequestUnderWay(Arc::clone(self)))
    }

    /// The connection's task has ended. If the connection was upgraded, its user has it.
    pub(super) fn end(&self) {
        let place = {
            let mut state = self.state.lock();
            (state.protocol, state.moved) = (Protocol::Other, Instant::now());
            state.place.take()
        };
        if let Some(place) = place {
            self.idle.remove(place);
        }
    }

    /// Has all that is done on the connection end.
    fn close(&self, mut state: MutexGuard<'_, State>) {
        state.is_closed = true;
        let (place, Wakers { task, reader, writer }) =
            (state.place.take(), mem::take(&mut state.wakers));
        drop(state);
        if let Some(place) = place {
            self.idle.remove(place);
        }
        [task, reader, writer].into_iter().flatten().for_each(Waker::wake);
    }

    /// Ready when what is waited for has taken too long. The connection's task polls this after
    /// the connection.
    pub(super) fn poll_overdue(
        self: &Arc<Self>,
        timer: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Overdue> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Poll::Ready(Overdue::Cut);
        }
        register(&mut state.wakers.task, cx);
        let is_idle = state.is_idle();
        if is_idle && state.place.is_none() {
            // Both are locked for once: the idle connections lock no state while they are locked.
            state.place = Some(self.idle.add(Arc::clone(self) as _));
        }
        let quiet_end = is_idle.then(|| state.since + self.time_of(state.phase));
        let write_end = state.writing.end(self.limits.patience);
        let Some(end) = quiet_end.into_iter().chain(write_end).min() else {
            timer.stop();
            return Poll::Pending;
        };
        timer.start(end.saturating_duration_since(Instant::now()));
        std::task::ready!(timer.poll(cx));
        if quiet_end == Some(end) && state.phase == Phase::Idle {
            // Idle → Closing: no request came in time.
            (state.phase, state.since) = (Phase::Closing, Instant::now());
            return Poll::Ready(Overdue::Idle);
        }
        Poll::Ready(Overdue::Cut)
    }

    fn time_of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Head => self.limits.head_time,
            Phase::Idle => self.limits.idle_time,
            Phase::Closing => CLOSING_TIME,
        }
    }
}

impl MayBeIdle for ConnectionState {
    fn close_if_idle(&self) -> bool {
        let state = self.state.lock();
        if state.is_closed || !state.is_idle() {
            return false;
        }
        self.close(state);
        true
    }
}

impl GivesWay for ConnectionState {
    fn waits_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        match state.protocol {
            _ if state.is_closed => None,
            Protocol::Http1 if state.is_idle() => Some(state.since),
            Protocol::Http1 => {
                state.writing.since().into_iter().chain(state.body_waits_since).min()
            }
            Protocol::Http2 | Protocol::Other => Some(state.moved),
        }
    }

    fn end(&self) {
        self.close(self.state.lock());
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.requests == 0 && !self.is_unflushed && self.protocol != Protocol::Other
    }

    /// Bytes went either way.
    fn moved(&mut self) {
        if self.protocol != Protocol::Http1 {
            self.moved = Instant::now();
        }
    }

    fn check_open(&self) -> io::Result<()> {
        if self.is_closed { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

fn register(waker: &mut Option<Waker>, cx: &Context<'_>) {
    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

/// A request under way, until it is dropped.
pub(super) struct RequestUnderWay(Arc<ConnectionState>);

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.requests -= 1;
        if state.requests > 0 {
            return;
        }
        state.since = Instant::now();
        if state.phase != Phase::Closing {
            state.phase = Phase::Idle;
        }
        if state.protocol == Protocol::Http2 {
            // It ended in a task of its own.
            let waker = state.wakers.task.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            state.is_unflushed = true;
        }
    }
}
