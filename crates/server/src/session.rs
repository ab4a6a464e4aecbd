//! HTTP/1 on one connection, request after request.
//!
//! A request that the service has the answer to [at hand](super::at_hand) is answered here; for any
//! other the connection goes to hyper, and comes back when hyper has nothing to do with it.
//! hyper keeps 16 KiB of buffers for as long as it has a connection, and most connections have
//! nothing to say most of the time.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Parts, UpgradeableConnection};
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tamarisk_http_gate::Deadline;
use tokio::io::AsyncRead;

use super::at_hand::{AtHand, Further};
use super::direct::{Direct, Next};
use super::idle_queue::{Idle, IdleQueue};
use super::socket::NOBODY;
use crate::guard::{Guarded, Sideband};
use crate::outlet::Outlet;

/// hyper's buffer for each direction: a head and one read beside it. By default
/// it would gather 400 KiB for a client that reads slowly.
pub(super) const BUFFER_MAX: usize = 64 * 1024;

/// How long hyper holds an idle connection if it is to answer the next request too: longer than
/// most clients take to ask again, for whom it would have to be set up anew, and short
/// against how long browsers keep theirs.
const HELD_TIME: Duration = Duration::from_secs(1);

/// The requests of one connection, until it closes or stops speaking HTTP.
pub(super) struct Session<T, S>
where
    S: HttpService<Incoming>,
{
    state: State<T, S>,
    /// The next request is for hyper.
    next: Option<Further>,
    /// Whether its future ends when it is quiet.
    pub(super) rests: bool,
    sideband: Arc<Sideband>,
    /// How long hyper holds what it does nothing with.
    held_time: Duration,
    idle_time: Duration,
    idle: Deadline,
    /// Where it waits while it is idle, so that it can be closed for a new client.
    pub(super) idle_queue: Option<IdleQueue>,
    queued: Option<Idle>,
}

enum State<T, S>
where
    S: HttpService<Incoming>,
{
    Direct(Direct<T, S>),
    Hyper(Box<Hyper<T, S>>),
    Over,
}

/// How a session is left that has been polled as a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It has ended.
    Over,
    /// It waits for a request of which nothing has come, if it may rest then.
    Quiet,
}

/// How a session stands that has been asked for answers at hand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It waits for a request, of which nothing has come, and perhaps has answered some.
    Quiet { is_asked: bool },
    /// It is to be polled as a future.
    Busy,
    /// It has ended.
    Over,
}

type Hyper<T, S> = UpgradeableConnection<TokioIo<Box<Guarded<T>>>, S>;

