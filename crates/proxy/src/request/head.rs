//! A client's request head, written as ours.
//!
//! One pass over the fields, straight into the bytes that are sent: what belongs to
//! the client's connection is left out, what tells the upstream about the client
//! (`Forwarded` [RFC7239 §4] and `X-Forwarded-*`) is put in, and everything else is copied.
//! What a client says of itself is dropped; what a trusted proxy in front of us says of its
//! clients is kept and added to.

use std::io::Write;
use std::net::IpAddr;

use http::header::{CONNECTION, COOKIE, HOST, TE, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version};
use tamarisk_control::Ratio;
use tamarisk_h1::grammar::is_host;

use crate::hop_by_hop::{HOP_BY_HOP, Named, tokens};
use crate::instance::Instance;
use crate::peer::{Announcement, Peer};
use crate::request::body::BodyLength;
use crate::request::host_header::HostHeader;
use tamarisk_observe::RequestId;

/// Where a request comes from, and where it goes.
pub(crate) struct HeadWriter<'a> {
    pub(crate) from: &'a Peer,
    pub(crate) host_header: &'a HostHeader,
    /// The upstream's own host.
    pub(crate) authority: &'a HeaderValue,
    pub(crate) id: &'a RequestId,
    /// This proxy.
    pub(crate) instance: &'a Instance,
    /// How well the request is to be served, if the upstream is to know.
    pub(crate) quality: Option<Ratio>,
    /// The gate of another upstream has rejected the request.
    pub(crate) overflows: bool,
}

/// The field of a request that comes from an overflowing upstream.
pub(crate) const OVERFLOW: &str = "x-overflow";

impl HeadWriter<'_> {
    /// Appends the head of `request` to `out`, to be followed by `body`.
    /// The answer: the protocols that the upstream is asked to change to.
    pub(crate) fn write_head(
        &self,
        out: &mut Vec<u8>,
        request: &Parts,
        body: BodyLength,
    ) -> Option<HeaderValue> {
        let headers = &request.headers;
        let asked_host = asked_host(request);
        write_request_line(out, request);
        line(out, "host", self.host(asked_host.as_ref()));

        let mut named = Named::default();
        headers.get_all(CONNECTION).iter().for_each(|line| named.read(line.as_bytes()));
        let mut kept = Kept::default();
        for (name, value) in headers {
            let name = name.as_str();
            match name {
                // The target and the body say these themselves.
                "host" | "content-length" => continue,
                // CGI makes `HTTP_PROXY` of it, which programs take for their own setting.
                "proxy" => continue,
                _ if HOP_BY_HOP.contains(&name) || named.contains(name) => continue,
                _ if imitates_ours(name) => continue,
                _ if !self.from.is_trusted() && speaks_of_client(name) => continue,
                "x-forwarded-proto" => kept.proto = true,
                "x-forwarded-host" => kept.host = true,
                // The one that counts is written below.
                "x-request-id" => continue,
                // Ours to say: a client does not choose how well it is served.
                "x-quality" if self.quality.is_some() => continue,
                // HTTP/2 may cut cookies apart; HTTP/1.1 has one line [RFC9113 §8.2.3].
                "cookie" if request.version == Version::HTTP_2 => continue,
                _ => {}
            }
            line(out, name, value);
        }
        if request.version == Version::HTTP_2 {
            write_cookies(out, headers);
        }
        write_forwarded(out, self.from, asked_host.as_ref(), kept);
        out.extend_from_slice(self.instance.via(request.version).as_bytes());
        for part in [b"x-request-id: ", self.id.as_str().as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
        if let Some(quality) = self.quality {
            // Writing to a vector does not fail.
            let _ = write!(out, "x-quality: {:.2}\r\n", quality.get());
        }
        if self.overflows {
            out.extend_from_slice(b"x-overflow: 1\r\n");
        }
        write_length(out, request, body);
        let wish = wish(request, &named, body);
        write_connection(out, headers, wish.as_ref());
        out.extend_from_slice(b"\r\n");
        wish
    }

    /// An HTTP/1.0 client may ask for no host at all; an upstream must hear one.
    fn host<'a>(&'a self, asked: Option<&'a HeaderValue>) -> &'a HeaderValue {
        match self.host_header {
            HostHeader::Client => asked.unwrap_or(self.authority),
            HostHeader::Upstream => self.authority,
            HostHeader::Fixed(host) => host,
        }
    }
}

/// Whether a field of this name, in lower case, says where a request comes from or what was asked
/// for, as a proxy says it of its clients.
pub(crate) fn speaks_of_client(name: &str) -> bool {
    name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip")
}

/// Whether a field of this name, in lower case, is taken for one of ours by services to which
/// hyphens and all else that is neither letter nor digit are the same, as in the variables of CGI.
pub(crate) fn imitates_ours(name: &str) -> bool {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return false;
    }
    let meant = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    HOP_BY_HOP.contains(&&*meant)
        || speaks_of_client(&meant)
        || matches!(&*meant, "content-length" | "x-overflow" | "x-quality" | "x-request-id")
}

/// Which of the fields that are no lists a trusted proxy has set already.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    proto: bool,
    host: bool,
}

/// The lines that tell the upstream where a request comes from: in place of the client's own, or
/// behind those that are `kept` of it.
fn write_forwarded(out: &mut Vec<u8>, from: &Peer, host: Option<&HeaderValue>, kept: Kept) {
    let mut announced = from.announced.lock();
    let announcement = match &mut *announced {
        Some(last) if last.asked.as_ref() == host => last,
        last => last.insert(announcement(from, host)),
    };
    // Another line of a list field is another element of the list.
    out.extend_from_slice(announcement.lists.as_bytes());
    if !kept.proto {
        out.extend_from_slice(announcement.proto.as_bytes());
    }
    if !kept.host {
        out.extend_from_slice(announcement.host.as_bytes());
    }
}

