//! Paths to return to, as forms state them.

/// The longest path that is returned to, in bytes: a search for 200 characters of four bytes,
/// each of which is three characters in an address.
const PATH_BYTES_MAX: usize = 3_000;

/// The pages that are worth returning to.
const PAGES: [&str; 7] =
    ["/folders", "/list", "/search", "/digest", "/message", "/compose", "/password"];

/// A path to one of our own pages: never to another site, nor to a page that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalPath(String);

impl LocalPath {
    /// The path, if it is that of a page.
    pub(crate) fn new(path: &str) -> Option<Self> {
        let page = path.split('?').next().unwrap_or_default();
        let is_valid = path.len() <= PATH_BYTES_MAX
            && path.bytes().all(|byte| byte.is_ascii_graphic())
            && PAGES.contains(&page);
        is_valid.then(|| Self(path.to_owned()))
    }

    /// Whether it is that of this page, whatever its parameters.
    pub(crate) fn is_of(&self, page: &str) -> bool {
        self.0.split('?').next() == Some(page)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The same with a parameter more.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        let sign = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{sign}{name}={value}", self.0))
    }

    /// The same without the parameter of this name.
    pub(crate) fn without(self, name: &str) -> Self {
        let Some((page, query)) = self.0.split_once('?') else { return self };
        let kept = query.split('&').filter(|field| field.split('=').next() != Some(name));
        let kept = kept.collect::<Vec<_>>().join("&");
        Self(if kept.is_empty() { page.to_owned() } else { format!("{page}?{kept}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_returned_to() {
        for path in ["/folders", "/list?folder=1&first=20", "/search?q=a%20b"] {
            assert!(LocalPath::new(path).is_some(), "{path}");
        }
        for path in [
            "",
            "https://example.org/",
            "//example.org/folders",
            "/\\example.org",
            "/folders/../logout",
            "/folders\r\nSet-Cookie: a=b",
            "/logout",
            "/attachment?id=1&part=0",
            "/list?folder=1 2",
        ] {
            assert_eq!(LocalPath::new(path), None, "{path}");
        }
    }

    #[test]
    fn parameters_come_and_go() {
        let path = LocalPath::new("/list?folder=1").unwrap().with("done", "sent");
        assert_eq!(path.as_str(), "/list?folder=1&done=sent");
        assert_eq!(path.without("done").as_str(), "/list?folder=1");
        let folders = LocalPath::new("/folders").unwrap().with("done", "sent");
        assert_eq!(folders.as_str(), "/folders?done=sent");
        assert_eq!(folders.without("done").as_str(), "/folders");
    }
}
