//! The client of a request, by address, also behind proxies.
//!
//! What a peer says of others is not believed, because anyone can claim an address. Only a
//! trusted proxy is.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use http::HeaderMap;

/// The address of the client, as an extension of its request. A server that knows it sets it;
/// layers and routes of stages share by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The proxies in front of a service whose `X-Forwarded-For` is believed; by default none.
#[derive(Clone, Default)]
pub struct TrustedProxies(Option<Arc<dyn Fn(IpAddr) -> bool + Send + Sync>>);

impl TrustedProxies {
    /// The peers whose addresses are among these.
    pub fn new(is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_trusted)))
    }

    /// The address of the client whose request with these headers came from `peer`.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        // An IPv4 client of an IPv6 socket is still an IPv4 client.
        let peer = peer.to_canonical();
        match &self.0 {
            Some(is_trusted) if is_trusted(peer) => forwarded_client(peer, headers, &**is_trusted),
            _ => peer,
        }
    }
}

impl fmt::Debug for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TrustedProxies(some)" } else { "TrustedProxies(none)" })
    }
}

/// The client of a trusted `peer`: the last address in `X-Forwarded-For` that is not trusted.
pub fn forwarded_client(
    peer: IpAddr,
    headers: &HeaderMap,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let lines: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
    let named = lines.iter().rev().flat_map(|line| line.to_str().unwrap_or("").rsplit(','));
    let mut client = peer;
    for name in named {
        let Some(address) = address(name.trim()) else { break };
        client = address.to_canonical();
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// What stands for the client at `address` in bounds and shares: of an IPv6 address the network of
/// 64 bits, because each customer has one and can choose freely in it.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// An address, to which some proxies append the client's port.
fn address(name: &str) -> Option<IpAddr> {
    let with_port = || Some(SocketAddr::from_str(name).ok()?.ip());
    IpAddr::from_str(name).ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_trusted_proxy_is_believed_about_the_client() {
        let client = |line: &'static str, trusted: &'static [&str]| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", HeaderValue::from_static(line));
            let proxies = TrustedProxies::new(|peer| trusted.contains(&peer.to_string().as_str()));
            proxies.client("192.0.2.7".parse().unwrap(), &headers).to_string()
        };
        let line = "198.51.100.1, 203.0.113.9";
        assert_eq!(client(line, &[]), "192.0.2.7");
        assert_eq!(client(line, &["192.0.2.7"]), "203.0.113.9");
        assert_eq!(client(line, &["192.0.2.7", "203.0.113.9"]), "198.51.100.1");
        // Some say the port too.
        assert_eq!(client("203.0.113.9:51234", &["192.0.2.7"]), "203.0.113.9");
        assert_eq!(client("[2001:db8::1]:443", &["192.0.2.7"]), "2001:db8::1");
        // Nonsense in the list ends the belief.
        for nonsense in ["10.0.0.1, unknown", "10.0.0.1, 203.0.113.9:x", "10.0.0.1, :80"] {
            assert_eq!(client(nonsense, &["192.0.2.7"]), "192.0.2.7");
        }
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let network = |address: &str| client_network(address.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:0:1::7"), "2001:db8:0:1::");
        assert_eq!(network("2001:db8:0:1:ffff::"), "2001:db8:0:1::");
    }
}
