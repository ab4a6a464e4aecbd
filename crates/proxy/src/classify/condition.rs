//! Conditions on a request: header, cookie, path, address.

use std::net::IpAddr;

use http::header::{COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use super::path::{PathPrefix, Reading};

/// Something that holds of a request or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// It has this field, with this value if one is given.
    Header {
        /// The field's name.
        name: HeaderName,
        /// Any value will do if there is none here.
        value: Option<HeaderValue>,
    },
    /// It has this cookie, with this value if one is given.
    Cookie {
        /// The cookie's name.
        name: String,
        /// Any value will do if there is none here.
        value: Option<String>,
    },
    /// Its path is this one or below it: `/a` is, and `/a/b`, but not `/ab`.
    Path(PathPrefix),
    /// Its client's address is in this network.
    Address(IpNet),
}

impl Condition {
    pub(super) fn holds(&self, path: Reading<'_>, headers: &HeaderMap, client: IpAddr) -> bool {
        match self {
            Self::Header { name, value: None } => headers.contains_key(name),
            Self::Header { name, value: Some(value) } => {
                headers.get_all(name).iter().any(|line| line == value)
            }
            Self::Cookie { name, value } => has_cookie(headers, name, value.as_deref()),
            Self::Path(prefix) => path.is_below(prefix),
            Self::Address(network) => network.contains(&client),
        }
    }
}

fn has_cookie(headers: &HeaderMap, name: &str, value: Option<&str>) -> bool {
    cookies(headers, name).any(|held| value.is_none_or(|value| held == value.as_bytes()))
}

/// The value of the cookie of this name.
pub(super) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    cookies(headers, name).next()
}

/// As bytes: a cookie that is no text hides none of the others in its line.
fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h [u8]> {
    let lines = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';')).filter_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        Some((&pair[..equals], &pair[equals + 1..]))
    });
    pairs
        .filter(move |(key, _)| key.trim_ascii() == name.as_bytes())
        .map(|(_, held)| held.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(condition: Condition, header: (&'static str, &'static str), expected: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(header.0, HeaderValue::from_bytes(header.1.as_bytes()).unwrap());
        let (path, client) = (Reading::Sent("/a/b"), "10.1.2.3".parse().unwrap());
        assert_eq!(condition.holds(path, &headers, client), expected, "{condition:?} {header:?}");
    }

    #[test]
    fn a_header_is_compared_whole() {
        let plan = |value: Option<&'static str>| Condition::Header {
            name: HeaderName::from_static("x-plan"),
            value: value.map(HeaderValue::from_static),
        };
        check(plan(None), ("x-plan", "gold"), true);
        check(plan(Some("gold")), ("x-plan", "gold"), true);
        check(plan(Some("gold")), ("x-plan", "golden"), false);
        check(plan(None), ("x-other", "gold"), false);
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let plan = |value: Option<&str>| Condition::Cookie {
            name: "plan".to_owned(),
            value: value.map(str::to_owned),
        };
        check(plan(Some("gold")), ("cookie", "a=1; plan=gold;b=2"), true);
        check(plan(None), ("cookie", "plan="), true);
        check(plan(Some("gold")), ("cookie", "xplan=gold; plan=goldx"), false);
        check(plan(None), ("cookie", "plan"), false);
        check(plan(Some("gold")), ("cookie", "name=J\u{fc}rgen; plan=gold"), true);
        check(plan(Some("g\u{f6}ld")), ("cookie", "plan=g\u{f6}ld"), true);
    }

    #[test]
    fn an_address_is_in_its_network_or_not() {
        check(Condition::Address("10.0.0.0/8".parse().unwrap()), ("x", ""), true);
        check(Condition::Address("10.2.0.0/16".parse().unwrap()), ("x", ""), false);
        check(Condition::Address("::/0".parse().unwrap()), ("x", ""), false);
    }
}
