//! Listening sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel may hold for us while we do not get to accept;
/// it lowers the number to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is taken, or not ours to listen on.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// What another process has passed on is no socket that listens.
    #[error("cannot use the sockets passed by systemd or the previous process")]
    Inherited(#[source] io::Error),
    /// The system gave no thread, or no event queue.
    #[error("cannot start a thread for each core")]
    Cores(#[source] io::Error),
}

/// Sockets that listen, shared out to cores; the kernel spreads new connections among those of
/// one address.
#[derive(Debug)]
pub struct Listeners {
    /// For each core at least one of each address.
    sockets: Vec<Vec<TcpListener>>,
    local_addr: SocketAddr,
}

/// Who may listen on an address already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlreadyListening {
    /// Nobody: another process would take a part of the clients, and nobody would notice.
    Nobody,
    /// The process that is being taken over from.
    Predecessor,
}

impl Listeners {
    /// Listens on `address` for `cores` cores. With port 0 they share the port that the
    /// first one is given.
    ///
    /// # Errors
    /// [`ListenError::Address`].
    pub fn bind(address: SocketAddr, cores: NonZeroUsize) -> Result<Self, ListenError> {
        let bound = || {
            is_free(address)?;
            let first = listener(address, cores > NonZeroUsize::MIN)?;
            let local_addr = first.local_addr()?;
            let mut sockets = vec![vec![first]];
            for _ in 1..cores.get() {
                sockets.push(vec![listener(local_addr, true)?]);
            }
            Ok(Self { sockets, local_addr })
        };
        bound().map_err(|source| ListenError::Address { address, source })
    }

    /// Takes over `sockets`, which another process has opened: each is accepted from by one
    /// core at least, and every core accepts for every address.
    ///
    /// # Errors
    /// [`ListenError::Inherited`] if there are none, or one does not listen.
    pub fn inherited(sockets: Vec<TcpListener>, cores: NonZeroUsize) -> Result<Self, ListenError> {
        let shared_out = || {
            let mut by_address = BTreeMap::<SocketAddr, Vec<TcpListener>>::new();
            for socket in sockets {
                socket.set_nonblocking(true)?;
                by_address.entry(socket.local_addr()?).or_default().push(socket);
            }
            let local_addr = *by_address.keys().next().ok_or(io::ErrorKind::NotFound)?;
            let mut shares: Vec<Vec<TcpListener>> = (0..cores.get()).map(|_| Vec::new()).collect();
            for sockets in by_address.values() {
                for turn in 0..sockets.len().max(shares.len()) {
                    let core = turn % shares.len();
                    shares[core].push(sockets[turn % sockets.len()].try_clone()?);
                }
            }
            Ok(Self { sockets: shares, local_addr })
        };
        shared_out().map_err(ListenError::Inherited)
    }

    /// The same sockets once more, for another process to [inherit](Self::inherited). As long as
    /// they are held, clients can connect.
    ///
    /// # Errors
    /// Those of the system: there are no descriptors left.
    pub fn to_pass_on(&self) -> io::Result<Vec<TcpListener>> {
        self.sockets.iter().flatten().map(TcpListener::try_clone).collect()
    }

    /// Listens on `address` with one socket, on the runtime that this is called on; a process
    /// that takes over from this one may do so as well.
    ///
    /// # Errors
    /// [`ListenError::Address`].
    pub fn bind_here(
        address: SocketAddr,
        beside: AlreadyListening,
    ) -> Result<tokio::net::TcpListener, ListenError> {
        let free = match beside {
            AlreadyListening::Nobody => is_free(address),
            AlreadyListening::Predecessor => Ok(()),
        };
        let bound = free.and_then(|()| listener(address, true));
        bound
            .and_then(tokio::net::TcpListener::from_std)
            .map_err(|source| ListenError::Address { address, source })
    }

    /// Where clients connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The sockets of each core.
    pub(crate) fn into_shares(self) -> Vec<Vec<TcpListener>> {
        self.sockets
    }
}

/// That nobody listens on `address`, who may share it with us for all that the kernel knows.
fn is_free(address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 {
        return Ok(());
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of the past are in nobody's way.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}

fn listener(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(per_address: &[usize]) -> Vec<TcpListener> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let bind = |&count: &usize| Listeners::bind(any, NonZeroUsize::new(count).unwrap());
        per_address.iter().flat_map(|count| bind(count).unwrap().to_pass_on().unwrap()).collect()
    }

    /// How many sockets each core gets.
    fn check(per_address: &[usize], cores: usize, expected: &[usize]) {
        let sockets = sockets(per_address);
        let mut addresses: Vec<_> = sockets.iter().map(|s| s.local_addr().unwrap()).collect();
        addresses.sort();
        addresses.dedup();
        let listeners = Listeners::inherited(sockets, NonZeroUsize::new(cores).unwrap()).unwrap();
        assert_eq!(listeners.local_addr(), addresses[0]);
        let shares = listeners.into_shares();
        assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), expected);
        for share in shares {
            let mut of: Vec<_> = share.iter().map(|s| s.local_addr().unwrap()).collect();
            of.sort();
            of.dedup();
            assert_eq!(of, addresses, "every core accepts for every address");
        }
    }

    #[test]
    fn inherited_sockets_are_shared_out_to_whatever_cores_there_are() {
        check(&[2], 2, &[1, 1]);
        check(&[1], 3, &[1, 1, 1]);
        check(&[3], 2, &[2, 1]);
        check(&[1, 1], 2, &[2, 2]);
        check(&[2, 1], 1, &[3]);
    }

    #[test]
    fn an_address_that_somebody_shares_is_taken() {
        let one =
            Listeners::bind(SocketAddr::from(([127, 0, 0, 1], 0)), NonZeroUsize::new(2).unwrap());
        let one = one.unwrap();
        let address = one.local_addr();
        let error = Listeners::bind(address, NonZeroUsize::new(2).unwrap()).unwrap_err();
        let ListenError::Address { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::AddrInUse);
        drop(one);
        Listeners::bind(address, NonZeroUsize::MIN).unwrap();
    }

    #[test]
    fn none_to_inherit_is_an_error() {
        let error = Listeners::inherited(Vec::new(), NonZeroUsize::MIN).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot use the sockets passed by systemd or the previous process"
        );
    }
}
