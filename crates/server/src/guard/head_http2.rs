//! What a head of HTTP/2 may say, as strictly as one of HTTP/1: the library that reads the frames
//! does not look so closely [RFC9113 §8]. A fragment in `:path` it has cut off before.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Method};

use tamarisk_h1::grammar::{is_host, is_path};
use tamarisk_h1::{FIELDS_MAX, Violation};

/// Whether a request may have this head.
///
/// # Errors
/// The [`Violation`] if it may not.
pub(crate) fn check_head(head: &Parts) -> Result<(), Violation> {
    check_host(head)?;
    if head.method != Method::CONNECT {
        let is_known = matches!(head.uri.scheme_str(), None | Some("http" | "https"));
        let target = head.uri.path_and_query().map_or("", |target| target.as_str());
        if !is_known || !is_path(target.as_bytes(), head.method.as_str().as_bytes()) {
            return Err(Violation::Target);
        }
    }
    if head.headers.len() > FIELDS_MAX as usize {
        return Err(Violation::TooManyFields);
    }
    if head.headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(Violation::ContentLength);
    }
    let is_trimmed = |value: &HeaderValue| {
        let ends = [value.as_bytes().first(), value.as_bytes().last()];
        !ends.into_iter().flatten().any(|byte| matches!(byte, b' ' | b'\t'))
    };
    if head.headers.values().all(is_trimmed) { Ok(()) } else { Err(Violation::FieldValue) }
}

/// `:authority` or one `Host`; if both are there, they are the same.
fn check_host(head: &Parts) -> Result<(), Violation> {
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = head.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let host = hosts.next();
    let is_one = match (authority, host) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
        (None, None) => false,
        _ => true,
    };
    let is_well_formed = authority.or(host).is_some_and(is_host);
    if is_one && is_well_formed && hosts.next().is_none() { Ok(()) } else { Err(Violation::Host) }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn check(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<(), Violation> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        check_head(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_head_of_http2_is_as_strict_as_one_of_http1() {
        assert_eq!(check("GET", "http://a/b?c", &[("x", "y z")]), Ok(()));
        assert_eq!(check("GET", "http://a:80/", &[("host", "A:80")]), Ok(()));
        assert_eq!(check("GET", "/", &[("host", "a")]), Ok(()));
        assert_eq!(check("POST", "http://a/", &[("content-length", "1")]), Ok(()));
        assert_eq!(check("CONNECT", "a:80", &[]), Ok(()));
        for (method, uri, fields, violation) in [
            ("GET", "http://a/", &[("host", "b")][..], Violation::Host),
            ("GET", "http://a/", &[("host", "a"), ("host", "a")], Violation::Host),
            ("GET", "http://user@a/", &[], Violation::Host),
            ("GET", "/", &[], Violation::Host),
            ("GET", "/", &[("host", "a:b")], Violation::Host),
            ("GET", "ftp://a/", &[], Violation::Target),
            ("POST", "*", &[("host", "a")], Violation::Target),
            (
                "POST",
                "http://a/",
                &[("content-length", "1"), ("content-length", "1")],
                Violation::ContentLength,
            ),
            ("GET", "http://a/", &[("x", " y")], Violation::FieldValue),
            ("GET", "http://a/", &[("x", "y\t")], Violation::FieldValue),
        ] {
            assert_eq!(check(method, uri, fields), Err(violation), "{method} {uri} {fields:?}");
        }
        assert_eq!(check("OPTIONS", "*", &[("host", "a")]), Ok(()));
        let many: Vec<_> = (0..101).map(|_| ("x", "y")).collect();
        assert_eq!(check("GET", "http://a/", &many), Err(Violation::TooManyFields));
    }
}