impl<T, S, B> Session<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + AtHand + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Speaks with the client of `stream`, which closes when there has been no request for
    /// `idle_time`, for which it has a `clock`.
    pub(super) fn new(
        stream: Box<Guarded<T>>,
        service: S,
        idle_time: Duration,
        mut clock: Deadline,
    ) -> Self {
        clock.stop();
        let sideband = stream.sideband();
        let state = State::Direct(Direct::new(stream, service));
        let held_time = Duration::ZERO;
        Self {
            state,
            next: None,
            rests: false,
            sideband,
            held_time,
            idle_time,
            idle: clock,
            idle_queue: None,
            queued: None,
        }
    }

    /// Whether hyper, which has been polled, has had nothing to do for a while.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.sideband.is_idle() {
            self.idle.stop();
            return Poll::Pending;
        }
        if self.held_time.is_zero() {
            return Poll::Ready(());
        }
        self.idle.poll_over(self.held_time.min(self.idle_time), cx)
    }

    /// The stream, while hyper does not have it.
    pub(super) fn stream(&self) -> Option<&T> {
        let State::Direct(direct) = &self.state else { return None };
        Some(direct.stream.get_ref())
    }

    /// The same, to be changed.
    pub(super) fn stream_mut(&mut self) -> Option<&mut T> {
        let State::Direct(direct) = &mut self.state else { return None };
        Some(direct.stream.get_mut())
    }

    /// Lets go of what only a future needs; for how long it has been without a request.
    pub(super) fn rest(&mut self) -> Duration {
        if let State::Direct(direct) = &mut self.state {
            direct.stream.rest();
        }
        self.queued = None;
        let left = mem::take(&mut self.idle).left().unwrap_or(self.idle_time);
        self.idle_time.saturating_sub(left)
    }

    /// Answers what is at hand without waiting for anything: for a session that is left quiet the
    /// caller does that.
    pub(super) fn answer(&mut self) -> Standing {
        let State::Direct(direct) = &mut self.state else { return Standing::Busy };
        match direct.poll(&mut Context::from_waker(&NOBODY)) {
            Poll::Pending if direct.is_quiet() => Standing::Quiet { is_asked: direct.take_asked() },
            Poll::Pending => Standing::Busy,
            Poll::Ready(Next::Hyper(further)) => {
                self.next = Some(further);
                Standing::Busy
            }
            Poll::Ready(Next::End) => Standing::Over,
        }
    }

    /// Answers what is at hand, and waits for requests; ready with one for hyper.
    fn poll_direct(&mut self, cx: &mut Context<'_>) -> Poll<Result<Further, Left>> {
        let State::Direct(direct) = &mut self.state else { return Poll::Pending };
        if let Some(further) = self.next.take() {
            return Poll::Ready(Ok(further));
        }
        // Before anything is read: its place has been given away.
        if self.queued.as_ref().is_some_and(|queued| queued.poll_closing(cx).is_ready()) {
            return Poll::Ready(Err(Left::Over));
        }
        let polled = direct.poll(cx);
        if direct.take_asked() || !direct.is_waiting() {
            self.idle.stop();
            self.queued = None;
        }
        match polled {
            Poll::Ready(Next::Hyper(further)) => return Poll::Ready(Ok(further)),
            Poll::Ready(Next::End) => return Poll::Ready(Err(Left::Over)),
            Poll::Pending if !direct.is_waiting() => return Poll::Pending,
            Poll::Pending => {}
        }
        if !self.idle.is_started() {
            self.idle.start(self.idle_time);
        }
        if self.rests && direct.is_quiet() {
            return Poll::Ready(Err(Left::Quiet));
        }
        if self.queued.is_none()
            && let Some(queue) = &self.idle_queue
        {
            // It has just entered, and only leaves its waker.
            let _ = self.queued.insert(queue.enter()).poll_closing(cx);
        }
        self.idle.poll(cx).map(|()| Err(Left::Over))
    }

    /// Gives hyper the request that is there.
    fn give(&mut self, further: Further) {
        self.queued = None;
        match further {
            Further::Same => self.held_time = HELD_TIME,
            Further::AtHand => self.held_time = Duration::ZERO,
            Further::Unknown => {}
        }
        if let State::Direct(direct) = mem::replace(&mut self.state, State::Over) {
            self.state = State::hyper(direct);
        }
    }

    /// Takes back what hyper does nothing with.
    fn take_back(&mut self) {
        if let State::Hyper(connection) = mem::replace(&mut self.state, State::Over) {
            self.state = State::direct(*connection);
        }
    }

    /// Closes after what is being answered.
    pub(super) fn graceful_shutdown(&mut self) {
        match &mut self.state {
            State::Hyper(connection) => Pin::new(connection.as_mut()).graceful_shutdown(),
            State::Direct(direct) => {
                if !direct.closes_later() {
                    self.state = State::Over;
                }
            }
            State::Over => {}
        }
    }
}

impl<T, S, B> State<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Gives hyper the request that is there, and those that follow.
    fn hyper(Direct { stream, service, .. }: Direct<T, S>) -> Self {
        let mut builder = Builder::new();
        // How long a head may take is the guard's business, and the pause before it ours.
        builder.header_read_timeout(None).max_buf_size(BUFFER_MAX);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        Self::Hyper(Box::new(connection))
    }

    /// What is left when hyper does nothing.
    fn direct(connection: Hyper<T, S>) -> Self {
        match connection.into_parts() {
            Some(Parts { io, read_buf, service, .. }) if read_buf.is_empty() => {
                Self::Direct(Direct::new(io.into_inner(), service))
            }
            // The protocol has changed; or hyper has left something unread, which must not be
            // taken for a request.
            Some(_) | None => Self::Over,
        }
    }
}

impl<T, S, B> Future for Session<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + AtHand + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Output = Left;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Left> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Direct(_) => match ready!(this.poll_direct(cx)) {
                    Ok(further) => this.give(further),
                    Err(left) => return Poll::Ready(left),
                },
                // Errors end it too; they are the client's business (gone, silent,
                // malformed), and the requests inside have had their own outcomes.
                State::Hyper(connection) => match Pin::new(connection.as_mut()).poll(cx) {
                    Poll::Ready(_) => return Poll::Ready(Left::Over),
                    Poll::Pending => {
                        ready!(this.poll_idle(cx));
                        this.idle.start(this.idle_time.saturating_sub(this.held_time));
                        this.take_back();
                    }
                },
                State::Over => return Poll::Ready(Left::Over),
            }
        }
    }
}

#[cfg(test)]
mod tests;
