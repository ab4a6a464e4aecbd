//! The paths of requests, as routes and classes compare them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// A path, with all below it.
///
/// Names are compared whole and decoded, without parameters after a semicolon, and slashes that
/// follow each other count as one: a client that spells a path in another way (`/%61dmin`, `/admin;a=b`,
/// `//admin`, `/;a=b/admin`) has asked for the same. An escaped slash and a backslash are part of a
/// name; [`takes_slashed`](Self::takes_slashed) is for services that take them for slashes.
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

    /// How many names it has, where an escaped slash ends one too: the more, the fewer requests it
    /// is for.
    pub fn depth(&self) -> usize {
        self.0.iter().map(|name| parts(name).count().max(1)).sum()
    }

    /// Whether whatever `other` takes is taken by this one as well.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Whether `path`, as the client has sent it, is this one or lies below it.
    pub fn takes(&self, path: &str) -> bool {
        self.rest(path).is_some()
    }

    /// What `path`, as the client has sent it, has below this one, if it is below.
    pub fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        rest_below(self.names(), path)
    }

    /// Whether `path`, [with slashes](with_slashes), is this one or lies below it, where escaped
    /// slashes and backslashes of this one are slashes too.
    pub fn takes_slashed(&self, path: &str) -> bool {
        rest_below(self.slashed_names(), path).is_some()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// The names where escaped slashes and backslashes end one.
    pub(super) fn slashed_names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|name| parts(name))
    }
}

/// What `path` has below these names, if it is below.
fn rest_below<'n, 'p>(names: impl Iterator<Item = &'n [u8]>, path: &'p str) -> Option<&'p str> {
    let mut rest = path;
    for name in names {
        loop {
            let SpelledName { whole, bare, after } = SpelledName::first(rest)?;
            let is_name = |spelled| *decoded(spelled) == *name;
            rest = after;
            if is_name(whole) || is_name(bare) {
                break;
            }
            // Parameters alone are passed over, unless names like them are looked for.
            if !bare.is_empty() || name.starts_with(b";") {
                return None;
            }
        }
    }
    Some(rest)
}

/// A name in a path, as the client has spelled it.
pub(super) struct SpelledName<'p> {
    /// With its parameters; never empty.
    pub(super) whole: &'p str,
    /// Without its parameters.
    pub(super) bare: &'p str,
    /// What follows it.
    pub(super) after: &'p str,
}

impl<'p> SpelledName<'p> {
    /// The first one in `path`; `None` if there is none.
    pub(super) fn first(path: &'p str) -> Option<Self> {
        let below = path.strip_prefix('/')?.trim_start_matches('/');
        let end = below.find('/').unwrap_or(below.len());
        let (whole, after) = below.split_at(end);
        let bare = whole.split(';').next().unwrap_or(whole);
        (!whole.is_empty()).then_some(Self { whole, bare, after })
    }
}

/// A name without its escapes.
pub(super) fn decoded(name: &str) -> Cow<'_, [u8]> {
    percent_decode(name.as_bytes()).into()
}

/// The names that a decoded one is for services to which its slashes and backslashes end a name.
fn parts(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| matches!(byte, b'/' | b'\\')).filter(|part| !part.is_empty())
}

/// `path` with slashes in place of its escaped slashes and its backslashes, escaped or not: many
/// services read it so. `None` if it has none.
pub fn with_slashes(path: &str) -> Option<String> {
    const SPELLINGS: [&str; 5] = ["\\", "%2f", "%2F", "%5c", "%5C"];
    // Most paths have none, and are short: a look at each byte costs less than a decision at each.
    let is_plain = path.bytes().fold(true, |plain, byte| plain & !matches!(byte, b'%' | b'\\'));
    if is_plain || !SPELLINGS.iter().any(|spelling| path.contains(spelling)) {
        return None;
    }
    let replaced = |path: String, spelling: &&str| path.replace(spelling, "/");
    Some(SPELLINGS.iter().fold(path.to_owned(), replaced))
}

/// A path of a request as it is compared with those of routes and classes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading<'p> {
    /// As the client has sent it.
    Sent(&'p str),
    /// [With slashes](with_slashes).
    Slashed(&'p str),
}

impl Reading<'_> {
    /// Whether it is `prefix` or lies below it.
    pub(super) fn is_below(self, prefix: &PathPrefix) -> bool {
        match self {
            Self::Sent(path) => prefix.takes(path),
            Self::Slashed(path) => prefix.takes_slashed(path),
        }
    }
}

/// Whether a path has a name that is `.` or `..` for anyone who might read it: with dots and
/// slashes in escapes, with backslashes, or with parameters after a semicolon. Then it may lead
/// elsewhere than it looks, and out of whatever it is below. So may one with NUL, at which some
/// services end it.
pub fn has_dot_segments(path: &str) -> bool {
    let (mut dots, mut is_name, mut is_parameter) = (0, false, false);
    for byte in percent_decode(path.as_bytes()) {
        match byte {
            b'/' | b'\\' if !is_name && matches!(dots, 1 | 2) => return true,
            b'/' | b'\\' => (dots, is_name, is_parameter) = (0, false, false),
            0 => return true,
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
        assert_eq!(rest("/a%2fb", "/%61%2Fb/c"), Some("/c"));
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
    fn a_path_with_slashes_has_one_for_each_that_is_escaped_and_each_backslash() {
        let check = |path, expected: Option<&str>| {
            assert_eq!(with_slashes(path).as_deref(), expected, "{path}");
        };
        for path in ["/a%2fb", "/a%2Fb", "/a%5cb", "/a%5Cb", "/a\\b"] {
            check(path, Some("/a/b"));
        }
        check("/%61%2f%5C;x", Some("/%61//;x"));
        for path in ["", "*", "/a/b", "/b%C3%BC", "/a%252fb", "/%", "/%2", "/a%2"] {
            check(path, None);
        }
    }

    #[test]
    fn slashes_of_a_prefix_end_names_as_those_of_the_path_do() {
        let takes = |prefix, path: &str| PathPrefix::new(prefix).takes_slashed(path);
        for prefix in ["/a/b", "/a%2fb", "/a%2Fb", "/a\\b", "/a%5C%2Fb", "/"] {
            assert!(takes(prefix, "/a/b/c") && takes(prefix, "//a;x//b"), "{prefix}");
        }
        assert!(!takes("/a%2fb", "/a") && !takes("/a%2fb", "/ab") && !takes("/a%2fb", "/a/c"));
        let depth = |path| PathPrefix::new(path).depth();
        assert_eq!(["/", "/a", "/a/b", "/a%2fb", "/a/%2f"].map(depth), [0, 1, 2, 2, 2]);
    }

    #[test]
    fn a_prefix_covers_those_below_it() {
        let covers = |one, other| PathPrefix::new(one).covers(&PathPrefix::new(other));
        assert!(covers("/", "/a") && covers("/a", "/%61/") && covers("/a", "/a/b"));
        assert!(!covers("/a", "/") && !covers("/a/b", "/a") && !covers("/a", "/ab"));
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
            "/..%00/b",
            "/a%00",
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
