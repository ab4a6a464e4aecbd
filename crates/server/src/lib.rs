//! The server: HTTP/1.1 on its own codec ([`tamarisk_h1`]) and HTTP/2 on hyper, in clear text or over
//! [TLS](tls).
//!
//! A connection is accepted at once, whatever the load, because a client that waits in
//! the kernel's queue can neither be served nor told to come later. What bounds the work is
//! the admission of requests; what bounds the connections is a count. Those of clients
//! that ask again at once after a rejection rest for a moment when they leave no processor
//! to the others.
//!
//! [`Server::serve`] runs on whatever runtime it is called on. The fastest form is one
//! current-thread runtime a core, each with a listener of its own on the same port
//! ([`Cores`], [`Listeners`]): there, clients who have asked for nothing wait together, without a
//! task for each, and are answered in turn if their responses are [prepared](FastPath).

mod accept;
mod body_error;
mod capacity;
mod client_body;
mod client_connection;
mod client_service;
mod connection;
mod connection_entry;
mod cores;
mod drain;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod guard;
mod h1;
mod h2;
mod h2_frames;
mod idle;
mod idle_queue;
mod prepared;
mod rejected;
mod rejection_backoff;
mod responses;
mod send_memory;
mod settings;
pub mod tls;
mod transport;
mod tunnel;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::accept::arrivals::Arrivals;
use crate::client_connection::Served;
use crate::connection::Client;
use crate::connection_entry::{ConnectionTable, Entry};
use crate::guard::Limits;
use crate::rejection_backoff::RejectionBackoff;
use crate::send_memory::ServerMemory;
use crate::settings::{ConnectionSettings, Ended};
use crate::tls::Handshakes;
use crate::transport::stream::Stream;

pub use crate::accept::listen::{AlreadyListening, ListenError, Listeners};
pub use crate::body_error::ClientBodyError;
pub use crate::capacity::Capacity;
pub use crate::client_body::ClientBody;
pub use crate::cores::Cores;
pub use crate::drain::{Drain, DrainTrigger};
pub use crate::prepared::outgoing::{Reply, Sent};
pub use crate::prepared::sent_file::{FileBody, FileLoad, SentFile};
pub use crate::prepared::{
    FastPath, FastResponse, OnWritten, PlainRequest, PreparedBody, PreparedResponse,
    WithoutFastPath,
};
pub use crate::rejected::Rejected;
pub use crate::responses::Responses;
pub use crate::send_memory::read_size;
pub use crate::tunnel::{Tunnel, Upgrade, Upgraded};
pub use tamarisk_http_gate::Rejection;

/// Where clients are counted that have no address.
const UNKNOWN_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// How connections are served. Clones share one count of connections, of whom they reject, and of
/// responses.
#[derive(Clone, Debug)]
pub struct Server {
    tls: Option<Handshakes>,
    limits: Limits,
    idle_time: Duration,
    connections_max: usize,
    connections: ConnectionTable,
    rejected: Arc<rejected::Counts>,
    responses: Responses,
    memory: ServerMemory,
}

impl Default for Server {
    /// The default [`Limits`], 75 s between requests, and as many connections as the process has
    /// descriptors and memory for, see [`Capacity`].
    fn default() -> Self {
        let capacity = Capacity::of_process();
        Self {
            tls: None,
            limits: Limits::default(),
            // nginx's default; browsers drop theirs earlier.
            idle_time: Duration::from_secs(75),
            connections_max: capacity.connections(),
            connections: ConnectionTable::default(),
            rejected: Arc::default(),
            responses: Responses::default(),
            memory: ServerMemory::within(capacity),
        }
    }
}

impl Server {
    /// The limits on clients.
    pub fn limits_of_clients(&self) -> &Limits {
        &self.limits
    }

    /// Whether both serve by the same limits.
    pub fn is_like(&self, other: &Self) -> bool {
        let limits = |server: &Self| (server.idle_time, server.connections_max);
        self.limits == other.limits && limits(self) == limits(other)
    }

    /// Speaks TLS with every client, and nothing else.
    #[must_use]
    pub fn tls(mut self, handshakes: Handshakes) -> Self {
        self.tls = Some(handshakes);
        self
    }

    /// What a client may send.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long a connection may wait for its next request before it is closed.
    #[must_use]
    pub fn idle_time(mut self, time: Duration) -> Self {
        self.idle_time = time;
        self
    }

    /// How many connections may be open at once; a further one is told 503
    /// and closed.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = count;
        self
    }

    /// How many connections may be open at once.
    pub fn connections_limit(&self) -> usize {
        self.connections_max
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// Whether it speaks TLS.
    pub fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connections rejected before a request was read.
    pub fn rejected(&self) -> Rejected {
        self.rejected.read()
    }

    /// The responses sent so far, whoever made them: those to requests that were rejected before any
    /// service saw them too.
    pub fn responses(&self) -> &Responses {
        &self.responses
    }

    /// Serves the connections that `listener` accepts until `drain` is triggered,
    /// then closes the listener and lets the open ones finish.
    ///
    /// `connect` makes the service of a connection from its client's address.
    /// A request whose framing is malformed is answered without it.
    ///
    /// Returns once all connections have ended, with how many had to be cut off
    /// when the drain's time was over. Dropped before, it closes those that wait for a request.
    pub async fn serve<S, B>(
        &self,
        listener: TcpListener,
        connect: impl Fn(SocketAddr) -> S,
        drain: Drain,
    ) -> usize
    where
        S: Service<Request<ClientBody>, Response = Response<B>> + FastPath + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let arrivals = Arrivals::of(listener).expect("what was waited for can be waited for again");
        accept::run(self, arrivals, connect, drain).await
    }

    /// Serves one connection over `stream`, whatever carries it (a Unix socket, a pipe, memory),
    /// in clear text; to its end, or until `drain` cuts it off. Whether it ended by itself.
    ///
    /// It counts as one that was accepted; if there are as many as there may be, it is closed.
    /// Unlike on a socket, a client that leaves while it owes a body is noticed only as the body
    /// is read.
    pub fn serve_stream<T, S, B>(
        &self,
        stream: T,
        service: S,
        drain: Drain,
    ) -> impl Future<Output = bool> + Send + use<T, S, B>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        S: Service<Request<ClientBody>, Response = Response<B>> + FastPath + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let settings = Arc::new(ConnectionSettings::of(
            self,
            RejectionBackoff::new(self.responses.clone()),
            drain,
        ));
        let client = Client::on(Stream::Other(Box::new(stream)), &settings);
        let connection = self
            .connections
            .enter(UNKNOWN_CLIENT, self.connections_max, Entry::new)
            .map(|permit| connection::serve(client, service, settings, permit));
        OptionFuture::from(connection)
            .map(|served| !matches!(served, Some(Served::ToTheEnd(Ended::CutOff))))
    }
}
