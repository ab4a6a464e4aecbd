//! Clients over the connection limit: a 503 answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 26\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\r\n\
    503: too many connections\n";

/// Clients who are being told at once: they take descriptors beside those of the connections.
const TOLD_MAX: usize = 64;

/// How long a client may take to read the answer and close.
const TOLD_TIME: Duration = Duration::from_secs(1);

/// Where clients are turned away.
pub(super) struct Overflow(Arc<Semaphore>);

impl Overflow {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(TOLD_MAX)))
    }

    /// Answers 503 and closes. If very many are being told already, the client may find its
    /// connection reset instead.
    pub(super) fn turn_away(&self, socket: TcpStream) {
        match Arc::clone(&self.0).try_acquire_owned() {
            Ok(permit) => {
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(TOLD_TIME, tell(socket)).await;
                    drop(permit);
                });
            }
            // As far as it goes without waiting: the answer fits an empty send buffer.
            Err(_) => drop(socket.try_write(FULL)),
        }
    }
}

/// A close with bytes unread would reset the connection, and could take the answer with it: so we
/// read on until the client has closed too [RFC9112 §9.6].
async fn tell(mut socket: TcpStream) -> io::Result<()> {
    socket.write_all(FULL).await?;
    socket.shutdown().await?;
    let mut unread = [0; 4096];
    while socket.read(&mut unread).await? > 0 {}
    Ok(())
}
