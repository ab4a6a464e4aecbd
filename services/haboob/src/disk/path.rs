//! Path resolution: which file a request is for, never one outside the site.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::percent_decode;

/// The kernel takes no longer path.
const LENGTH_MAX: usize = 4096;

/// The one hidden folder that is for everybody [RFC8615 §3].
const WELL_KNOWN: &[u8] = b".well-known";

/// What becomes of files whose names begin with a dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HiddenFiles {
    /// They are not served, except below `/.well-known`.
    #[default]
    Hidden,
    /// They are served as all others.
    Served,
}

/// A place in a site: relative, decoded once, without `..` and hidden names.
///
/// # Examples
/// ```
/// use tamarisk_haboob::{HiddenFiles, SitePath};
///
/// let path = SitePath::of("/docs/b%C3%BCcher/", HiddenFiles::Hidden).unwrap();
/// assert_eq!(path.as_path(), std::path::Path::new("docs/bücher"));
/// assert!(path.is_folder());
/// assert!(SitePath::of("/docs/%2e%2e/secret", HiddenFiles::Served).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SitePath {
    names: Vec<u8>,
    is_folder: bool,
}

/// Why a request's path names nothing in any site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// It does not begin with a slash.
    #[error("the path does not begin with a slash")]
    Relative,
    /// A `%` without two hexadecimal digits.
    #[error("a percent sign in the path is not followed by two hexadecimal digits")]
    Escape,
    /// A slash or NUL that was hidden in an escape.
    #[error("the path has an encoded slash or NUL")]
    Encoded,
    /// `..`, encoded or not.
    #[error("the path leaves the folder")]
    Climbs,
    /// A name that begins with a dot.
    #[error("the path names a hidden file")]
    Hidden,
    /// Longer than any file's.
    #[error("the path is too long")]
    TooLong,
}

impl SitePath {
    /// The path of a request, without its query.
    ///
    /// # Errors
    /// [`InvalidPath`] if it cannot name a file that is to be seen.
    pub fn of(path: &str, hidden: HiddenFiles) -> Result<Self, InvalidPath> {
        let relative = path.strip_prefix('/').ok_or(InvalidPath::Relative)?;
        if relative.len() > LENGTH_MAX {
            return Err(InvalidPath::TooLong);
        }
        let is_folder = relative.is_empty() || relative.ends_with('/');
        if is_plain(relative) {
            let names = relative.strip_suffix('/').unwrap_or(relative).into();
            return Ok(Self { names, is_folder });
        }
        let mut names = Vec::with_capacity(relative.len());
        // Empty names, as in `a//b`, mean nothing to a file system either.
        for encoded in relative.split('/').filter(|name| !name.is_empty()) {
            let name = decoded(encoded)?;
            if *name == *b".." {
                return Err(InvalidPath::Climbs);
            }
            let is_known = names.is_empty() && *name == *WELL_KNOWN;
            let is_seen = is_known || (hidden == HiddenFiles::Served && *name != *b".");
            if name.starts_with(b".") && !is_seen {
                return Err(InvalidPath::Hidden);
            }
            if !names.is_empty() {
                names.push(b'/');
            }
            names.extend_from_slice(&name);
        }
        Ok(Self { names, is_folder })
    }

