//! Paths of files below a site's folder.

use std::fmt;

use crate::content_type::content_type;

/// The longest path; longer ones are not looked for.
const BYTES_MAX: usize = 1024;

/// The folder whose files are all sent, whatever they end with.
const PUBLIC: &str = "public/";

/// What the names of files that are code end with.
const ENDINGS_OF_CODE: [&str; 4] = [".pytec", ".pyh", ".py", ".pyc"];

/// The path of a file below the site's folder, without `.` and `..`, and with no hidden segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SitePath(String);

impl SitePath {
    /// The file of this path, if it may be one of a site: `a/b.html`.
    pub(crate) fn new(path: &str) -> Option<Self> {
        let is_usual = |name: &str| !name.is_empty() && !name.starts_with('.');
        let is_path = path.len() <= BYTES_MAX
            && path.split('/').all(is_usual)
            && !path.contains(char::is_control);
        is_path.then(|| Self(path.to_owned()))
    }

    /// The file that this one names so: beside itself, or from the root if the name begins with `/`.
    pub(crate) fn sibling(&self, name: &str) -> Option<Self> {
        let (folder, name) = match name.strip_prefix('/') {
            Some(name) => ("", name),
            None => (self.0.rsplit_once('/').map_or("", |(folder, _)| folder), name),
        };
        let mut segments: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
        for segment in name.split('/') {
            match segment {
                "." => {}
                ".." => drop(segments.pop()?),
                name => segments.push(name),
            }
        }
        Self::new(&segments.join("/"))
    }

    /// The path that a page's file answers, if this is one: `/a` for `a.pytec`, `/` for
    /// `index.pytec`.
    pub(crate) fn page(&self) -> Option<String> {
        let name = self.0.strip_suffix(".pytec").filter(|_| !self.is_library())?;
        let name = match name.strip_suffix("index") {
            Some(folder) if folder.is_empty() || folder.ends_with('/') => folder,
            _ => name,
        };
        Some(format!("/{name}"))
    }

    /// The file of the page that would answer this path.
    pub(crate) fn of_page(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let index = if path.is_empty() || path.ends_with('/') { "index" } else { "" };
        // The canonical path alone: `/index` is `/`.
        Self::new(&format!("{path}{index}.pytec"))
            .filter(|file| file.page().is_some_and(|page| page.strip_prefix('/') == Some(path)))
    }

    /// The file that is sent as it is for this path, if it may be: one that is meant for browsers by
    /// its ending or its folder, and no source.
    pub(crate) fn of_file(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let index = if path.is_empty() || path.ends_with('/') { "index.html" } else { "" };
        Self::new(&format!("{path}{index}")).filter(|file| file.is_public() && !file.is_source())
    }

    pub(crate) fn is_include(&self) -> bool {
        self.0.ends_with(".pyh") && !self.is_library()
    }

    /// Whether it is in the folder of the site's modules.
    fn is_library(&self) -> bool {
        self.0.split('/').next().is_some_and(|first| first.eq_ignore_ascii_case("lib"))
    }

    fn is_public(&self) -> bool {
        self.0.starts_with(PUBLIC) || content_type(&self.0).is_some()
    }

    /// Whether it is code or configuration, which nobody is sent.
    fn is_source(&self) -> bool {
        let path = self.0.to_ascii_lowercase();
        let name = path.rsplit('/').next().unwrap_or_default();
        // Editors and people keep copies of sources: `a.pytec~`, `a.py.bak`, `pytec.toml.old`.
        let is_code = ENDINGS_OF_CODE.iter().any(|ending| {
            let mut others = name.split(ending).skip(1);
            others.any(|behind| !behind.starts_with(char::is_alphanumeric))
        });
        is_code || self.is_library() || name.starts_with("pytec.toml") || name.ends_with('~')
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SitePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_include_stays_below_the_root() {
        let page = SitePath::new("a/b/page.pytec").unwrap();
        for (name, expected) in [
            ("x.pyh", Some("a/b/x.pyh")),
            ("../x.pyh", Some("a/x.pyh")),
            ("../../x.pyh", Some("x.pyh")),
            ("../../../x.pyh", None),
            ("/x.pyh", Some("x.pyh")),
            ("/../x.pyh", None),
            (".hidden/x.pyh", None),
            ("a//x.pyh", None),
            ("a\0.pyh", None),
        ] {
            let found = page.sibling(name).map(|path| path.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_page_has_one_path() {
        for (path, file) in [
            ("/", Some("index.pytec")),
            ("/a", Some("a.pytec")),
            ("/a/", Some("a/index.pytec")),
            ("/index", None),
            ("/a/index", None),
            ("/lib/a", None),
            ("/a.pytec", Some("a.pytec.pytec")),
            ("/../a", None),
            ("//a", None),
        ] {
            let found = SitePath::of_page(path);
            assert_eq!(found.as_ref().map(SitePath::as_str), file, "{path}");
            let back = found.and_then(|file| file.page());
            assert_eq!(back.as_deref(), file.map(|_| path), "{path}");
        }
    }

    #[test]
    fn only_what_is_meant_for_browsers_is_sent() {
        for path in [
            "/data.db",
            "/data.DB",
            "/id_rsa",
            "/config.ini",
            "/site.sqlite3",
            "/backup.tar.gz",
            "/Makefile",
            "/notes.html.old",
            "/notes.md",
            "/a.html/data.db",
            "/PUBLIC/data.db",
            "/publicity/data.db",
            "/sub/public/data.db",
            "/public",
        ] {
            assert_eq!(SitePath::of_file(path), None, "{path}");
        }
        for path in ["/A.HTML", "/logo.Svg", "/app.js.map", "/public/data.db", "/public/a/id_rsa"] {
            assert_eq!(SitePath::of_file(path).unwrap().as_str(), &path[1..]);
        }
    }

    #[test]
    fn sources_are_no_files_to_send() {
        for path in [
            "/a.pytec",
            "/a.PYH",
            "/a.py",
            "/lib/a.txt",
            "/LIB/a.txt",
            "/pytec.toml",
            "/a.pyc",
            "/a.pytec~",
            "/a.PYTEC.bak",
            "/a.pyh.orig",
            "/a.py-2",
            "/a.py_old",
            "/a.python.py.txt",
            "/#a.pytec#",
            "/sub/a.pytec.1",
            "/pytec.toml.bak",
            "/pytec.toml~",
            "/a.html~",
            "/.env",
            "/a/../b",
            "/public/a.py",
            "/public/a.pytec",
            "/public/.env",
            "/public/../data.db",
            "/public/a.html~",
            "/public/pytec.toml",
        ] {
            assert_eq!(SitePath::of_file(path), None, "{path}");
        }
        assert_eq!(SitePath::of_file("/").unwrap().as_str(), "index.html");
        for path in ["/a/b.css", "/a.python.txt", "/a.pytecs.txt", "/a.pytec/b.txt", "/copy.txt"] {
            assert_eq!(SitePath::of_file(path).unwrap().as_str(), &path[1..]);
        }
    }
}
