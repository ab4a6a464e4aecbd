//! Clients over the connection limit are told so, and closed.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The answer to a client for whose connection there is no place.
pub const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 26\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\r\n\
    503: too many connections\n";

/// Clients who are being told at once: they take descriptors beside those of the connections.
const TOLD_MAX: usize = 64;

/// How long a client may take to read what it is told and close.
const TOLD_TIME: Duration = Duration::from_secs(1);

/// Clients who are being told; clones share them.
#[derive(Clone, Debug)]
pub struct TurnedAway {
    words: &'static [u8],
    being_told: Arc<Semaphore>,
}

impl TurnedAway {
    /// Clients are told `words`, such as [`NO_PLACE`].
    pub fn new(words: &'static [u8]) -> Self {
        Self { words, being_told: Arc::new(Semaphore::new(TOLD_MAX)) }
    }

    /// What clients are told.
    pub fn words(&self) -> &'static [u8] {
        self.words
    }

    /// Tells the client behind `socket`, which does not block, and closes. If very many are being
    /// told already, the client may find its connection reset instead.
    pub fn turn_away(&self, socket: TcpStream) {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn more_clients_than_are_told_at_once_are_told_too() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let turned_away = TurnedAway::new(NO_PLACE);
        let mut clients = Vec::new();
        for _ in 0..TOLD_MAX + 2 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            turned_away.turn_away(socket);
        }
        assert_eq!(turned_away.being_told.available_permits(), 0);
        let told = tokio::task::spawn_blocking(|| {
            clients
                .into_iter()
                .map(|mut client| {
                    let mut told = Vec::new();
                    client.read_to_end(&mut told).map(|_| told)
                })
                .collect::<Vec<_>>()
        });
        assert!(told.await.unwrap().iter().all(|told| told.as_deref().unwrap() == NO_PLACE));
    }
}
