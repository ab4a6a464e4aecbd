//! Where a client is: at the other end of its connection, or where a trusted proxy says.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::extract::ConnectInfo;
use http::HeaderMap;
use http::request::Parts;
use ipnet::IpNet;
use parking_lot::Mutex;
use tamarisk_http_gate::forwarded_client;

/// Header fields by which proxies name the client.
const FORWARDING: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];

/// That an untrusted peer names clients is said no more often than this: whoever can connect can
/// be such a peer.
const WARN_EVERY: Duration = Duration::from_secs(600);

/// Finds the addresses of clients.
pub(crate) struct ClientAddresses {
    trust: Trust,
    warned: Mutex<Option<Instant>>,
}

/// Whose word on the client is taken.
enum Trust {
    /// Each peer is the proxy that ends TLS: what it appended is its client.
    AnyPeer,
    Proxies(Vec<IpNet>),
}

impl ClientAddresses {
    /// With these proxies in front; if none is stated, each peer of a service `behind_tls` is one.
    pub(crate) fn new(proxies: &[IpNet], behind_tls: bool) -> Self {
        let trust = match proxies {
            [] if behind_tls => Trust::AnyPeer,
            proxies => Trust::Proxies(proxies.to_vec()),
        };
        Self { trust, warned: Mutex::new(None) }
    }

    /// The address of the client that a request came from.
    pub(crate) fn of(&self, head: &Parts) -> IpAddr {
        let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
        // An IPv4 client of an IPv6 socket is still an IPv4 client.
        let peer =
            peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip().to_canonical());
        match &self.trust {
            Trust::AnyPeer => forwarded_client(peer, &head.headers, |_| false),
            Trust::Proxies(proxies) => {
                let is_trusted = |address| proxies.iter().any(|proxy| proxy.contains(&address));
                if is_trusted(peer) {
                    return forwarded_client(peer, &head.headers, is_trusted);
                }
                if names_client(&head.headers) && self.is_time_to_warn(Instant::now()) {
                    tracing::warn!(
                        "Requests from {peer} name their clients in forwarding headers, which are \
                         ignored: {peer} is no trusted proxy. If it is your proxy, all its clients \
                         count as one where failed log-ins are limited: add --trusted-proxy {peer}"
                    );
                }
                peer
            }
        }
    }

    fn is_time_to_warn(&self, now: Instant) -> bool {
        let mut warned = self.warned.lock();
        let is_time = warned.is_none_or(|last| now.duration_since(last) >= WARN_EVERY);
        if is_time {
            *warned = Some(now);
        }
        is_time
    }
}

fn names_client(headers: &HeaderMap) -> bool {
    FORWARDING.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn client(addresses: &ClientAddresses, peer: &str, forwarded: &str) -> String {
        let request = Request::get("/").header("x-forwarded-for", forwarded);
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        head.extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
        addresses.of(&head).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let proxies = ["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        for behind_tls in [false, true] {
            let addresses = ClientAddresses::new(&proxies, behind_tls);
            for (peer, forwarded, expected) in [
                ("192.0.2.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
                ("::ffff:192.0.2.1", "203.0.113.9, 192.0.2.2", "203.0.113.9"),
                ("2001:db8::1", "203.0.113.9", "203.0.113.9"),
                ("192.0.2.1", "nonsense", "192.0.2.1"),
                ("198.51.100.7", "203.0.113.9", "198.51.100.7"),
            ] {
                assert_eq!(client(&addresses, peer, forwarded), expected, "{peer} {forwarded}");
            }
        }
    }

    #[test]
    fn behind_tls_without_stated_proxies_the_last_address_is_the_clients() {
        let addresses = ClientAddresses::new(&[], true);
        assert_eq!(client(&addresses, "192.0.2.1", "1.1.1.1, 203.0.113.9"), "203.0.113.9");
        assert_eq!(client(&ClientAddresses::new(&[], false), "192.0.2.1", "1.1.1.1"), "192.0.2.1");
    }

    #[test]
    fn an_untrusted_proxy_is_warned_of_once_in_ten_minutes() {
        let (addresses, now) = (ClientAddresses::new(&[], false), Instant::now());
        let is_time = |after| addresses.is_time_to_warn(now + Duration::from_secs(after));
        assert_eq!([0, 599, 600, 700].map(is_time), [true, false, true, false]);
    }
}
