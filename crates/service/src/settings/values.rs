//! Single values: what each may be, and how it is written.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use http::header::HeaderName;
use http::uri::Authority;
use http::{HeaderValue, Method};
use ipnet::{IpNet, Ipv4Net};
use tamarisk_proxy::classify::{HostPattern, PathPrefix, has_dot_segments};
use tamarisk_proxy::{HostHeader, Origin, RequestBuffering, host_and_port};
use tamarisk_settings::values::parsed;
pub(super) use tamarisk_settings::values::{
    count, duration, key_name, list, name, one_of, priority, size, text, weight, yes,
};
use tamarisk_settings::{Fault, Value};

/// The path of a file such as `example`, relative to `folder`.
///
/// # Errors
/// A [`Fault`] at anything else.
pub fn file(value: &Value<'_>, example: &str, folder: &Path) -> Result<PathBuf, Fault> {
    parsed(value, &format!("a file such as {example:?}"), |text| file_at(text, folder))
}

/// The path that `text` is, relative to `folder`; `None` if no file can have it.
pub(super) fn file_at(text: &str, folder: &Path) -> Option<PathBuf> {
    (!text.is_empty() && !text.contains('\0')).then(|| folder.join(text))
}

/// An address and a port.
///
/// # Errors
/// A [`Fault`] at anything else.
pub fn address(value: &Value<'_>) -> Result<SocketAddr, Fault> {
    parsed(value, "an address and a port such as \"127.0.0.1:8080\"", listen_address)
}

/// An address to listen on: of an interface, of a name such as `localhost`, or with a port alone
/// of all interfaces.
pub fn listen_address(text: &str) -> Option<SocketAddr> {
    if let Some(port) = text.strip_prefix(':') {
        return Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse().ok()?)));
    }
    let resolved = || text.to_socket_addrs().ok().map(Vec::from_iter).unwrap_or_default();
    text.parse().ok().or_else(|| resolved().into_iter().min_by_key(SocketAddr::is_ipv6))
}

/// A network; a single address is one of one.
///
/// # Errors
/// A [`Fault`] at anything else.
pub fn network(value: &Value<'_>) -> Result<IpNet, Fault> {
    parsed(value, "a network such as \"10.0.0.0/8\", or an address", network_of)
}

/// The same of a text, if it is one.
pub fn network_of(text: &str) -> Option<IpNet> {
    let network = IpNet::from_str(text).ok();
    let network = network.or_else(|| Some(text.parse::<std::net::IpAddr>().ok()?.into()));
    network.map(canonical)
}

/// The network as clients' addresses are compared with it: of IPv4, also where it is written as one of
/// IPv6 (`::ffff:10.0.0.0/104`).
fn canonical(network: IpNet) -> IpNet {
    if let IpNet::V6(mapped) = network
        && let Some(address) = mapped.addr().to_ipv4_mapped()
        && let Some(length) = mapped.prefix_len().checked_sub(96)
        && let Ok(network) = Ipv4Net::new(address, length)
    {
        return network.into();
    }
    network
}

pub(super) fn origin(value: &Value<'_>) -> Result<Origin, Fault> {
    let url = text(value)?;
    url.parse().map_err(|error: tamarisk_proxy::InvalidUpstream| {
        let expected = "expected a service such as \"http://127.0.0.1:3000\"";
        Fault::new(value.span(), error.to_string(), expected)
    })
}

pub(super) fn host_header(value: &Value<'_>) -> Result<HostHeader, Fault> {
    parsed(value, "\"client\", \"upstream\" or a host name", |text| match text {
        "client" => Some(HostHeader::Client),
        "upstream" => Some(HostHeader::Upstream),
        name => Some(HostHeader::Fixed(HeaderValue::from_str(host(name)?.as_str()).ok()?)),
    })
}

pub(super) fn request_buffering(value: &Value<'_>) -> Result<RequestBuffering, Fault> {
    parsed(value, "\"memory-and-file\" or \"off\"", |text| match text {
        "memory-and-file" => Some(RequestBuffering::MemoryAndFile),
        "off" => Some(RequestBuffering::Off),
        _ => None,
    })
}

pub(super) fn host_pattern(value: &Value<'_>) -> Result<HostPattern, Fault> {
    parsed(
        value,
        "a host name without a port, such as \"example.org\" or \"*.example.org\"",
        |text| {
            // Requests are compared without their ports: a pattern with one would fit none.
            match text.strip_prefix("*.") {
                Some(domain) => {
                    is_host_name(domain).then(|| HostPattern::Below(domain.to_ascii_lowercase()))
                }
                None => is_host_name(text).then(|| HostPattern::Exactly(text.to_ascii_lowercase())),
            }
        },
    )
}

/// A host name without a port.
///
/// # Errors
/// A [`Fault`] at anything else.
pub fn host_name(value: &Value<'_>) -> Result<String, Fault> {
    let expected = "a host name without a port, such as \"example.org\"";
    parsed(value, expected, |text| is_host_name(text).then(|| text.to_owned()))
}

/// Whether `text` is a host without a port, and without a dot at its end: those of requests are
/// compared without.
pub fn is_host_name(text: &str) -> bool {
    host(text).is_some_and(|host| host.host() == text) && !text.ends_with('.')
}

fn host(text: &str) -> Option<Authority> {
    let authority: Authority = text.parse().ok()?;
    let is_place = host_and_port(&authority).is_some() && !text.contains(['@', '*']);
    is_place.then_some(authority)
}

/// A path that begins with a slash, and stands for all below it.
///
/// # Errors
/// A [`Fault`] at anything else, also at what no request can have.
pub fn path(value: &Value<'_>) -> Result<String, Fault> {
    let expected =
        "a path that starts with \"/\", without \"*\", \"..\" and \"%00\": all below it is meant";
    parsed(value, expected, |text| {
        let is_path = text.starts_with('/') && !text.contains(['?', '#', ' ', '*']);
        (is_path && !has_dot_segments(text)).then(|| text.to_owned())
    })
}

/// The same, to be compared with the paths of requests.
pub(super) fn path_prefix(value: &Value<'_>) -> Result<PathPrefix, Fault> {
    path(value).map(|path| PathPrefix::new(&path))
}

pub(super) fn method(value: &Value<'_>) -> Result<Method, Fault> {
    parsed(value, "a method such as \"GET\"", |text| {
        let method = Method::from_bytes(text.as_bytes()).ok()?;
        text.bytes().all(|byte| !byte.is_ascii_lowercase()).then_some(method)
    })
}

pub(super) fn header_name(value: &Value<'_>) -> Result<HeaderName, Fault> {
    parsed(value, "the name of a header", |text| text.parse().ok())
}

/// The value of a header.
///
/// # Errors
/// A [`Fault`] at anything else.
pub fn header_value(value: &Value<'_>) -> Result<HeaderValue, Fault> {
    parsed(value, "the value of a header", |text| text.parse().ok())
}
