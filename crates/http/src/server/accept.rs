//! Accepting connections, at once and up to a bound.

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;
use tokio::time::MissedTickBehavior;
use tokio_util::task::TaskTracker;

use super::arrivals::Arrivals;
use super::at_hand::AtHand;
use super::client_body::ClientBody;
use super::connection::{self, Ended, Terms};
use super::door::Door;
use super::pace::{self, Pace, PaceMaker};
use super::socket::Socket;
use super::stream::Client;
use super::{Drain, Server};

/// The pause after an error that is not the client's (no memory, say): it would
/// come again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

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
    arrivals: Arrivals,
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
            accepted = arrivals.next() => match accepted {
                Ok(client) => {
                    welcome(client, &door);
                    // Mostly there are more, but others want to go on too.
                    let more = iter::from_fn(|| arrivals.waiting()).take(AT_ONCE_MAX);
                    let welcomed = more.map(|client| welcome(client, &door)).count();
                    if welcomed == AT_ONCE_MAX {
                        tokio::task::yield_now().await;
                    }
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) if door.is_cause(&error) => {
                    if door.turn_away_one_of(|| arrivals.waiting()) {
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
    for client in arrivals.left_behind() {
        welcome(client, &door);
    }
    open.close();
    open.wait().await;
    cut.load(Ordering::Relaxed)
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