    /// Relative to the site's root; empty for the root itself.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.names))
    }

    /// Whether it ends in a slash.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// The file `name` in this folder.
    pub(crate) fn join(&self, name: impl AsRef<[u8]>) -> Self {
        let mut names = self.names.clone();
        if !names.is_empty() {
            names.push(b'/');
        }
        names.extend_from_slice(name.as_ref());
        Self { names, is_folder: false }
    }

    /// The file beside this one whose name goes on with `ending`.
    pub(crate) fn with_ending(&self, ending: &str) -> Self {
        let mut names = self.names.clone();
        names.extend_from_slice(ending.as_bytes());
        Self { names, is_folder: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// Whether a path stands for itself, as most do: without escapes, empty names, and names that
/// begin with a dot.
fn is_plain(relative: &str) -> bool {
    let mut before = b'/';
    relative.bytes().all(|byte| {
        let begins_name = before == b'/';
        before = byte;
        !matches!((byte, begins_name), (b'%' | 0, _) | (b'/' | b'.', true))
    })
}

/// A name without its escapes.
fn decoded(encoded: &str) -> Result<Cow<'_, [u8]>, InvalidPath> {
    let bytes = encoded.as_bytes();
    let escapes = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'%');
    for (at, _) in escapes {
        let digits = bytes.get(at + 1..at + 3).ok_or(InvalidPath::Escape)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(InvalidPath::Escape);
        }
    }
    let name = Cow::from(percent_decode(bytes));
    if name.contains(&b'/') || name.contains(&0) {
        return Err(InvalidPath::Encoded);
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(path: &str, expected: &str, is_folder: bool) {
        let seen = SitePath::of(path, HiddenFiles::Hidden).unwrap();
        assert_eq!((seen.as_path(), seen.is_folder()), (Path::new(expected), is_folder), "{path}");
    }

    #[test]
    fn paths_are_decoded_once() {
        check("/", "", true);
        check("/a", "a", false);
        check("/a/b.html", "a/b.html", false);
        check("/a//b/", "a/b", true);
        check("/%61%25%36%31", "a%61", false);
        check("/b%C3%BC", "bü", false);
        check("/.well-known/acme-challenge/x", ".well-known/acme-challenge/x", false);
        check("/a..b", "a..b", false);
    }

    #[test]
    fn what_climbs_or_hides_is_rejected() {
        for (path, reason) in [
            ("a", InvalidPath::Relative),
            ("*", InvalidPath::Relative),
            ("/..", InvalidPath::Climbs),
            ("/a/../b", InvalidPath::Climbs),
            ("/%2e%2E/etc/passwd", InvalidPath::Climbs),
            ("/.%2e/", InvalidPath::Climbs),
            ("/..%2fetc", InvalidPath::Encoded),
            ("/a%2Fb", InvalidPath::Encoded),
            ("/a%00.html", InvalidPath::Encoded),
            ("/.git/config", InvalidPath::Hidden),
            ("/a/.well-known", InvalidPath::Hidden),
            ("/%2egit", InvalidPath::Hidden),
            ("/.", InvalidPath::Hidden),
            ("/a%", InvalidPath::Escape),
            ("/a%4", InvalidPath::Escape),
            ("/a%zz", InvalidPath::Escape),
            ("/%c0%ae%c0%ae/%%32%65", InvalidPath::Escape),
        ] {
            assert_eq!(SitePath::of(path, HiddenFiles::Hidden), Err(reason), "{path}");
        }
        let long = format!("/{}", "a".repeat(5000));
        assert_eq!(SitePath::of(&long, HiddenFiles::Hidden), Err(InvalidPath::TooLong));
    }

    #[test]
    fn hidden_names_are_seen_where_they_are_served_and_dots_alone_never() {
        let of = |path| SitePath::of(path, HiddenFiles::Served);
        assert_eq!(of("/a/.b").unwrap().as_path(), Path::new("a/.b"));
        assert_eq!(of("/."), Err(InvalidPath::Hidden));
        assert_eq!(of("/.."), Err(InvalidPath::Climbs));
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_site(path in "(/|%2e|\\.|%2F|[a-z]|%|%00|\\\\){0,12}") {
            for hidden in [HiddenFiles::Hidden, HiddenFiles::Served] {
                let Ok(path) = SitePath::of(&format!("/{path}"), hidden) else { continue };
                let components: Vec<_> = path.as_path().components().collect();
                let are_names = components.iter().all(|c| matches!(c, std::path::Component::Normal(_)));
                prop_assert!(are_names, "{path:?}");
            }
        }
    }
}
