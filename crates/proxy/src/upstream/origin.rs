//! Where an upstream is: a host and a port.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use http::Uri;
use http::uri::Authority;

use crate::upstream::connect::look_up;

/// Why a URL is none that an upstream can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpstream {
    /// Not a URL at all.
    #[error("{0:?} is not a URL")]
    Malformed(String),
    /// TLS is not spoken to upstreams.
    #[error(
        "{0:?}: https upstreams are not supported; put a local TLS proxy such as stunnel between, \
         or use http://"
    )]
    Tls(String),
    /// Some other scheme.
    #[error("{0:?} does not begin with http://; write for example http://127.0.0.1:3000")]
    Scheme(String),
    /// A host alone.
    #[error("{0:?} has no port: write {0}:3000, or http://{0} for port 80")]
    NoPort(String),
    /// More than a host and a port.
    #[error("{0:?} has a path or a query: only a host and a port can be given")]
    NotBare(String),
    /// A user, and perhaps a password, which is not repeated.
    #[error("the URL of a service has no user and no password: remove what stands before the `@`")]
    Credentials,
    /// No host, or something behind it that is not `:` and a number from 1 to 65535.
    #[error("{0:?} has no host, or no port from 1 to 65535, that could be connected to")]
    Place(String),
}

/// A host and a port, as upstream URLs have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub(super) authority: Authority,
    pub(super) host: String,
    pub(super) port: u16,
}

impl std::str::FromStr for Origin {
    type Err = InvalidUpstream;

    /// Reads `http://host` or `http://host:port`, `host:port`, or `:port` of this machine.
    fn from_str(url: &str) -> Result<Self, InvalidUpstream> {
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        if authority.split(['/', '?', '#']).next().is_some_and(|it| it.contains('@')) {
            return Err(InvalidUpstream::Credentials);
        }
        let whole = match url.strip_prefix(':') {
            Some(port) => format!("http://127.0.0.1:{port}"),
            None if !url.contains('/') && url.contains(':') => format!("http://{url}"),
            None => url.to_owned(),
        };
        let uri: Uri = whole.parse().map_err(|_| InvalidUpstream::Malformed(url.to_owned()))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(InvalidUpstream::Tls(url.to_owned())),
            None if uri.authority().is_some() => {
                return Err(InvalidUpstream::NoPort(url.to_owned()));
            }
            _ => return Err(InvalidUpstream::Scheme(url.to_owned())),
        }
        let authority = match uri.authority() {
            Some(authority)
                if matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("/")) =>
            {
                authority.clone()
            }
            _ => return Err(InvalidUpstream::NotBare(url.to_owned())),
        };
        let place = host_and_port(&authority).map(|(host, port)| (host.to_owned(), port));
        let (host, port) = place.ok_or_else(|| InvalidUpstream::Place(url.to_owned()))?;
        Ok(Self { authority, host, port })
    }
}

/// What to connect to: a host, without the brackets of an IPv6 address, and a port. An
/// [`Authority`] alone may be neither: it takes any text for a port, and then says that
/// there is none, and brackets anywhere in a host.
pub fn host_and_port(authority: &Authority) -> Option<(&str, u16)> {
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let is_plain = *authority == *host || *authority == *format!("{host}:{port}");
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|ip| ip.parse::<Ipv6Addr>().is_ok())?,
        None => host,
    };
    (is_plain && port > 0 && !host.is_empty() && !host.contains(['[', ']'])).then_some((host, port))
}

impl Origin {
    /// Its host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether both are the same host and port, however they are written.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.port == other.port
    }

    /// Whether a connection to it would reach a listener at `listen` on this machine, as far as is
    /// known at present.
    pub async fn is_at(&self, listen: SocketAddr) -> bool {
        if self.port != listen.port() {
            return false;
        }
        let Ok(found) = look_up(&self.host, self.port).await else { return false };
        let own = listen.ip().to_canonical();
        found.iter().any(|address| {
            let ip = address.ip().to_canonical();
            // The unspecified address stands for all of this machine, which alone a socket takes.
            let is_among = || own.is_ipv6() || ip.is_ipv4();
            let is_own = || UdpSocket::bind((ip, 0)).is_ok();
            ip == own || (own.is_unspecified() && is_among() && is_own())
        })
    }

    /// Whether its host has an address at present.
    ///
    /// # Errors
    /// What the system says if it has none.
    pub async fn resolve(&self) -> io::Result<()> {
        let found = look_up(&self.host, self.port).await?;
        found.first().map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_where_somebody_listens_if_connections_come_there() {
        for (url, listen, is_there) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", true),
            ("http://localhost:8080", "127.0.0.1:8080", true),
            ("http://127.0.0.1:8080", "0.0.0.0:8080", true),
            ("http://127.0.0.1:8080", "[::]:8080", true),
            ("http://127.0.0.1:8080", "127.0.0.1:8081", false),
            ("http://127.0.0.1:8080", "127.0.0.2:8080", false),
            ("http://[::1]:8080", "0.0.0.0:8080", false),
            // Of a network for documentation: of no machine.
            ("http://192.0.2.1:8080", "0.0.0.0:8080", false),
            ("http://no-such-host.invalid:8080", "0.0.0.0:8080", false),
        ] {
            let origin: Origin = url.parse().unwrap();
            assert_eq!(origin.is_at(listen.parse().unwrap()).await, is_there, "{url} {listen}");
        }
    }

    #[test]
    fn an_origin_is_a_host_and_a_port() {
        for (url, expected) in [
            ("http://a", "http://a"),
            ("http://a/", "http://a"),
            ("http://a:3000", "http://a:3000"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("localhost:3000", "http://localhost:3000"),
            (":3000", "http://127.0.0.1:3000"),
        ] {
            assert_eq!(
                url.parse::<Origin>().map(|origin| origin.to_string()),
                Ok(expected.to_owned())
            );
        }
        let error = |url: &str| url.parse::<Origin>().unwrap_err();
        assert_eq!(error("a b"), InvalidUpstream::Malformed("a b".to_owned()));
        assert_eq!(error("a"), InvalidUpstream::NoPort("a".to_owned()));
        assert_eq!(error("https://a"), InvalidUpstream::Tls("https://a".to_owned()));
        assert_eq!(error("ftp://a"), InvalidUpstream::Scheme("ftp://a".to_owned()));
        assert_eq!(error("/a"), InvalidUpstream::Scheme("/a".to_owned()));
        assert_eq!(error("http://a/b"), InvalidUpstream::NotBare("http://a/b".to_owned()));
        for url in ["http://u@a", "http://u:p@a:1/b", "u:p@a:1", "https://u:p w@a", "u:@"] {
            assert_eq!(error(url), InvalidUpstream::Credentials);
        }
        assert_eq!(error("http://a/@"), InvalidUpstream::NotBare("http://a/@".to_owned()));
        for place in ["[]", ":80", "a[]", "[a]", "[::1]x:80"] {
            let url = format!("http://{place}");
            assert_eq!(error(&url), InvalidUpstream::Place(url));
        }
        for port in ["", "0", "65536", "99999", "http", "+80", "080"] {
            let url = format!("http://a:{port}");
            assert_eq!(error(&url), InvalidUpstream::Place(url));
        }
    }
}
