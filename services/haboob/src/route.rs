//! Which part of a host a request is for.

use std::borrow::Cow;

use http::{HeaderValue, StatusCode};

use crate::path::decoded;

/// A path, with all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(Vec<Vec<u8>>);

impl Prefix {
    /// `path` begins with a slash; an escape in it that is none stands for itself.
    pub(crate) fn of(path: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty());
        Self(
            names.map(|name| decoded(name).map_or_else(|_| name.into(), Cow::into_owned)).collect(),
        )
    }

    /// How many names it has: the more, the fewer requests it is for.
    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }

    /// What `path` has below this one, if it is below; `path` is as the client has sent it.
    ///
    /// Names are compared decoded: `/%61dmin` is below `/admin`.
    pub(crate) fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        let mut rest = path;
        for name in &self.0 {
            let below = rest.strip_prefix('/')?.trim_start_matches('/');
            let end = below.find('/').unwrap_or(below.len());
            let (first, after) = below.split_at(end);
            let same =
                first.as_bytes() == name || decoded(first).is_ok_and(|first| *first == **name);
            rest = same.then_some(after)?;
        }
        Some(rest)
    }
}

/// Sends clients elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where: a path that begins with a slash, or a URL. If it ends in a slash, what the
    /// request's path has below the route's is added.
    pub to: String,
    /// 301, 302, 307 or 308.
    pub status: StatusCode,
}

impl Redirect {
    /// Where a request goes whose path has `rest` below the route's.
    pub(crate) fn location(&self, rest: &str, query: Option<&str>) -> Option<HeaderValue> {
        let mut location = self.to.clone();
        if location.ends_with('/') {
            // Browsers take a backslash for a slash, and two slashes name another host.
            let rest = rest.trim_start_matches('/').replace('\\', "%5C");
            location.push_str(&rest);
        }
        if let Some(query) = query.filter(|_| !location.contains('?')) {
            location.push('?');
            location.push_str(query);
        }
        HeaderValue::try_from(location).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_decoded_and_whole() {
        let rest = |prefix, path| Prefix::of(prefix).rest(path);
        assert_eq!(rest("/", "/a/b"), Some("/a/b"));
        assert_eq!(rest("/", "*"), Some("*"));
        assert_eq!(rest("/a", "/a/b"), Some("/b"));
        assert_eq!(rest("/a/", "/a"), Some(""));
        assert_eq!(rest("/a/b", "//a///b//c"), Some("//c"));
        assert_eq!(rest("/admin", "/%61dm%69n/x"), Some("/x"));
        assert_eq!(rest("/b%C3%BC", "/bü/"), Some("/"));
        for path in ["/ab", "/b/a", "/", "a", "", "/%2Fa", "/%2fa/x", "/A", "/./a"] {
            assert_eq!(rest("/a", path), None, "{path}");
        }
    }

    #[test]
    fn what_is_below_is_added_to_a_folder() {
        let location = |to: &str, rest, query| {
            let redirect = Redirect { to: to.to_owned(), status: StatusCode::FOUND };
            redirect.location(rest, query).map(|field| field.to_str().unwrap().to_owned())
        };
        let to = |text: &str| Some(text.to_owned());
        assert_eq!(location("/new/", "/a/b", Some("c=d")), to("/new/a/b?c=d"));
        assert_eq!(location("/new/", "", None), to("/new/"));
        assert_eq!(location("/new", "/a", None), to("/new"));
        assert_eq!(location("/new?a", "/a", Some("b")), to("/new?a"));
        assert_eq!(location("https://a.example/", "//b", None), to("https://a.example/b"));
        assert_eq!(location("/", "//evil.example/", None), to("/evil.example/"));
        assert_eq!(location("/", "/\\evil.example/", None), to("/%5Cevil.example/"));
    }
}
