//! HTTP/1 with one client, by a task or in the [lobby](super::lobby).

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::HttpService;
use tamarisk_http_gate::Deadline;

use super::accept::Place;
use super::client_service::ClientService;
use super::connection::{Ended, Terms};
use super::screen::Screen;
use super::session::{Left, Session, Standing};
use super::stream::Stream;
use super::tunnel::Slot;
use crate::guard::Guarded;

/// HTTP/1 with one client.
pub(super) struct Http1<S>
where
    Screen<S>: HttpService<Incoming>,
{
    session: Session<Stream, Screen<S>>,
    tunnel: Slot,
    terms: Arc<Terms>,
    _place: Place,
}

impl<S: ClientService> Http1<S> {
    /// With the client of `stream`, who has `place` until the end; for the time between requests
    /// there is a `clock`.
    pub(super) fn new(
        stream: Box<Guarded<Stream>>,
        service: S,
        terms: Arc<Terms>,
        place: Place,
        clock: Deadline,
    ) -> Self {
        let tunnel = Slot::default();
        let (pace, refused) = (terms.pace.clone(), Arc::clone(&terms.refused));
        let (sideband, debt) = (stream.sideband(), stream.get_ref().debt());
        let screen = Screen::new(service, sideband, tunnel.clone(), pace, refused, debt);
        let mut session = Session::new(stream, screen, terms.idle_time, clock);
        session.idle_queue = Some(terms.idle.clone());
        Self { session, tunnel, terms, _place: place }
    }

    /// Serves the client to the end, or until it is quiet.
    pub(super) async fn run(mut self: Box<Self>) -> Served<S> {
        let Self { session, tunnel, terms, .. } = &mut *self;
        let ended = loop {
            // After the start of a drain there is nowhere else to wait.
            session.rests = terms.rests && !terms.drain.has_started();
            match terms.drain.until_kept(Pin::new(&mut *session)).await {
                Ok(Left::Quiet) if terms.drain.has_started() => {}
                Ok(Left::Quiet) => return Served::Quiet(self),
                Ok(Left::Over) => break Ended::ByItself,
                Err(end) => {
                    session.rests = false;
                    session.graceful_shutdown();
                    break Ended::by(end, session).await;
                }
            }
        };
        Served::ToTheEnd(match tunnel.take() {
            Some(tunnel) => Box::pin(tunnel.run(&terms.drain)).await,
            None => ended,
        })
    }

    /// Answers what is at hand. A service that panics ends its own connection and no other.
    pub(super) fn answer(&mut self) -> Standing {
        let answered = catch_unwind(AssertUnwindSafe(|| self.session.answer()));
        answered.unwrap_or(Standing::Over)
    }

    /// Lets go of what only a task needs; for how long it has been without a request.
    pub(super) fn rest(&mut self) -> io::Result<Duration> {
        let stream = self.session.stream_mut();
        if let Some(socket) = stream.and_then(Stream::socket_mut) {
            socket.rest()?;
        }
        Ok(self.session.rest())
    }

    /// The client's socket has something to read; the end too, if it `is_hung_up`.
    pub(super) fn heard(&mut self, is_hung_up: bool) {
        let stream = self.session.stream_mut();
        if let Some(socket) = stream.and_then(Stream::socket_mut) {
            socket.heard(is_hung_up);
        }
    }

    /// The client's socket.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.session.stream()?.socket()?.socket()
    }
}

/// How a connection is left that has been served for a while.
pub(super) enum Served<S>
where
    Screen<S>: HttpService<Incoming>,
{
    ToTheEnd(Ended),
    /// It waits for a request, and may do so elsewhere.
    Quiet(Box<Http1<S>>),
}
