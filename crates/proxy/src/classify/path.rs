//! The paths of requests, as routes and classes compare them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// A path, with all below it.
///
/// Names are compared whole and decoded, without parameters after a semicolon, and slashes that
/// follow each other count as one: whoever spells a path in another way (`/%61dmin`, `/admin;a=b`,
/// `//admin`, `/;a=b/admin`) has asked for the same. An escaped slash is part of a name.
///
/// # Examples
/// ```
/// use tamarisk_proxy::classify::PathPrefix;
///
/// let admin = PathPrefix::new("/admin");
/// assert!(admin.takes("/admin/users") && admin.takes("//%61dmin"));
/// assert!(!admin.takes("/administration"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathPrefix(Vec<Vec<u8>>);

impl PathPrefix {
    /// `path` begins with a slash; an escape in it that is none stands for itself.
    pub fn new(path: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty());
        Self(names.map(|name| decoded(name).into_owned()).collect())
    }

    /// How many names it has: the more, the fewer requests it is for.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Whether `path`, as the client has sent it, is this one or lies below it.
    pub fn takes(&self, path: &str) -> bool {
        self.rest(path).is_some()
    }

    /// What `path`, as the client has sent it, has below this one, if it is below.
    pub fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        let mut rest = path;
        for name in &self.0 {
            loop {
                let below = rest.strip_prefix('/')?.trim_start_matches('/');
                let end = below.find('/').unwrap_or(below.len());
                let (first, after) = below.split_at(end);
                let bare = first.split(';').next().unwrap_or(first);
                let is_name = |spelled| *decoded(spelled) == **name;
                rest = after;
                if is_name(first) || is_name(bare) {
                    break;
                }
                // Parameters alone are passed over, unless names like them are looked for.
                if first.is_empty() || !bare.is_empty() || name.starts_with(b";") {
                    return None;
                }
            }
        }
        Some(rest)
    }
}

/// A name without its escapes; one that hides a slash or NUL stands for itself.
fn decoded(name: &str) -> Cow<'_, [u8]> {
    let decoded = Cow::from(percent_decode(name.as_bytes()));
    if decoded.contains(&b'/') || decoded.contains(&0) { name.as_bytes().into() } else { decoded }
}

/// Whether a path has a name that is `.` or `..` for anyone who might read it: with dots and
/// slashes in escapes, with backslashes, or with parameters after a semicolon. Then it may lead
/// elsewhere than it looks, and out of whatever it is below.
pub fn has_dot_segments(path: &str) -> bool {
    let (mut dots, mut is_name, mut is_parameter) = (0, false, false);
    for byte in percent_decode(path.as_bytes()) {
        match byte {
            b'/' | b'\\' if !is_name && matches!(dots, 1 | 2) => return true,
            b'/' | b'\\' => (dots, is_name, is_parameter) = (0, false, false),
            _ if is_parameter => {}
            b';' => is_parameter = true,
            b'.' => dots += 1,
            _ => is_name = true,
        }
    }
    !is_name && matches!(dots, 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_decoded_and_whole() {
        let rest = |prefix, path| PathPrefix::new(prefix).rest(path);
        assert_eq!(rest("/", "/a/b"), Some("/a/b"));
        assert_eq!(rest("/", "*"), Some("*"));
        assert_eq!(rest("/a", "/a/b"), Some("/b"));
        assert_eq!(rest("/a/", "/a"), Some(""));
        assert_eq!(rest("/a/b", "//a///b//c"), Some("//c"));
        assert_eq!(rest("/admin", "/%61dm%69n/x"), Some("/x"));
        assert_eq!(rest("/b%C3%BC", "/bü/"), Some("/"));
        assert_eq!(rest("/a%2Fb", "/a%2Fb/"), Some("/"));
        assert_eq!(rest("/admin", "/admin;x=1/y"), Some("/y"));
        assert_eq!(rest("/a;b", "/a;b/c"), Some("/c"));
        assert_eq!(rest("/a;b", "/a/c"), None);
        assert_eq!(rest("/a", "/;x/a"), Some(""));
        assert_eq!(rest("/a", "/;/;y//a/b"), Some("/b"));
        assert_eq!(rest("/a/b", "/a/;x/b"), Some(""));
        assert_eq!(rest("/;a", "/;a"), Some(""));
        assert_eq!(rest("/;a", "/;b/;a"), None);
        for path in ["/ab", "/b/a", "/", "a", "", "/%2Fa", "/%2fa/x", "/A", "/./a", "/;a/b"] {
            assert_eq!(rest("/a", path), None, "{path}");
        }
        assert!(!PathPrefix::new("/a/b").takes("/a%2fb"));
    }

    #[test]
    fn dots_are_seen_however_they_are_spelled() {
        for path in [
            "/..",
            "/.",
            "/a/..",
            "/a/../b",
            "/a/./b",
            "/%2e%2e/b",
            "/a/.%2E",
            "/a/..%2fb",
            "/a%2f..%2fb",
            "/a/..%5cb",
            "/a\\..\\b",
            "/..;/b",
            "/a/..;x=1/b",
            "/%2e%2e%3bx/b",
        ] {
            assert!(has_dot_segments(path), "{path}");
        }
        for path in [
            "/",
            "*",
            "",
            "/a",
            "/a.b",
            "/.well-known/x",
            "/a..b",
            "/...",
            "/..a/",
            "/a/b..",
            "/a;..",
            "/a/;./",
            "/%252e%252e/",
            "/a%2fb",
            "/.a;b",
        ] {
            assert!(!has_dot_segments(path), "{path}");
        }
    }
}
