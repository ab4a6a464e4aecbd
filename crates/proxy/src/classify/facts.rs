//! Whose request it is.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use http::header::HeaderName;
use tamarisk_stage::Entry;

use super::condition::cookie;

/// How the clients of a service are told apart, so that none takes the shares of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Client {
    /// By their addresses: those of one IPv6 network of 64 bits are one client.
    #[default]
    Address,
    /// By the value of this header; by the address if there is none.
    Header(HeaderName),
    /// By the value of this cookie; by the address if there is none.
    Cookie(String),
}

impl Client {
    /// Marks `entry` as one of the client's, whose address belongs to this `network`.
    pub(crate) fn mark(&self, entry: Entry, headers: &HeaderMap, network: IpAddr) -> Entry {
        let value = match self {
            Self::Address => None,
            Self::Header(name) => headers.get(name).map(http::HeaderValue::as_bytes),
            Self::Cookie(name) => cookie(headers, name).map(str::as_bytes),
        };
        match value {
            Some(value) => entry.flow(value),
            None => entry.flow(network),
        }
    }
}

/// What stands for the client at `address`: of an IPv6 address the network of 64 bits, because
/// each customer has one and can choose freely in it.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::COOKIE;

    use super::*;

    #[test]
    fn clients_are_told_apart_as_configured() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("k1"));
        headers.insert(COOKIE, HeaderValue::from_static("a=b; session=s1"));
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let mark = |client: &Client, headers: &HeaderMap, address| {
            client.mark(Entry::new(), headers, address)
        };
        let key = Client::Header(HeaderName::from_static("x-api-key"));
        let session = Client::Cookie("session".to_owned());
        let none = HeaderMap::new();
        for client in [&key, &session] {
            assert_eq!(mark(client, &headers, one), mark(client, &headers, other));
            assert_ne!(mark(client, &none, one), mark(client, &none, other));
            assert_ne!(mark(client, &headers, one), mark(client, &none, one));
        }
        assert_ne!(mark(&key, &headers, one), mark(&session, &headers, one));
        assert_ne!(mark(&Client::Address, &headers, one), mark(&Client::Address, &headers, other));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let network = |address: &str| network_of(address.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:0:1::7"), "2001:db8:0:1::");
        assert_eq!(network("2001:db8:0:1:ffff::"), "2001:db8:0:1::");
    }
}
