//! Clients over the connection limit: a 503 answer, or a TLS alert.
//!
//! Left in the kernel's queue they would wait and learn nothing. So they are accepted, told, and
//! closed: also when the process has no descriptor left, for which one is held in reserve.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use tamarisk_http_gate::{NO_PLACE, TurnedAway};

use crate::tls;

/// Where the clients of a core are turned away.
pub(crate) struct Overflow {
    turned_away: TurnedAway,
    /// Given up for a moment when there is no other descriptor.
    reserve: Option<File>,
}

impl Overflow {
    /// Clients over TLS are told by an alert: a handshake is what we cannot give them.
    pub(crate) fn new(tls: bool) -> Self {
        let words = if tls { &tls::REJECTION } else { NO_PLACE };
        Self { turned_away: TurnedAway::new(words), reserve: reserve() }
    }

    /// Tells the client why, and closes.
    pub(crate) fn turn_away(&self, socket: TcpStream) {
        self.turned_away.turn_away(socket);
    }

    /// Whether there are no descriptors left, of this process or at all.
    pub(crate) fn is_cause(&mut self, error: &io::Error) -> bool {
        let none_left = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE));
        if none_left && self.reserve.is_none() {
            self.reserve = reserve();
        }
        none_left && self.reserve.is_some()
    }

    /// Does so with the client that `waiting` accepts, by the descriptor in reserve; `false` if
    /// there is none.
    pub(crate) fn turn_away_one_of(
        &mut self,
        waiting: impl FnOnce() -> Option<(TcpStream, SocketAddr)>,
    ) -> bool {
        self.reserve = None;
        let client = waiting();
        if let Some((socket, _)) = &client {
            let mut socket: &TcpStream = socket;
            // At once, because the descriptor is needed again.
            let _ = socket.write(self.turned_away.words());
            let _ = socket.read(&mut [0; 4096]);
        }
        let is_somebody = client.is_some();
        drop(client);
        self.reserve = reserve();
        is_somebody
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}
