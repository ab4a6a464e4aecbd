//! The accept queue of a listening socket.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{SocketFlags, acceptfrom_with};
use tamarisk_http_gate::set_options;
use tokio::io::Interest;

use crate::accept::defer;
use crate::accept::listen::BACKLOG;

/// How long the kernel keeps a client to itself that has connected and not spoken yet. It is the
/// shortest time that it knows.
const MUTE_TIME: Duration = Duration::from_secs(1);

/// The clients of a listener. Tokio's own listener would have it watch each at once, and wake us for
/// a request that most have sent already and that we have answered. So this is the listener as
/// tokio's type of a stream, which alone lets one wait for a socket and do something else with it.
pub(crate) struct Arrivals(tokio::net::TcpStream);

impl Arrivals {
    pub(crate) fn of(listener: tokio::net::TcpListener) -> io::Result<Self> {
        let listener = listener.into_std()?;
        let _ = defer::set(&listener, MUTE_TIME);
        set_options(&listener);
        let listener = TcpStream::from(OwnedFd::from(listener));
        Ok(Self(tokio::net::TcpStream::from_std(listener)?))
    }

    /// The next client.
    pub(crate) async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.async_io(Interest::READABLE, || accept(&self.0)).await
    }

    /// A client who is connected already and need not be waited for.
    pub(crate) fn waiting(&self) -> Option<(TcpStream, SocketAddr)> {
        self.0.try_io(Interest::READABLE, || accept(&self.0)).ok()
    }

    /// The clients still in the accept queue: closing the listener would reset them.
    pub(crate) fn left_behind(self) -> Vec<(TcpStream, SocketAddr)> {
        (0..BACKLOG).map_while(|_| accept(&self.0).ok()).collect()
    }
}

fn accept(listener: impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, peer) = acceptfrom_with(listener, flags)?;
    let peer = peer.ok_or(io::ErrorKind::NotConnected)?;
    Ok((socket.into(), SocketAddr::try_from(peer)?))
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;

    use super::*;

    #[tokio::test]
    async fn what_is_set_on_the_listener_holds_for_its_connections() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let arrivals = Arrivals::of(listener).unwrap();
        let client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (accepted, peer) = arrivals.next().await.unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        let accepted = SockRef::from(&accepted);
        assert!(accepted.tcp_nodelay().unwrap() && accepted.nonblocking().unwrap());
        assert!(accepted.keepalive().unwrap());
    }
}
