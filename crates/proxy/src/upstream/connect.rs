//! Connecting to an upstream whose host has one address or several.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::blocking;

/// So long an address is tried at least, if there is the time.
const LEAST_TIME: Duration = Duration::from_millis(250);

/// Connects to `host` within `time`, the look-up of its addresses included.
pub(super) async fn connect(host: &str, port: u16, time: Duration) -> io::Result<TcpStream> {
    let start = Instant::now();
    let addresses = timeout(time, look_up(host, port)).await??;
    let left = time.saturating_sub(start.elapsed());
    connect_any(&addresses, left, TcpStream::connect).await
}

/// The addresses of `host`.
///
/// # Errors
/// What the system says if it knows none, or gives no thread to wait for its answer.
pub(super) async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    let looked_up = blocking::spawn(move || (host.as_str(), port).to_socket_addrs())?;
    Ok(looked_up.await.map_err(io::Error::other)??.collect())
}

/// What `connect` makes of the first of `addresses` that takes a connection, within `time` in all.
/// Each has an equal part of the time that is left, so that one which is silent leaves some to the
/// next, but no less than a connection over a long way takes.
async fn connect_any<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    time: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let start = Instant::now();
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for (address, untried) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let left = time.saturating_sub(start.elapsed());
        let part = (left / untried).max(LEAST_TIME).min(left);
        match timeout(part, connect(*address)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failed = error,
            Err(late) => failed = late.into(),
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const TIME: Duration = Duration::from_secs(12);

    /// Which of these ports is connected to, and after how many seconds: 1 is silent, 2 rejects,
    /// and others take the connection.
    async fn connected_within(time: Duration, ports: &[u16]) -> (Result<u16, io::ErrorKind>, u64) {
        let addresses = ports.iter().map(|port| SocketAddr::from(([192, 0, 2, 1], *port)));
        let addresses: Vec<_> = addresses.collect();
        let connect = |address: SocketAddr| async move {
            match address.port() {
                1 => pending::<io::Result<u16>>().await,
                2 => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                port => Ok(port),
            }
        };
        let start = Instant::now();
        let connected = connect_any(&addresses, time, connect).await;
        (connected.map_err(|error| error.kind()), start.elapsed().as_secs())
    }

    async fn connected(ports: &[u16]) -> (Result<u16, io::ErrorKind>, u64) {
        connected_within(TIME, ports).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_time_goes_to_the_first_addresses() {
        let second = Duration::from_secs(1);
        assert_eq!(connected_within(second, &[1, 1, 1, 3, 1, 1, 1, 1]).await, (Ok(3), 0));
        let late = io::ErrorKind::TimedOut;
        assert_eq!(connected_within(second, &[1, 1, 1, 1, 1, 1]).await, (Err(late), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_leaves_time_for_the_next() {
        assert_eq!(connected(&[3]).await, (Ok(3), 0));
        assert_eq!(connected(&[1, 3]).await, (Ok(3), 6));
        assert_eq!(connected(&[2, 4]).await, (Ok(4), 0));
        assert_eq!(connected(&[2, 1, 5]).await, (Ok(5), 6));
        assert_eq!(connected(&[1, 1, 1, 6, 3]).await, (Ok(6), 7));
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_them_have_the_time_together() {
        let late = io::ErrorKind::TimedOut;
        assert_eq!(connected(&[1]).await, (Err(late), 12));
        assert_eq!(connected(&[1, 1, 1]).await, (Err(late), 12));
        assert_eq!(connected(&[1, 2]).await, (Err(io::ErrorKind::ConnectionRefused), 6));
        assert_eq!(connected(&[]).await, (Err(io::ErrorKind::NotFound), 0));
    }
}
