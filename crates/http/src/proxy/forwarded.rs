//! Telling the upstream about the client: `Forwarded` [RFC7239], `X-Forwarded-*`, `Via`.
//!
//! What a client says of this itself is dropped, because anyone can claim an address.
//! Only what a trusted proxy in front of us says is kept and added to.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::header::{FORWARDED, HeaderName, VIA};
use http::{HeaderMap, HeaderValue, Version};
use ipnet::IpNet;
use parking_lot::Mutex;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HTTP: HeaderValue = HeaderValue::from_static("http");

/// The other end of a client's connection.
#[derive(Debug)]
pub(crate) struct Peer {
    address: IpAddr,
    trusted: bool,
    address_value: HeaderValue,
    /// `Forwarded` for the host last asked for: most connections ask for one.
    forwarded: Mutex<Option<(HeaderValue, HeaderValue)>>,
}

impl Peer {
    /// The peer at `address`, which is believed if it is in one of `trusted`.
    pub(crate) fn new(address: SocketAddr, trusted: &[IpNet]) -> Self {
        // An IPv4 client of an IPv6 socket is still an IPv4 client.
        let address = address.ip().to_canonical();
        Self {
            address,
            trusted: trusted.iter().any(|network| network.contains(&address)),
            address_value: value(address.to_string()),
            forwarded: Mutex::new(None),
        }
    }

    /// The client's address: the peer's own, or, if a trusted peer passes on
    /// requests of others, the last one that `X-Forwarded-For` names outside
    /// of `trusted`.
    pub(crate) fn client(&self, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
        if !self.trusted {
            return self.address;
        }
        let lines: Vec<_> = headers.get_all(X_FORWARDED_FOR).iter().collect();
        let named = lines.iter().rev().flat_map(|line| line.to_str().unwrap_or("").rsplit(','));
        let mut client = self.address;
        for name in named {
            let Ok(address) = IpAddr::from_str(name.trim()) else { break };
            client = address.to_canonical();
            if !trusted.iter().any(|network| network.contains(&client)) {
                break;
            }
        }
        client
    }

    /// Writes the fields that tell the upstream where a request comes from.
    pub(super) fn announce(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        if self.trusted {
            // Another line of a list field is another element of the list.
            headers.append(X_FORWARDED_FOR, self.address_value.clone());
            headers.append(FORWARDED, self.forwarded(host));
            headers.entry(X_FORWARDED_PROTO).or_insert(HTTP);
            if let Some(host) = host {
                headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
            }
            return;
        }
        headers.insert(X_FORWARDED_FOR, self.address_value.clone());
        headers.insert(X_FORWARDED_PROTO, HTTP);
        headers.insert(FORWARDED, self.forwarded(host));
        match host {
            Some(host) => headers.insert(X_FORWARDED_HOST, host.clone()),
            None => headers.remove(X_FORWARDED_HOST),
        };
    }

    fn forwarded(&self, host: Option<&HeaderValue>) -> HeaderValue {
        let Some(host) = host else { return self.element(None) };
        let mut last = self.forwarded.lock();
        match &*last {
            Some((known, forwarded)) if known == host => forwarded.clone(),
            _ => {
                let forwarded = self.element(Some(host));
                *last = Some((host.clone(), forwarded.clone()));
                forwarded
            }
        }
    }

    /// `for=192.0.2.1;host="example.org";proto=http`
    fn element(&self, host: Option<&HeaderValue>) -> HeaderValue {
        let client = match self.address {
            IpAddr::V4(address) => format!("for={address}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
        };
        match host.and_then(|host| host.to_str().ok()) {
            // A host has no quotes or backslashes: the guard and hyper see to it.
            Some(host) if !host.contains(['"', '\\']) => {
                value(format!("{client};host=\"{host}\";proto=http"))
            }
            _ => value(format!("{client};proto=http")),
        }
    }
}

/// Adds us to the list of those who passed the message on [RFC9110 §7.6.3].
pub(super) fn via(headers: &mut HeaderMap, version: Version) {
    let us = HeaderValue::from_static(match version {
        Version::HTTP_10 => "1.0 tamarisk",
        Version::HTTP_2 => "2 tamarisk",
        _ => "1.1 tamarisk",
    });
    headers.append(VIA, us);
}

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("addresses and checked hosts are visible characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(trusted: &[IpNet]) -> Peer {
        Peer::new("[::ffff:192.0.2.7]:4711".parse().unwrap(), trusted)
    }

    fn claims() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("198.51.100.1, 203.0.113.9"));
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("https"));
        headers.insert(FORWARDED, HeaderValue::from_static("for=198.51.100.1"));
        headers
    }

    fn lines<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
        headers.get_all(name).iter().map(|line| line.to_str().unwrap()).collect()
    }

    #[test]
    fn what_a_stranger_claims_is_replaced() {
        let mut headers = claims();
        let host = HeaderValue::from_static("a.example:80");
        peer(&[]).announce(&mut headers, Some(&host));
        assert_eq!(lines(&headers, &X_FORWARDED_FOR), ["192.0.2.7"]);
        assert_eq!(lines(&headers, &X_FORWARDED_PROTO), ["http"]);
        assert_eq!(lines(&headers, &X_FORWARDED_HOST), ["a.example:80"]);
        assert_eq!(lines(&headers, &FORWARDED), ["for=192.0.2.7;host=\"a.example:80\";proto=http"]);
        assert_eq!(peer(&[]).client(&claims(), &[]).to_string(), "192.0.2.7");
    }

    #[test]
    fn what_a_trusted_proxy_says_is_added_to() {
        let trusted = ["192.0.2.0/24".parse().unwrap(), "203.0.113.0/24".parse().unwrap()];
        let mut headers = claims();
        peer(&trusted).announce(&mut headers, None);
        assert_eq!(lines(&headers, &X_FORWARDED_FOR), ["198.51.100.1, 203.0.113.9", "192.0.2.7"]);
        assert_eq!(lines(&headers, &X_FORWARDED_PROTO), ["https"]);
        assert_eq!(lines(&headers, &FORWARDED), ["for=198.51.100.1", "for=192.0.2.7;proto=http"]);
        assert_eq!(peer(&trusted).client(&claims(), &trusted).to_string(), "198.51.100.1");
    }

    #[test]
    fn nonsense_in_the_list_ends_the_belief() {
        let trusted = ["192.0.2.0/24".parse().unwrap()];
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("10.0.0.1, unknown"));
        assert_eq!(peer(&trusted).client(&headers, &trusted).to_string(), "192.0.2.7");
    }

    #[test]
    fn an_ipv6_client_is_quoted() {
        let peer = Peer::new("[2001:db8::1]:1".parse().unwrap(), &[]);
        assert_eq!(peer.element(None), "for=\"[2001:db8::1]\";proto=http");
    }

    #[test]
    fn each_message_says_by_which_protocol_it_came() {
        let mut headers = HeaderMap::new();
        headers.insert(VIA, HeaderValue::from_static("1.1 before"));
        via(&mut headers, Version::HTTP_2);
        assert_eq!(lines(&headers, &VIA), ["1.1 before", "2 tamarisk"]);
    }
}
