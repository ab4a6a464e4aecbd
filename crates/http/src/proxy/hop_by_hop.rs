//! Fields that are meant for one connection and must not be forwarded [RFC9110 §7.6.1].

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What the fields that were removed asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The protocols to change to, if `Connection` asked for it as well.
    pub(super) upgrade: Option<HeaderValue>,
    /// `TE: trailers`.
    pub(super) trailers: bool,
}

/// Removes the fields of this connection, those that `Connection` names included.
pub(super) fn remove(headers: &mut HeaderMap) -> Asked {
    let mut asked = Asked::default();
    let mut upgrade = false;
    if let Some(connection) = remove_joined(headers, CONNECTION, ", ") {
        upgrade = remove_named(headers, &connection);
    }
    if let Some(te) = remove_joined(headers, TE, ", ") {
        asked.trailers = tokens(&te).any(|token| token.eq_ignore_ascii_case("trailers"));
    }
    if let Some(protocols) = remove_joined(headers, UPGRADE, ", ") {
        asked.upgrade = upgrade.then_some(protocols);
    }
    headers.remove(TRANSFER_ENCODING);
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
    asked
}

/// Removes all lines of a field; their values in one.
pub(super) fn remove_joined(
    headers: &mut HeaderMap,
    name: HeaderName,
    separator: &str,
) -> Option<HeaderValue> {
    if headers.get_all(&name).iter().nth(1).is_none() {
        return headers.remove(name);
    }
    let lines: Vec<_> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&lines.join(separator.as_bytes()));
    headers.remove(name);
    Some(joined.expect("values joined by visible characters are a value"))
}

/// Removes what a `Connection` field names; whether it names `upgrade`.
///
/// `Host` and `Content-Length` stay, whatever a sender says: without them the
/// message would become another one.
fn remove_named(headers: &mut HeaderMap, connection: &HeaderValue) -> bool {
    let mut upgrade = false;
    for token in tokens(connection) {
        if token.eq_ignore_ascii_case("keep-alive") || token.eq_ignore_ascii_case("close") {
            continue;
        }
        if token.eq_ignore_ascii_case("upgrade") {
            upgrade = true;
        } else if let Ok(name) = HeaderName::from_bytes(token.as_bytes())
            && ![HOST, CONTENT_LENGTH, TE].contains(&name)
        {
            headers.remove(name);
        }
    }
    upgrade
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        lines.iter().map(line).fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
    }

    #[test]
    fn fields_of_the_connection_go_and_the_others_stay() {
        let mut map = headers(&[
            ("host", "a"),
            ("connection", "keep-alive, X-One"),
            ("connection", "x-two,host, content-length"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("te", "gzip"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("content-length", "3"),
        ]);
        assert_eq!(remove(&mut map), Asked { upgrade: None, trailers: true });
        assert_eq!(map, headers(&[("host", "a"), ("x-three", "3"), ("content-length", "3")]));
    }

    #[test]
    fn an_upgrade_counts_only_if_the_connection_names_it() {
        let mut map = headers(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
        let websocket = HeaderValue::from_static("websocket");
        assert_eq!(remove(&mut map).upgrade, Some(websocket));
        assert!(map.is_empty());
    }
}
