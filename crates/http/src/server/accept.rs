//! Accepting connections, at once and up to a bound.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::MissedTickBehavior;
use tokio_util::task::TaskTracker;

use super::at_hand::AtHand;
use super::client_body::ClientBody;
use super::connection::{self, Ended, Terms};
use super::defer;
use super::door::Door;
use super::listen::BACKLOG;
use super::pace::{self, Pace, PaceMaker};
use super::socket::Socket;
use super::stream::Client;
use super::{Drain, Server};

/// The pause after an error that is not the client's (no memory, say): it would
/// come again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// Bytes of an answer that the kernel holds beyond those under way: it takes more once half of
/// them have gone. It would hold megabytes, and we could not tell a slow client from one that
/// reads nothing; with much less, long answers are sent in more pieces than pays.
const UNSENT_MAX: u32 = 512 * 1024;

/// How long the kernel keeps a client to itself that has connected and not spoken yet. It is the
/// shortest time that it knows.
const MUTE_TIME: Duration = Duration::from_secs(1);

/// Clients who are accepted in one go beside the first.
const AT_ONCE_MAX: usize = 31;

/// A connection's place in the count.
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    pub(super) fn take(server: &Server) -> Option<Self> {
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
    S: Service<Request<ClientBody>, Response = Response<B>> + AtHand + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    prepare(&listener);
    let open = TaskTracker::new();
    let cut = Arc::new(AtomicUsize::new(0));
    let mut door = Door::new(server.tls.is_some());
    let pace = Pace::default();
    let mut pace_maker = PaceMaker::new(pace.clone());
    let terms = Terms::of(server, pace.clone(), drain.clone());
    let mut ticks = tokio::time::interval(pace::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let welcome = |(socket, peer), door: &Door| {
        let Some(place) = Place::take(server) else {
            server.refused.turned_away();
            door.turn_away(socket);
            return;
        };
        let client = Client::Socket(Socket::new(socket));
        let served = connection::serve(client, connect(peer), Arc::clone(&terms), place);
        let cut = Arc::clone(&cut);
        // An async block would have room for the connection twice.
        open.spawn(served.map(move |ended| {
            if ended == Ended::CutOff {
                cut.fetch_add(1, Ordering::Relaxed);
            }
        }));
    };
    let mut started = pin!(drain.started());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(client) => {
                    welcome(client, &door);
                    // Mostly there are more, but others want to go on too.
                    let more = std::iter::from_fn(|| waiting(&listener)).take(AT_ONCE_MAX);
                    more.for_each(|client| welcome(client, &door));
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) if door.is_cause(&error) => {
                    if door.turn_away_one_of(|| waiting(&listener)) {
                        server.refused.turned_away();
                    }
                }
                Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
            },
            _ = ticks.tick() => pace_maker.tick(),
            _ = &mut started => break,
        }
    }
    pace.part();
    for client in left_behind(listener) {
        welcome(client, &door);
    }
    open.close();
    open.wait().await;
    cut.load(Ordering::Relaxed)
}

/// Sets what the connections that `listener` accepts inherit from it; where that cannot be, they
/// are as the system likes.
fn prepare(listener: &TcpListener) {
    let _ = defer::set(listener, MUTE_TIME);
    let listener = SockRef::from(listener);
    let _ = listener.set_tcp_nodelay(true);
    let _ = listener.set_tcp_notsent_lowat(UNSENT_MAX);
}

/// A client who is connected already and need not be waited for.
fn waiting(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.poll_accept(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(accepted) => accepted.ok(),
        Poll::Pending => None,
    }
}

/// Closes `listener`, with which clients would be reset who are connected as far as the kernel
/// is concerned: those who are.
fn left_behind(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accept = || -> io::Result<_> {
        let (socket, peer) = listener.accept()?;
        socket.set_nonblocking(true)?;
        Ok((TcpStream::from_std(socket)?, peer))
    };
    (0..BACKLOG).map_while(|_| accept().ok()).collect()
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_set_on_the_listener_holds_for_its_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        prepare(&listener);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(accepted.nodelay().unwrap());
        assert_eq!(SockRef::from(&accepted).tcp_notsent_lowat().unwrap(), UNSENT_MAX);
    }
}
