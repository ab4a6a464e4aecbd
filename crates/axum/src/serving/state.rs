//! What a connection waits for, and when that has taken too long.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_http_gate::{Deadline, Stall};
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
    is_http2: bool,
    /// The end of an answer may not have been written yet.
    is_unflushed: bool,
    writing: Stall,
    /// The number among the idle connections.
    place: Option<u64>,
    is_closed: bool,
    /// Of the connection's task.
    waker: Option<Waker>,
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
        let state = State {
            requests: 0,
            phase: Phase::Head,
            since: Instant::now(),
            has_begun: false,
            is_http2: false,
            is_unflushed: false,
            writing: Stall::default(),
            place: None,
            is_closed: false,
            waker: None,
        };
        Arc::new(Self { limits, idle, state: Mutex::new(state) })
    }

    pub(super) fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// These bytes were read from the client.
    pub(super) fn received(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        if bytes.is_empty() || state.requests > 0 {
            return;
        }
        if !state.has_begun {
            state.has_begun = true;
            // No method of HTTP/1 begins so [RFC9113 §3.4].
            state.is_http2 = bytes.starts_with(b"PRI");
            state.since = Instant::now();
            state.phase = if state.is_http2 { Phase::Idle } else { Phase::Head };
        } else if state.phase == Phase::Idle && !state.is_http2 {
            // Idle → Head: the next request has begun.
            (state.phase, state.since) = (Phase::Head, Instant::now());
        }
    }

    /// The socket took so many bytes.
    pub(super) fn sent(&self, bytes: usize) {
        self.state.lock().writing.moved(bytes, self.limits.patience);
    }

    /// The socket takes nothing: the client is waited for.
    pub(super) fn send_blocked(&self) {
        self.state.lock().writing.waits();
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

    /// The connection has ended.
    pub(super) fn end(&self) {
        let place = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.place.take()
        };
        if let Some(place) = place {
            self.idle.remove(place);
        }
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
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
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
        let mut state = self.state.lock();
        if state.is_closed || !state.is_idle() {
            return false;
        }
        state.is_closed = true;
        let (place, waker) = (state.place.take(), state.waker.take());
        drop(state);
        if let Some(place) = place {
            self.idle.remove(place);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.requests == 0 && !self.is_unflushed
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
        if state.is_http2 {
            // It ended in a task of its own.
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            state.is_unflushed = true;
        }
    }
}
