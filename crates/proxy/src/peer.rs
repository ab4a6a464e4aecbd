//! Telling the upstream about the client: `Forwarded` [RFC7239 §4] and `X-Forwarded-*`.
//!
//! What a client says of this itself is dropped, because anyone can claim an address.
//! Only what a trusted proxy in front of us says is kept and added to.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use parking_lot::Mutex;

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
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The other end of a client's connection.
#[derive(Debug)]
pub struct Peer {
    address: IpAddr,
    trusted: bool,
    scheme: Scheme,
    /// What was announced for the host last asked for: most connections ask for one.
    last: Mutex<(Option<HeaderValue>, Announcement)>,
}

/// The lines for one host, ready to be written.
#[derive(Debug, Default)]
struct Announcement {
    /// `X-Forwarded-For` and `Forwarded`.
    lists: String,
    /// `X-Forwarded-Proto`.
    proto: String,
    /// `X-Forwarded-Host`.
    host: String,
}

/// Which of the fields that are no lists a trusted proxy has set already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) proto: bool,
    pub(crate) host: bool,
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
            last: Mutex::new((None, Announcement::of(address, None, scheme))),
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
        let lines: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
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

    /// Writes the lines that tell the upstream where a request comes from: in
    /// place of the client's own, or behind those that are `kept` of it.
    pub(crate) fn announce(&self, out: &mut Vec<u8>, host: Option<&HeaderValue>, kept: Kept) {
        let mut last = self.last.lock();
        if last.0.as_ref() != host {
            *last = (host.cloned(), Announcement::of(self.address, host, self.scheme));
        }
        let announcement = &last.1;
        // Another line of a list field is another element of the list.
        out.extend_from_slice(announcement.lists.as_bytes());
        if !kept.proto {
            out.extend_from_slice(announcement.proto.as_bytes());
        }
        if !kept.host {
            out.extend_from_slice(announcement.host.as_bytes());
        }
    }
}

impl Announcement {
    fn of(client: IpAddr, host: Option<&HeaderValue>, scheme: Scheme) -> Self {
        let node = match client {
            IpAddr::V4(address) => format!("for={address}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
        };
        let proto = scheme.name();
        let text = host.and_then(|host| host.to_str().ok());
        let (element, host) = match text {
            // The guard and hyper let no quote or backslash into a host.
            Some(host) if !host.contains(['"', '\\']) => (
                format!("{node};host=\"{host}\";proto={proto}"),
                format!("x-forwarded-host: {host}\r\n"),
            ),
            _ => (format!("{node};proto={proto}"), String::new()),
        };
        Self {
            lists: format!("x-forwarded-for: {client}\r\nforwarded: {element}\r\n"),
            proto: format!("x-forwarded-proto: {proto}\r\n"),
            host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, trusted: &[IpNet]) -> Peer {
        Peer::new(address.parse().unwrap(), trusted, Scheme::Http)
    }

    fn announced(peer: &Peer, host: Option<&'static str>, kept: Kept) -> Vec<String> {
        let mut out = Vec::new();
        peer.announce(&mut out, host.map(HeaderValue::from_static).as_ref(), kept);
        String::from_utf8(out).unwrap().split_terminator("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn the_client_is_named_with_the_host_it_asked_for() {
        let peer = peer("[::ffff:192.0.2.7]:4711", &[]);
        for host in ["a.example:80", "b.example"] {
            assert_eq!(
                announced(&peer, Some(host), Kept::default()),
                [
                    "x-forwarded-for: 192.0.2.7".to_owned(),
                    format!("forwarded: for=192.0.2.7;host=\"{host}\";proto=http"),
                    "x-forwarded-proto: http".to_owned(),
                    format!("x-forwarded-host: {host}"),
                ]
            );
        }
    }

    #[test]
    fn an_upstream_is_told_of_tls() {
        let peer = Peer::new("192.0.2.7:1".parse().unwrap(), &[], Scheme::Https);
        let expected = [
            "x-forwarded-for: 192.0.2.7",
            "forwarded: for=192.0.2.7;host=\"a.example\";proto=https",
            "x-forwarded-proto: https",
            "x-forwarded-host: a.example",
        ];
        assert_eq!(announced(&peer, Some("a.example"), Kept::default()), expected);
    }

    #[test]
    fn an_ipv6_client_is_quoted() {
        let lines =
            announced(&peer("[2001:db8::1]:1", &[]), None, Kept { proto: true, host: true });
        let expected =
            ["x-forwarded-for: 2001:db8::1", "forwarded: for=\"[2001:db8::1]\";proto=http"];
        assert_eq!(lines, expected);
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
        // Nonsense in the list ends the belief.
        assert_eq!(client("10.0.0.1, unknown", &["192.0.2.0/24"]), "192.0.2.7");
    }
}
