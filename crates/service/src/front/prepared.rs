//! What a front needs besides its sockets, and what is known of these before they are opened.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use tamarisk_server::{ListenError, Listeners};
use tamarisk_settings::{Mistakes, Several};

use super::error::{FrontError, SameAddress};
use super::options::FrontOptions;
use super::status_port::Status;
use super::{Front, FrontParts};

/// A front that can listen as far as can be known while another process does: its token is read,
/// its files are open.
pub struct PreparedFront {
    options: FrontOptions,
    status: Status,
    parts: FrontParts,
}

impl PreparedFront {
    /// What `options` say, for clients who come by sockets that were `inherited`, if any were. All that stands
    /// against it is noted.
    pub fn new<E: Several + From<FrontError>>(
        options: &FrontOptions,
        inherited: Option<SocketAddr>,
        mistakes: &mut Mistakes<E>,
    ) -> Option<Self> {
        let is_ours = |address| is_ours(address).map_err(FrontError::from);
        let listen = inherited.unwrap_or(options.listen);
        if inherited.is_none() {
            mistakes.note(is_ours(listen));
        }
        if let Some(status) = options.status {
            mistakes.note(is_ours(status));
            mistakes.note(ensure_apart(listen, status).map_err(FrontError::from));
        }
        let status = Status::open(options, mistakes);
        let parts = mistakes.note(FrontParts::new(options));
        Some(Self { options: options.clone(), status: status?, parts: parts? })
    }

    /// Listens where the options say.
    ///
    /// # Errors
    /// [`FrontError::Listen`].
    pub fn bind(self) -> Result<Front, FrontError> {
        let listeners = Listeners::bind(self.options.listen, self.options.cores)?;
        self.inherit(listeners)
    }

    /// Listens on `listeners` that another process has passed on, whatever the options say of an
    /// address.
    ///
    /// # Errors
    /// [`FrontError::Listen`].
    pub fn inherit(self, listeners: Listeners) -> Result<Front, FrontError> {
        let Self { options, status, parts } = self;
        Ok(Front { listeners, status: status.bind(&options)?, parts })
    }
}

/// That clients and operators are served at different addresses.
///
/// # Errors
/// [`SameAddress`].
pub fn ensure_apart(listen: SocketAddr, status: SocketAddr) -> Result<(), SameAddress> {
    // Each is given a free port.
    let is_chosen = listen.port() != 0;
    match is_chosen && listen.port() == status.port() && share_an_address(listen, status) {
        true => Err(SameAddress { listen, status }),
        false => Ok(()),
    }
}

/// Whether a client of one may find the other: the unspecified address is all of its family, and that of IPv6
/// all of both.
fn share_an_address(one: SocketAddr, other: SocketAddr) -> bool {
    let [one, other] = [one, other].map(|address| address.ip().to_canonical());
    let has = |all: std::net::IpAddr, ip: std::net::IpAddr| {
        all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4())
    };
    one == other || has(one, other) || has(other, one)
}

/// That this machine has the address. Its port may be taken.
fn is_ours(address: SocketAddr) -> Result<(), ListenError> {
    match UdpSocket::bind((address.ip(), 0)) {
        Err(source) if source.kind() == io::ErrorKind::AddrNotAvailable => {
            Err(ListenError::Address { address, source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_a_client_cannot_tell_apart_are_the_same() {
        let is_same = |one: &str, other: &str| {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(ensure_apart(one, other).is_err(), ensure_apart(other, one).is_err());
            ensure_apart(one, other).is_err()
        };
        assert!(is_same("127.0.0.1:80", "127.0.0.1:80"));
        assert!(is_same("0.0.0.0:80", "127.0.0.1:80"));
        assert!(is_same("[::]:80", "127.0.0.1:80"));
        assert!(is_same("[::ffff:127.0.0.1]:80", "127.0.0.1:80"));
        assert!(!is_same("0.0.0.0:80", "[::1]:80"));
        assert!(!is_same("127.0.0.1:80", "127.0.0.2:80"));
        assert!(!is_same("127.0.0.1:80", "127.0.0.1:81"));
        assert!(!is_same("127.0.0.1:0", "127.0.0.1:0"), "each gets a free port");
    }
}
