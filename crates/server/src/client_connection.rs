//! HTTP/1 with one client, by a task or in the [idle_connections](super::idle_connections).

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_http_gate::Deadline;

use super::client_service::ClientService;
use super::h1::wire::Wire;
use super::h1::{Connection, Left, RequestSettings, Standing};
use super::settings::{ConnectionPermit, ConnectionSettings, Ended};
use super::stream::Stream;

/// HTTP/1 with one client.
pub(super) struct Http1<S: ClientService> {
    connection: Connection<Stream, S>,
    settings: Arc<ConnectionSettings>,
    _permit: ConnectionPermit,
}

impl<S: ClientService> Http1<S> {
    /// With the client of `wire`, who has `permit` until the end; for the time between requests
    /// there is a `clock`.
    pub(super) fn new(
        wire: Wire<Stream>,
        service: S,
        settings: Arc<ConnectionSettings>,
        permit: ConnectionPermit,
        clock: Deadline,
    ) -> Self {
        let requests = RequestSettings {
            backoff: settings.backoff.clone(),
            refused: Arc::clone(&settings.refused),
            debt: wire.get_ref().debt(),
            idle_time: settings.idle_time,
            idle_queue: Some(settings.idle.clone()),
        };
        let connection = Connection::new(wire, service, requests, clock);
        Self { connection, settings, _permit: permit }
    }

    /// Serves the client to the end, or until it is quiet.
    pub(super) async fn run(mut self: Box<Self>) -> Served<S> {
        let Self { connection, settings, .. } = &mut *self;
        let left = loop {
            // After the start of a drain there is nowhere else to wait.
            connection.rests = settings.rests && !settings.drain.has_started();
            match settings.drain.until_kept(Pin::new(&mut *connection)).await {
                Ok(Left::Quiet) if settings.drain.has_started() => {}
                Ok(left) => break left,
                Err(end) => {
                    connection.rests = false;
                    connection.graceful_shutdown();
                    match tokio::time::timeout_at(end, &mut *connection).await {
                        Ok(left) => break left,
                        Err(_) => return Served::ToTheEnd(Ended::CutOff),
                    }
                }
            }
        };
        match left {
            Left::Quiet => Served::Quiet(self),
            Left::Over => Served::ToTheEnd(Ended::ByItself),
            Left::Switched => {
                let Self { connection, settings, _permit } = *self;
                Served::ToTheEnd(match connection.switch() {
                    Some(tunnel) => Box::pin(tunnel.run(&settings.drain)).await,
                    None => Ended::ByItself,
                })
            }
        }
    }

    /// Answers what is at hand. A service that panics ends its own connection and no other.
    pub(super) fn answer(&mut self) -> Standing {
        let answered = catch_unwind(AssertUnwindSafe(|| self.connection.answer()));
        answered.unwrap_or(Standing::Over)
    }

    /// Lets go of what only a task needs; for how long it has been without a request.
    pub(super) fn rest(&mut self) -> io::Result<Duration> {
        if let Some(socket) = self.connection.stream_mut().socket_mut() {
            socket.rest()?;
        }
        Ok(self.connection.rest())
    }

    /// The client's socket has something to read; the end too, if it `is_hung_up`.
    pub(super) fn heard(&mut self, is_hung_up: bool) {
        if let Some(socket) = self.connection.stream_mut().socket_mut() {
            socket.heard(is_hung_up);
        }
    }

    /// The client's socket.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.connection.stream().socket()?.socket()
    }
}

/// How a connection is left that has been served for a while.
pub(super) enum Served<S: ClientService> {
    ToTheEnd(Ended),
    /// It waits for a request, and may do so elsewhere.
    Quiet(Box<Http1<S>>),
}
