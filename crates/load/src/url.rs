//! URLs of requests, with weights.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, PathAndQuery};

/// An `http://` URL, and how often it is asked for in relation to others.
/// Written `http://host:port/path`, `host:port/path` or, on this machine, `:port/path`; with a weight
/// `9=http://host:port/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedUrl {
    weight: u32,
    authority: Authority,
    host: String,
    port: u16,
    path: PathAndQuery,
}

/// Why a text is not a URL that load can be sent to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Not a URL at all.
    #[error("`{0}` is not a URL; write for example `http://127.0.0.1:8080/`")]
    Syntax(String),
    /// TLS is not spoken.
    #[error(
        "`{0}`: load is sent over cleartext HTTP only; use http://, or put a local TLS client such as \
         stunnel between"
    )]
    Tls(String),
    /// Some other scheme.
    #[error("`{0}` does not begin with `http://`; write for example `http://127.0.0.1:8080/`")]
    Scheme(String),
    /// A host alone.
    #[error("`{0}` has no port: write `{0}:8080`, or `http://{0}` for port 80")]
    NoPort(String),
    /// No host, or something behind it that is not `:` and a number from 1 to 65535.
    #[error("`{0}` has no valid host and port; write for example `http://127.0.0.1:8080/`")]
    Place(String),
    /// The weight is not a whole number from 1 to a million.
    #[error("`{0}` is not a weight: write a whole number from 1 to 1000000 before the `=`")]
    Weight(String),
}

impl WeightedUrl {
    /// How often it is asked for, in relation to the others.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Name or address of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 80 unless the URL has one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the `Host` header says.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// What the request line says.
    pub(crate) fn path(&self) -> &PathAndQuery {
        &self.path
    }
}

impl FromStr for WeightedUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        const WEIGHT_MAX: u32 = 1_000_000;
        // A `=` after a host belongs to a query.
        let (weight, url) = match text.split_once('=') {
            Some((weight, url)) if !weight.contains(['/', ':']) => {
                let number = weight.parse().ok().filter(|w| (1..=WEIGHT_MAX).contains(w));
                (number.ok_or_else(|| InvalidUrl::Weight(weight.to_owned()))?, url)
            }
            _ => (1, text),
        };
        let syntax = || InvalidUrl::Syntax(url.to_owned());
        let place = url.split('/').next().unwrap_or_default();
        let whole = match place.split_once(':') {
            Some(("", _)) => format!("http://127.0.0.1{url}"),
            Some((_, port)) if !port.is_empty() => format!("http://{url}"),
            _ => url.to_owned(),
        };
        let uri: Uri = whole.parse().map_err(|_| syntax())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(InvalidUrl::Tls(url.to_owned())),
            Some(_) => return Err(InvalidUrl::Scheme(url.to_owned())),
            None if uri.authority().is_some() => return Err(InvalidUrl::NoPort(url.to_owned())),
            None => return Err(syntax()),
        }
        let authority = uri.authority().ok_or_else(syntax)?.clone();
        if authority.as_str().contains('@') {
            return Err(syntax());
        }
        let place = host_and_port(&authority).map(|(host, port)| (host.to_owned(), port));
        let (host, port) = place.ok_or_else(|| InvalidUrl::Place(url.to_owned()))?;
        let path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self { weight, authority, host, port, path })
    }
}

/// What to connect to: a host, without the brackets of an IPv6 address, and a port. An
/// [`Authority`] alone may be neither: it takes any text for a port, and then says that
/// there is none, and brackets anywhere in a host.
fn host_and_port(authority: &Authority) -> Option<(&str, u16)> {
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let is_plain = *authority == *host || *authority == *format!("{host}:{port}");
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|ip| ip.parse::<Ipv6Addr>().is_ok())?,
        None => host,
    };
    (is_plain && port > 0 && !host.is_empty() && !host.contains(['[', ']'])).then_some((host, port))
}

impl fmt::Display for WeightedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, weight: u32, host: &str, port: u16, shown: &str) {
        let url: WeightedUrl = text.parse().unwrap();
        assert_eq!((url.weight(), url.host(), url.port()), (weight, host, port), "{text}");
        assert_eq!(url.to_string(), shown);
    }

    #[test]
    fn a_weight_may_stand_before_the_url() {
        check("http://127.0.0.1:8080/", 1, "127.0.0.1", 8080, "http://127.0.0.1:8080/");
        check("9=http://localhost/a?b=c", 9, "localhost", 80, "http://localhost/a?b=c");
        check("http://localhost/?b=c", 1, "localhost", 80, "http://localhost/?b=c");
        check("http://[::1]:3000", 1, "::1", 3000, "http://[::1]:3000/");
    }

    #[test]
    fn the_scheme_and_the_own_host_may_be_left_out() {
        check("localhost:3000", 1, "localhost", 3000, "http://localhost:3000/");
        check("9=localhost:3000/a?b=c", 9, "localhost", 3000, "http://localhost:3000/a?b=c");
        check("localhost:3000/?b=c", 1, "localhost", 3000, "http://localhost:3000/?b=c");
        check(":8080/a", 1, "127.0.0.1", 8080, "http://127.0.0.1:8080/a");
        check("[::1]:3000", 1, "::1", 3000, "http://[::1]:3000/");
    }

    #[test]
    fn what_is_no_cleartext_url_is_rejected() {
        fn rejected(text: &str) -> InvalidUrl {
            text.parse::<WeightedUrl>().unwrap_err()
        }
        assert!(matches!(rejected("https://127.0.0.1/"), InvalidUrl::Tls(_)));
        assert!(matches!(rejected("ftp://127.0.0.1/"), InvalidUrl::Scheme(_)));
        let portless = rejected("localhost").to_string();
        assert!(portless.contains("write `localhost:8080`"), "{portless}");
        assert!(matches!(rejected("0=http://127.0.0.1/"), InvalidUrl::Weight(_)));
        assert!(matches!(rejected("x=http://127.0.0.1/"), InvalidUrl::Weight(_)));
        for text in ["", "localhost/path", "/path", "http://", "http://a b/", "http://u:p@h/"] {
            assert!(matches!(rejected(text), InvalidUrl::Syntax(_)), "{text}");
        }
        for place in ["[]", ":80", "a[]", "[a]", "[::1]x:80"] {
            let text = format!("http://{place}/");
            assert!(matches!(rejected(&text), InvalidUrl::Place(_)), "{text}");
        }
        for port in ["", "0", "65536", "99999", "http", "+80", "080"] {
            let text = format!("http://localhost:{port}/");
            assert!(matches!(rejected(&text), InvalidUrl::Place(_)), "{text}");
        }
    }
}
