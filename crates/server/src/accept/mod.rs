//! Accepting connections, at once and up to a bound.

pub(crate) mod arrivals;
mod defer;
pub(crate) mod listen;
mod overflow;

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::pin::pin;

use http::StatusCode;
use tokio::time::MissedTickBehavior;

use super::{Drain, Server};
use crate::accept::arrivals::Arrivals;
use crate::accept::overflow::Overflow;
use crate::client_service::ClientService;
use crate::connection_entry::Entry;
use crate::idle::connections::IdleConnections;
use crate::rejection_backoff::{self, BackoffController, RejectionBackoff};
use crate::settings::ConnectionSettings;
use crate::transport::socket::Socket;

/// Clients who are accepted or answered before others have their turn.
const AT_ONCE_MAX: usize = 64;

pub(crate) async fn run<S: ClientService>(
    server: &Server,
    arrivals: Arrivals,
    connect: impl Fn(SocketAddr) -> S,
    drain: Drain,
) -> usize {
    let mut overflow = Overflow::new(server.tls.is_some());
    let backoff = RejectionBackoff::new(server.responses.clone());
    let mut backoff_controller = BackoffController::new(backoff.clone());
    let mut idle_connections =
        IdleConnections::new(ConnectionSettings::of(server, backoff.clone(), drain.clone()));
    let mut ticks = tokio::time::interval(rejection_backoff::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let welcome = |(socket, peer): (_, SocketAddr),
                   idle_connections: &mut IdleConnections<S>,
                   overflow: &Overflow| {
        let (connections, client, max) = (&server.connections, peer.ip(), server.connections_max);
        // Who waits for nothing gives way to who comes with a request, and then who lets us wait.
        let permit = connections
            .enter(client, max, Entry::new)
            .or_else(|| {
                idle_connections.give_way().then(|| connections.enter(client, max, Entry::new))?
            })
            .or_else(|| {
                let permit = connections.succeed(client, max, Entry::new)?;
                let gives_way = idle_connections.close_idle_task() || {
                    let gives_way = connections.give_way(client);
                    server.rejected.gave_way(gives_way);
                    gives_way
                };
                gives_way.then_some(permit)
            });
        let Some(permit) = permit else {
            turned_away(server);
            overflow.turn_away(socket);
            return;
        };
        idle_connections.welcome(Socket::new(socket), connect(peer), permit);
    };
    let mut started = pin!(drain.started());
    // Until the next tick, after an error that is not the client's (no memory, say): it would come
    // again at once.
    let mut is_paused = false;
    let mut served = 0;
    loop {
        served += tokio::select! {
            answered = idle_connections.serve() => answered,
            accepted = arrivals.next(), if !is_paused => match accepted {
                Ok(client) => {
                    // Mostly there are more.
                    let more = iter::from_fn(|| arrivals.waiting());
                    let all = iter::once(client).chain(more).take(AT_ONCE_MAX);
                    all.map(|client| welcome(client, &mut idle_connections, &overflow)).count()
                }
                Err(error) if is_of_the_client(&error) => 1,
                // With its descriptor the next one can be accepted.
                Err(error) if overflow.is_cause(&error) && idle_connections.give_way() => 1,
                Err(error) if overflow.is_cause(&error) => {
                    if overflow.turn_away_one_of(|| arrivals.waiting()) {
                        turned_away(server);
                    }
                    1
                }
                Err(_) => {
                    is_paused = true;
                    0
                }
            },
            _ = ticks.tick() => {
                is_paused = false;
                backoff_controller.tick();
                idle_connections.tick();
                0
            }
            _ = &mut started => break,
        };
        if served >= AT_ONCE_MAX {
            served = 0;
            tokio::task::yield_now().await;
        }
    }
    backoff.part();
    idle_connections.close();
    for client in arrivals.left_behind() {
        welcome(client, &mut idle_connections, &overflow);
    }
    idle_connections.end().await
}

/// There is no place for a client, who is told 503; over TLS an alert says so.
fn turned_away(server: &Server) {
    server.rejected.turned_away();
    if server.tls.is_none() {
        server.responses.count(StatusCode::SERVICE_UNAVAILABLE);
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
