//! Clients over the connection limit: a 503 answer, or a TLS alert.
//!
//! Left in the kernel's queue they would wait and learn nothing. So they are accepted, told, and
//! closed: also when the process has no descriptor left, for which one is held in reserve.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::tls;

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 26\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\r\n\
    503: too many connections\n";

/// Clients who are being told, a core: they take descriptors beside those of the connections.
const TOLD_MAX: usize = 64;

/// How long a client may take to read what it is told and close.
const TOLD_TIME: Duration = Duration::from_secs(1);

/// Where clients are turned away.
pub(crate) struct Overflow {
    words: &'static [u8],
    being_told: Arc<Semaphore>,
    /// Given up for a moment when there is no other descriptor.
    reserve: Option<File>,
}

impl Overflow {
    /// Clients over TLS are told by an alert: a handshake is what we cannot give them.
    pub(crate) fn new(tls: bool) -> Self {
        let words = if tls { &tls::REJECTION[..] } else { FULL };
        Self { words, being_told: Arc::new(Semaphore::new(TOLD_MAX)), reserve: reserve() }
    }

    /// Tells the client why, and closes. If very many are being told already, the client
    /// may find its connection reset instead.
    pub(crate) fn turn_away(&self, socket: TcpStream) {
        let words = self.words;
        match Arc::clone(&self.being_told).try_acquire_owned() {
            Ok(permit) => {
                tokio::spawn(async move {
                    let _ = timeout(TOLD_TIME, tell(socket, words)).await;
                    drop(permit);
                });
            }
            // As far as it goes without waiting: the words fit an empty send buffer.
            Err(_) => drop((&socket).write(words)),
        }
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
            let _ = socket.write(self.words);
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

/// A close with bytes unread would reset the connection, and could take the words with it: so we
/// read on until the client has closed too [RFC9112 §9.6].
async fn tell(socket: TcpStream, words: &[u8]) -> io::Result<()> {
    let mut socket = tokio::net::TcpStream::from_std(socket)?;
    socket.write_all(words).await?;
    socket.shutdown().await?;
    let mut unread = [0; 4096];
    while socket.read(&mut unread).await? > 0 {}
    Ok(())
}
