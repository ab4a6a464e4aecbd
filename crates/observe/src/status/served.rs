//! What a `tamarisk-server` counts, and its access log, on the board.

use tamarisk_server::{Drain, Rejected, Server};

use super::Board;
use crate::access_log::Log;

type Count = fn(Rejected) -> u64;

/// What is shown of whom a server rejects.
const REJECTED: [(&str, &str, Count); 6] = [
    (
        "connections_turned_away",
        "Connections rejected because the limit of connections or of open files was reached.",
        |rejected| rejected.turned_away,
    ),
    (
        "connections_gave_way",
        "Connections that let the server wait and were closed for new clients, because the limit of connections was reached.",
        |rejected| rejected.gave_way,
    ),
    (
        "connections_flooded",
        "HTTP/2 connections closed because of too many frames such as PING that bring nothing further.",
        |rejected| rejected.flooded,
    ),
    (
        "requests_malformed",
        "Requests rejected as malformed, before any stage received them.",
        |rejected| rejected.malformed,
    ),
    (
        "requests_too_large",
        "Requests rejected as too large, before any stage received them.",
        |rejected| rejected.too_large,
    ),
    (
        "requests_too_slow",
        "HTTP/1 requests rejected because they did not arrive in time.",
        |rejected| rejected.too_slow,
    ),
];

/// The same of a server that speaks TLS.
const HANDSHAKES: [(&str, &str, Count); 2] = [
    ("handshakes_rejected", "TLS handshakes that their stage rejected.", |rejected| {
        rejected.handshakes_rejected
    }),
    (
        "handshakes_failed",
        "TLS handshakes that failed: the client closed the connection, was too slow, or has no common version or cipher.",
        |rejected| rejected.handshakes_failed,
    ),
];

impl Board {
    /// Counts the lines that `log` has lost.
    #[must_use]
    pub fn log(self, log: &Log) -> Self {
        let log = log.clone();
        let help = "Lines of the access log that could not be written.";
        self.counter("log_lines_lost", help, move || log.lost())
    }

    /// Shows how many connections a server has, what it has answered by status, and whom it has
    /// rejected before there was a request.
    #[must_use]
    pub fn server(self, server: &Server) -> Self {
        let (connected, answered) = (server.clone(), server.responses().clone());
        let board = self.traffic(move || connected.connections(), move || answered.read());
        let handshakes = HANDSHAKES.into_iter().filter(|_| server.speaks_tls());
        REJECTED.into_iter().chain(handshakes).fold(board, |board, (name, help, of)| {
            let server = server.clone();
            board.counter(name, help, move || of(server.rejected()))
        })
    }

    /// Is unhealthy from when this drain starts, so that balancers look elsewhere.
    #[must_use]
    pub fn drain(self, drain: &Drain) -> Self {
        let drain = drain.clone();
        self.open_while(move || !drain.has_started())
    }
}
