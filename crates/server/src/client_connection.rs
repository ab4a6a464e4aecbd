//! HTTP/1 with one client, by a task or among the [idle connections](crate::idle::connections).

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_http_gate::Deadline;

use crate::client_service::ClientService;
use crate::connection_entry::{ConnectionPermit, Entry};
use crate::h1::wire::Wire;
use crate::h1::{Connection, ConnectionState, Left, RequestSettings};
use crate::settings::{ConnectionSettings, Ended};
use crate::transport::stream::Stream;

/// HTTP/1 with one client.
pub(crate) struct Http1<S: ClientService> {
    connection: Connection<Stream, S>,
    settings: Arc<ConnectionSettings>,
    permit: ConnectionPermit,
}

impl<S: ClientService> Http1<S> {
    /// With the client of `wire`, who has `permit` until the end; for the time between requests
    /// there is a `clock`.
    pub(crate) fn new(
        wire: Box<Wire<Stream>>,
        service: S,
        settings: Arc<ConnectionSettings>,
        permit: ConnectionPermit,
        clock: Deadline,
    ) -> Self {
        let requests = RequestSettings {
            backoff: settings.backoff.clone(),
            rejected: Arc::clone(&settings.rejected),
            pending_body: wire.get_ref().pending_body(),
            idle_time: settings.idle_time,
            idle_queue: Some(settings.idle.clone()),
        };
        // Taken out of its box here, and not by who calls: an async function would free the box at
        // its end.
        let connection = Connection::new(*wire, service, requests, clock);
        Self { connection, settings, permit }
    }

    /// What is counted of it.
    pub(crate) fn entry(&self) -> Arc<Entry> {
        Arc::clone(self.permit.connection())
    }

    /// Serves the client to the end, or until it is quiet.
    pub(crate) async fn run(mut self: Box<Self>) -> Served<S> {
        let Self { connection, settings, .. } = &mut *self;
        if let Some(socket) = connection.stream_mut().socket_mut() {
            socket.become_busy();
        }
        let left = loop {
            // After the start of a drain there is nowhere else to wait.
            connection.may_idle = settings.may_idle && !settings.drain.has_started();
            match settings.drain.until_kept(Pin::new(&mut *connection)).await {
                Ok(Left::Idle) if settings.drain.has_started() => {}
                Ok(left) => break left,
                Err(end) => {
                    connection.may_idle = false;
                    connection.graceful_shutdown();
                    match tokio::time::timeout_at(end, &mut *connection).await {
                        Ok(left) => break left,
                        Err(_) => return Served::ToTheEnd(Ended::CutOff),
                    }
                }
            }
        };
        match left {
            Left::Idle => Served::Idle(self),
            Left::Over => Served::ToTheEnd(Ended::ByItself),
            Left::Switched => {
                let Self { connection, settings, permit: _permit } = *self;
                Served::ToTheEnd(match connection.switch() {
                    Some(tunnel) => Box::pin(tunnel.run(&settings.drain)).await,
                    None => Ended::ByItself,
                })
            }
        }
    }

    /// Gives the responses that are prepared. A service that panics ends its own connection and no other.
    pub(crate) fn answer(&mut self) -> ConnectionState {
        let answered = catch_unwind(AssertUnwindSafe(|| self.connection.answer()));
        answered.unwrap_or(ConnectionState::Over)
    }

    /// Lets go of what only a task needs; for how long it has been without a request.
    pub(crate) fn become_idle(&mut self) -> io::Result<Duration> {
        if let Some(socket) = self.connection.stream_mut().socket_mut() {
            socket.become_idle()?;
        }
        Ok(self.connection.become_idle())
    }

    /// The client's socket has something to read; the end too, if it `is_hung_up`.
    pub(crate) fn heard(&mut self, is_hung_up: bool) {
        if let Some(socket) = self.connection.stream_mut().socket_mut() {
            socket.heard(is_hung_up);
        }
    }

    /// The client's socket.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.connection.stream().socket()?.socket()
    }
}

/// How a connection is left that has been served for a while.
pub(crate) enum Served<S: ClientService> {
    ToTheEnd(Ended),
    /// It waits for a request, and may do so elsewhere.
    Idle(Box<Http1<S>>),
}
