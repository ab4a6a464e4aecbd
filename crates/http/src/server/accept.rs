//! Accepting connections, at once and up to a bound.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::connection::{self, Ended};
use super::pace::{self, Pace, PaceMaker};
use super::{Drain, Server};

/// Told to a client for whom there is no connection left.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 26\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\r\n\
    503: too many connections\n";

/// The pause after an error that is not the client's (no descriptors, no
/// memory): it would come again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// A connection's place in the count.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(server: &Server) -> Option<Self> {
        let before = server.connections.fetch_add(1, Ordering::Relaxed);
        let place = Self(Arc::clone(&server.connections));
        (before < server.connections_max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn run<S, B>(
    server: &Server,
    listener: TcpListener,
    connect: impl Fn(SocketAddr) -> S,
    drain: Drain,
) -> usize
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut open = JoinSet::new();
    let pace = Pace::default();
    let mut pace_maker = PaceMaker::new(pace.clone());
    let mut ticks = tokio::time::interval(pace::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    let Some(place) = Place::take(server) else {
                        if server.tls.is_none() {
                            turn_away(&socket);
                        }
                        continue;
                    };
                    let connection = connection::serve(
                        socket,
                        connect(peer),
                        server.tls.clone(),
                        server.limits.clone(),
                        server.idle_time,
                        pace.clone(),
                        drain.clone(),
                    );
                    open.spawn(async move {
                        let ended = connection.await;
                        drop(place);
                        ended
                    });
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
            },
            Some(_) = open.join_next() => {}
            _ = ticks.tick() => pace_maker.tick(),
            _ = drain.started() => break,
        }
    }
    drop(listener);
    let mut cut = 0;
    while let Some(ended) = open.join_next().await {
        cut += usize::from(!matches!(ended, Ok(Ended::ByItself)));
    }
    cut
}

/// As far as it goes without waiting: the answer fits an empty send buffer.
fn turn_away(socket: &TcpStream) {
    let _ = socket.try_write(FULL);
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
