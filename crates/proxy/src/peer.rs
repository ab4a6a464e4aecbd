//! The other end of a client's connection: its address, and whose requests it passes on.
//!
//! What a client says of others is not believed, because anyone can claim an address. Only a
//! trusted proxy in front of us is.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use parking_lot::Mutex;
use tamarisk_http_gate::forwarded_client;

/// How a client comes here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// In clear text.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As a URI has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The other end of a client's connection.
#[derive(Debug)]
pub struct Peer {
    pub(crate) address: IpAddr,
    trusted: bool,
    pub(crate) scheme: Scheme,
    /// What upstreams were told of it last: most connections ask for one host.
    pub(crate) announced: Mutex<Option<Announcement>>,
}

/// The lines that tell an upstream of a client that asks for a host, ready to be written.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// The host that it asks for.
    pub(crate) asked: Option<HeaderValue>,
    /// `X-Forwarded-For` and `Forwarded`.
    pub(crate) lists: String,
    /// `X-Forwarded-Proto`.
    pub(crate) proto: String,
    /// `X-Forwarded-Host`.
    pub(crate) host: String,
}

impl Peer {
    /// The peer at `address`, which is believed if it is in one of `trusted`.
    pub(crate) fn new(address: SocketAddr, trusted: &[IpNet], scheme: Scheme) -> Self {
        // An IPv4 client of an IPv6 socket is still an IPv4 client.
        let address = address.ip().to_canonical();
        Self {
            address,
            trusted: trusted.iter().any(|network| network.contains(&address)),
            scheme,
            announced: Mutex::new(None),
        }
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// The client's address: the peer's own, or, if a trusted peer passes on
    /// requests of others, the last one that `X-Forwarded-For` names outside
    /// of `trusted`.
    pub(crate) fn client(&self, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
        if !self.trusted {
            return self.address;
        }
        let is_trusted = |address| trusted.iter().any(|network| network.contains(&address));
        forwarded_client(self.address, headers, is_trusted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, trusted: &[IpNet]) -> Peer {
        Peer::new(address.parse().unwrap(), trusted, Scheme::Http)
    }

    #[test]
    fn only_a_trusted_proxy_is_believed_about_the_client() {
        let client = |line: &'static str, trusted: &[&str]| {
            let trusted: Vec<IpNet> = trusted.iter().map(|net| net.parse().unwrap()).collect();
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", HeaderValue::from_static(line));
            peer("192.0.2.7:1", &trusted).client(&headers, &trusted).to_string()
        };
        let line = "198.51.100.1, 203.0.113.9";
        assert_eq!(client(line, &[]), "192.0.2.7");
        assert_eq!(client(line, &["192.0.2.0/24"]), "203.0.113.9");
        assert_eq!(client(line, &["192.0.2.0/24", "203.0.113.0/24"]), "198.51.100.1");
        // Some say the port too.
        assert_eq!(client("203.0.113.9:51234", &["192.0.2.0/24"]), "203.0.113.9");
        assert_eq!(client("[2001:db8::1]:443", &["192.0.2.0/24"]), "2001:db8::1");
        let line = "198.51.100.1:1, 203.0.113.9:2";
        assert_eq!(client(line, &["192.0.2.0/24", "203.0.113.0/24"]), "198.51.100.1");
        // Nonsense in the list ends the belief.
        for nonsense in ["10.0.0.1, unknown", "10.0.0.1, 203.0.113.9:x", "10.0.0.1, :80"] {
            assert_eq!(client(nonsense, &["192.0.2.0/24"]), "192.0.2.7");
        }
    }
}
