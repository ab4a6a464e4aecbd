//! Custom error pages of the operator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use http::StatusCode;
use parking_lot::RwLock;

/// A page is sent to everyone who is rejected, so that it must not be long.
const PAGE_BYTES_MAX: u64 = 64 * 1024;

/// What is filled in where it stands in a page, in double braces.
const NAMES: [&str; 4] = ["status", "reason", "request_id", "retry_after"];

/// Pages by status, as HTML in UTF-8. In a page, `{{status}}`, `{{reason}}`, `{{request_id}}` and
/// `{{retry_after}}` stand for what they say. Clones share the pages.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages(Arc<RwLock<BTreeMap<u16, Arc<str>>>>);

/// A page cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ErrorPageError {
    /// It cannot be read, or is not UTF-8.
    #[error("cannot read the error page {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is too long.
    #[error("the error page {} has {bytes} bytes; at most {PAGE_BYTES_MAX} are allowed", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// It has a name in double braces that stands for nothing.
    #[error(
        "unknown name {{{{{name}}}}} in the error page {}; known are {}",
        path.display(),
        NAMES.map(|name| format!("{{{{{name}}}}}")).join(", ")
    )]
    UnknownName {
        /// The file.
        path: PathBuf,
        /// What stands between the braces.
        name: String,
    },
}

impl ErrorPages {
    /// Reads a page from a file, for answers with this status.
    ///
    /// # Errors
    /// [`ErrorPageError`].
    pub fn read(&self, status: StatusCode, path: &Path) -> Result<(), ErrorPageError> {
        let unreadable = |source| ErrorPageError::Unreadable { path: path.to_owned(), source };
        let bytes = fs::metadata(path).map_err(unreadable)?.len();
        if bytes > PAGE_BYTES_MAX {
            return Err(ErrorPageError::TooLong { path: path.to_owned(), bytes });
        }
        let page = fs::read_to_string(path).map_err(unreadable)?;
        if let Some(name) = names(&page).find(|name| !NAMES.contains(name)) {
            let (path, name) = (path.to_owned(), name.to_owned());
            return Err(ErrorPageError::UnknownName { path, name });
        }
        self.0.write().insert(status.as_u16(), page.into());
        Ok(())
    }

    /// Takes the pages of `other` in place of these; whether they differ.
    pub fn replace(&self, other: &Self) -> bool {
        let other = other.0.read().clone();
        let mut pages = self.0.write();
        let differ = *pages != other;
        *pages = other;
        differ
    }

    /// The page for a status, if there is one; `retry_after` in seconds.
    pub fn fill(
        &self,
        status: StatusCode,
        reason: &str,
        request_id: Option<&str>,
        retry_after: Option<u64>,
    ) -> Option<String> {
        let page = self.0.read().get(&status.as_u16()).map(Arc::clone)?;
        let retry_after = retry_after.map(|seconds| seconds.to_string());
        Some(fill_in(&page, status, reason, request_id, retry_after.as_deref()))
    }
}

/// `page` with these in the places of its names; a dash where there is none. They have to be plain:
/// nothing is escaped.
pub fn fill_in(
    page: &str,
    status: StatusCode,
    reason: &str,
    request_id: Option<&str>,
    retry_after: Option<&str>,
) -> String {
    let values = [
        ("{{status}}", status.as_str()),
        ("{{reason}}", reason),
        ("{{request_id}}", request_id.unwrap_or("-")),
        ("{{retry_after}}", retry_after.unwrap_or("-")),
    ];
    values.into_iter().fold(page.to_owned(), |page, (name, value)| page.replace(name, value))
}

/// What stands in double braces in a page.
fn names(page: &str) -> impl Iterator<Item = &str> {
    page.split("{{").skip(1).filter_map(|rest| rest.split_once("}}").map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> tempfile::TempPath {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file.into_temp_path()
    }

    #[test]
    fn a_page_is_filled_and_replaced() {
        let (pages, busy) = (ErrorPages::default(), StatusCode::SERVICE_UNAVAILABLE);
        let (id, after) = (Some("a1"), Some(3));
        assert_eq!(pages.fill(busy, "queue_full", id, after), None);
        pages.read(busy, &page("{{status}} {{reason}} {{request_id}} {{retry_after}}")).unwrap();
        assert_eq!(pages.fill(busy, "queue_full", id, after).unwrap(), "503 queue_full a1 3");
        assert_eq!(pages.fill(StatusCode::BAD_GATEWAY, "unreachable", id, after), None);

        let others = ErrorPages::default();
        others.read(busy, &page("later")).unwrap();
        assert!(pages.clone().replace(&others) && !pages.replace(&others));
        assert_eq!(pages.fill(busy, "queue_full", id, after).unwrap(), "later");
    }

    #[test]
    fn a_name_that_stands_for_nothing_is_an_error() {
        let pages = ErrorPages::default();
        let check = |text: &str, expected: Result<(), &str>| {
            let page = page(text);
            let read = pages.read(StatusCode::BAD_GATEWAY, &page);
            let path = page.display();
            let known = "known are {{status}}, {{reason}}, {{request_id}}, {{retry_after}}";
            let expected = expected.map_err(|name| {
                format!("unknown name {{{{{name}}}}} in the error page {path}; {known}")
            });
            assert_eq!(read.map_err(|error| error.to_string()), expected);
        };
        check("a {{b", Ok(()));
        check("<style>a{b:c}@media d{e{f:g}}</style>{{status}}", Ok(()));
        check("{{status}} {{statsu}} {{", Err("statsu"));
        check("{{ status }}", Err(" status "));
    }

    #[test]
    fn a_page_that_is_missing_or_too_long_is_an_error() {
        let (pages, status) = (ErrorPages::default(), StatusCode::BAD_GATEWAY);
        let error = pages.read(status, Path::new("/no/such/page.html")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the error page /no/such/page.html");
        let long = page(&"x".repeat(PAGE_BYTES_MAX as usize + 1));
        let error = pages.read(status, &long).unwrap_err();
        assert!(error.to_string().ends_with("has 65537 bytes; at most 65536 are allowed"));
    }
}
