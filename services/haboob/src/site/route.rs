//! Route targets that are not files: proxied services and redirects.

use http::{HeaderValue, StatusCode};

/// Sends clients elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where: a path that begins with a slash, or a URL. If it ends in a slash, what the
    /// request's path has below the route's is added. A fragment stays at the end.
    pub to: String,
    /// 301, 302, 307 or 308.
    pub status: StatusCode,
}

impl Redirect {
    /// Where a request goes whose path has `rest` below the route's.
    pub(crate) fn location(&self, rest: &str, query: Option<&str>) -> Option<HeaderValue> {
        let (to, fragment) = self.to.split_at(self.to.find('#').unwrap_or(self.to.len()));
        let mut location = to.to_owned();
        if location.ends_with('/') {
            // Browsers take a backslash for a slash, and two slashes name another host.
            let rest = rest.trim_start_matches('/').replace('\\', "%5C");
            location.push_str(&rest);
        }
        if let Some(query) = query.filter(|_| !location.contains('?')) {
            location.push('?');
            location.push_str(query);
        }
        location.push_str(fragment);
        HeaderValue::try_from(location).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(location("/new/#part", "/a/b", Some("c=d")), to("/new/a/b?c=d#part"));
        assert_eq!(location("/new#part?/", "/a", Some("b")), to("/new?b#part?/"));
        assert_eq!(location("https://a.example/", "//b", None), to("https://a.example/b"));
        assert_eq!(location("/", "//evil.example/", None), to("/evil.example/"));
        assert_eq!(location("/", "/\\evil.example/", None), to("/%5Cevil.example/"));
    }
}
