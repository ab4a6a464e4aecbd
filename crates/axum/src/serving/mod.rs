//! Accepting connections up to a limit, and serving a router on each.
//!
//! hyper bounds neither the number of connections nor the time that a client may take. Here each
//! connection has a [state] that its socket, its requests and its task share: it tells what
//! the client is waited for, and when that has taken too long. The numbers are those of
//! `tamarisk-server`. That crate is not used itself, because every service would then build a TLS
//! library, and upgrades of axum (WebSockets) need hyper's connection.

mod bodies;
mod client_stream;
mod connection;
mod idle;
mod limits;
mod state;
mod streams;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tamarisk_http_gate::{ConnectionTable, NO_PLACE, TrustedProxies, TurnedAway, set_options};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::serving::client_stream::ClientStream;
use crate::serving::idle::IdleConnections;
use crate::serving::state::ConnectionState;

pub(crate) use crate::serving::limits::Limits;

/// The pause after an error of `accept` that is not the client's (no descriptors, say): it would
/// come again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served, and the proxies whose forwarding headers are believed.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) router: Router,
    pub(crate) proxies: TrustedProxies,
}

/// Serves a site until `stop` is done, then closes the listener, and returns when all
/// connections have ended. Dropped before, it lets the connections finish their requests.
pub(crate) async fn serve(
    listener: TcpListener,
    site: Site,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    set_options(&listener);
    let (table, max) = (ConnectionTable::default(), limits.connections_max);
    let (limits, idle) = (Arc::new(limits), Arc::new(IdleConnections::default()));
    let new = || ConnectionState::new(Arc::clone(&limits), Arc::clone(&idle));
    let turned_away = TurnedAway::new(NO_PLACE);
    // Each connection has a receiver: it sees that the sender is gone, and the sender that all
    // receivers are.
    let (stopping, stopped) = watch::channel(());
    let (open, connections) = watch::channel(());
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_client(&error) => continue,
            Err(_) => {
                // With its descriptor the next one can be accepted.
                idle.close_oldest();
                tokio::select! {
                    () = tokio::time::sleep(ACCEPT_PAUSE) => continue,
                    () = &mut stop => break,
                }
            }
        };
        let client = peer.ip();
        // What is closed is counted until its task has run. Idle connections give way first, then
        // those that let us wait.
        let permit = table.enter(client, max, new).or_else(|| {
            let permit = table.succeed(client, max, new)?;
            (idle.close_oldest() || table.give_way(client)).then_some(permit)
        });
        let Some(permit) = permit else {
            // A socket that cannot leave the runtime is closed.
            let _ = socket.into_std().map(|socket| turned_away.turn_away(socket));
            continue;
        };
        let connection = Arc::clone(permit.connection());
        let stream = ClientStream::new(socket, permit);
        let serving = connection::serve(stream, connection, site.clone(), peer, stopped.clone());
        let connections = connections.clone();
        tokio::spawn(async move {
            serving.await;
            drop(connections);
        });
    }
    drop((listener, stopping, stopped, connections));
    open.closed().await;
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
