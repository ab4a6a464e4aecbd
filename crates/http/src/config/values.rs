//! Single values: what each may be, and how it is written.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use http::header::HeaderName;
use http::uri::Authority;
use http::{HeaderValue, Method};
use ipnet::IpNet;
use tamarisk_control::parse_duration;
use toml::de::DeValue;

use super::section::{Fault, Value, wrong_type};
use crate::classify::HostPattern;
use crate::proxy::{HostHeader, Origin, host_and_port};

pub(super) fn text<'a>(value: &'a Value<'a>) -> Result<&'a str, Fault> {
    value.get_ref().as_str().ok_or_else(|| wrong_type(value, "a string"))
}

pub(super) fn list<'a, T>(
    value: &'a Value<'a>,
    read: impl Fn(&'a Value<'a>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(read).collect(),
        _ => Err(wrong_type(value, "a list")),
    }
}

/// A string that `read` understands.
fn parsed<'a, T>(
    value: &'a Value<'a>,
    expected: &str,
    read: impl FnOnce(&'a str) -> Option<T>,
) -> Result<T, Fault> {
    let text = value.get_ref().as_str().ok_or_else(|| wrong_type(value, expected))?;
    let wrong = || {
        Fault::new(
            value.span(),
            format!("{text:?} cannot be used here"),
            format!("expected {expected}"),
        )
    };
    read(text).ok_or_else(wrong)
}

fn number(value: &Value<'_>, expected: &str, most: u64) -> Result<u64, Fault> {
    let DeValue::Integer(integer) = value.get_ref() else {
        return Err(wrong_type(value, expected));
    };
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    number.filter(|number| *number <= most).ok_or_else(|| {
        let message = format!("{integer} cannot be used here");
        Fault::new(value.span(), message, format!("expected {expected}"))
    })
}

pub(super) fn count(value: &Value<'_>) -> Result<NonZeroUsize, Fault> {
    let expected = "a whole number from 1 to 1000000000";
    let number = number(value, expected, 1_000_000_000)?;
    NonZeroUsize::new(number as usize).ok_or_else(|| {
        Fault::new(value.span(), "0 cannot be used here", format!("expected {expected}"))
    })
}

pub(super) fn priority(value: &Value<'_>) -> Result<u8, Fault> {
    number(value, "a whole number from 0 (first) to 255 (last)", 255).map(|number| number as u8)
}

pub(super) fn duration(value: &Value<'_>) -> Result<Duration, Fault> {
    parsed(value, "a time such as \"200ms\", \"1.5s\" or \"2m\"", |text| {
        parse_duration(text).ok().filter(|duration| !duration.is_zero())
    })
}

pub(super) fn size(value: &Value<'_>) -> Result<u64, Fault> {
    parsed(value, "a size such as \"8KiB\", \"10MiB\" or \"500B\"", |text| {
        let (number, unit) = split_unit(text)?;
        let bytes = match unit {
            "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            _ => return None,
        };
        Some((number * bytes) as u64)
    })
}

/// `1.5s` is 1.5 and `s`; a space between them is allowed.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

pub(super) fn address(value: &Value<'_>) -> Result<SocketAddr, Fault> {
    parsed(value, "an address and a port such as \"127.0.0.1:8080\"", |text| text.parse().ok())
}

/// A single address is a network of one.
pub(super) fn network(value: &Value<'_>) -> Result<IpNet, Fault> {
    parsed(value, "a network such as \"10.0.0.0/8\", or an address", |text| {
        IpNet::from_str(text)
            .ok()
            .or_else(|| Some(IpNet::from(text.parse::<std::net::IpAddr>().ok()?)))
    })
}

pub(super) fn origin(value: &Value<'_>) -> Result<Origin, Fault> {
    let url = text(value)?;
    url.parse().map_err(|error: crate::proxy::InvalidUpstream| {
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

pub(super) fn host_pattern(value: &Value<'_>) -> Result<HostPattern, Fault> {
    parsed(
        value,
        "a host name without a port, such as \"example.org\" or \"*.example.org\"",
        |text| {
            // Requests are compared without their ports: a pattern with one would fit none.
            let name = |text: &str| host(text).filter(|host| host.host() == text);
            match text.strip_prefix("*.") {
                Some(domain) => Some(HostPattern::Below(name(domain)?.to_string())),
                None => Some(HostPattern::Exactly(name(text)?.to_string())),
            }
        },
    )
}

fn host(text: &str) -> Option<Authority> {
    let authority: Authority = text.parse().ok()?;
    let is_place = host_and_port(&authority).is_some() && !text.contains(['@', '*']);
    is_place.then_some(authority)
}

pub(super) fn path(value: &Value<'_>) -> Result<String, Fault> {
    parsed(value, "a path that starts with \"/\"", |text| {
        (text.starts_with('/') && !text.contains(['?', '#', ' '])).then(|| text.to_owned())
    })
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

pub(super) fn header_value(value: &Value<'_>) -> Result<HeaderValue, Fault> {
    parsed(value, "the value of a header", |text| text.parse().ok())
}

/// A name that operators give: it appears in metrics and on the status page.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

pub(super) fn name(value: &Value<'_>) -> Result<String, Fault> {
    parsed(value, "a name of letters, digits, \"-\", \"_\" and \".\"", |text| {
        is_name(text).then(|| text.to_owned())
    })
}