fn announcement(from: &Peer, asked: Option<&HeaderValue>) -> Announcement {
    let (client, proto) = (from.address, from.scheme.name());
    let node = match client {
        IpAddr::V4(address) => format!("for={address}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\""),
    };
    let (element, host) = match asked.and_then(|host| host.to_str().ok()) {
        // The guard and hyper let no quote or backslash into a host.
        Some(host) if !host.contains(['"', '\\']) => (
            format!("{node};host=\"{host}\";proto={proto}"),
            format!("x-forwarded-host: {host}\r\n"),
        ),
        _ => (format!("{node};proto={proto}"), String::new()),
    };
    Announcement {
        asked: asked.cloned(),
        lists: format!("x-forwarded-for: {client}\r\nforwarded: {element}\r\n"),
        proto: format!("x-forwarded-proto: {proto}\r\n"),
        host,
    }
}

/// The host of an absolute target overrules the field [RFC9112 §3.2.2]. What is none does not
/// count as one: not every server looks as closely as ours.
fn asked_host(request: &Parts) -> Option<HeaderValue> {
    let asked = match request.uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => request.headers.get(HOST).cloned(),
    };
    asked.filter(|host| is_host(host.as_bytes()))
}

fn write_request_line(out: &mut Vec<u8>, request: &Parts) {
    let target = request.uri.path_and_query().map_or("", |path| path.as_str());
    // The path may be missing before the query of an absolute target [RFC9112 §3.2.1].
    let root = if target.starts_with(['/', '*']) { "" } else { "/" };
    for part in [request.method.as_str(), " ", root, target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn line(out: &mut Vec<u8>, name: &str, value: &HeaderValue) {
    for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn write_cookies(out: &mut Vec<u8>, headers: &HeaderMap) {
    let mut before: &[u8] = b"cookie: ";
    for cookies in headers.get_all(COOKIE) {
        out.extend_from_slice(before);
        out.extend_from_slice(cookies.as_bytes());
        before = b"; ";
    }
    if before == b"; " {
        out.extend_from_slice(b"\r\n");
    }
}

fn write_length(out: &mut Vec<u8>, request: &Parts, body: BodyLength) {
    // Writing to a vector does not fail.
    let _ = match body {
        BodyLength::Known(bytes) => write!(out, "content-length: {bytes}\r\n"),
        BodyLength::Unknown => out.write_all(b"transfer-encoding: chunked\r\n"),
        // Where a body is usual, that there is none is said [RFC9110 §8.6].
        BodyLength::Empty
            if matches!(request.method, Method::POST | Method::PUT | Method::PATCH) =>
        {
            out.write_all(b"content-length: 0\r\n")
        }
        BodyLength::Empty => Ok(()),
    };
}

/// The protocols that a client asks to change to, unless it has a body to send
/// first or asks for HTTP/2: through that it could speak past us.
fn wish(request: &Parts, named: &Named<'_>, body: BodyLength) -> Option<HeaderValue> {
    if !named.upgrade || request.version != Version::HTTP_11 || body != BodyLength::Empty {
        return None;
    }
    let protocols = request.headers.get(UPGRADE)?;
    let is_http2 =
        |token: &str| token.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("h2"));
    let mut all = request.headers.get_all(UPGRADE).iter();
    let any_http2 = all.any(|line| tokens(line.as_bytes()).any(is_http2));
    (!any_http2).then(|| protocols.clone())
}

/// What we ask of our own connection to the upstream.
fn write_connection(out: &mut Vec<u8>, headers: &HeaderMap, wish: Option<&HeaderValue>) {
    let is_trailers = |token: &str| token.eq_ignore_ascii_case("trailers");
    if let Some(protocols) = wish {
        out.extend_from_slice(b"connection: upgrade\r\n");
        line(out, "upgrade", protocols);
    } else if headers.get_all(TE).iter().any(|line| tokens(line.as_bytes()).any(is_trailers)) {
        out.extend_from_slice(b"connection: te\r\nte: trailers\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Scheme;

    fn peer(address: &str) -> Peer {
        Peer::new(address.parse().unwrap(), &[], Scheme::Http)
    }

    fn announced(peer: &Peer, host: Option<&'static str>, kept: Kept) -> Vec<String> {
        let mut out = Vec::new();
        write_forwarded(&mut out, peer, host.map(HeaderValue::from_static).as_ref(), kept);
        String::from_utf8(out).unwrap().split_terminator("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn the_client_is_named_with_the_host_it_asked_for() {
        let peer = peer("[::ffff:192.0.2.7]:4711");
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
    fn a_name_imitates_ours_with_any_punctuation_but_hyphens() {
        for name in ["x_forwarded_for", "x.forwarded.for", "x-forwarded~host", "x.overflow"] {
            assert!(imitates_ours(name), "{name}");
        }
        for name in ["x!quality", "transfer.encoding", "content|length", "keep_alive"] {
            assert!(imitates_ours(name), "{name}");
        }
        for name in ["x-forwarded-for", "x-quality", "api_key", "x.trace", "x..quality", "te"] {
            assert!(!imitates_ours(name), "{name}");
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
        let lines = announced(&peer("[2001:db8::1]:1"), None, Kept { proto: true, host: true });
        let expected =
            ["x-forwarded-for: 2001:db8::1", "forwarded: for=\"[2001:db8::1]\";proto=http"];
        assert_eq!(lines, expected);
    }
}
