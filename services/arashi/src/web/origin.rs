//! Whether a form was sent from one of our own pages, as browsers say.

use http::HeaderMap;
use http::header::{HOST, HeaderName, ORIGIN};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the headers of a request say that it comes from another site. What says nothing is
/// not from a browser of today, or from one whose `Origin` is `null` because our pages send no
/// referrer: then the form's token decides alone.
pub(crate) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text(SEC_FETCH_SITE) {
        return !matches!(site, "same-origin" | "none");
    }
    match text(ORIGIN) {
        None | Some("null") => false,
        Some(origin) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_none() || host != text(HOST)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn browsers_say_where_a_form_comes_from() {
        for (fields, expected) in [
            (&[][..], false),
            (&[(SEC_FETCH_SITE, "same-origin")], false),
            (&[(SEC_FETCH_SITE, "none")], false),
            (&[(SEC_FETCH_SITE, "same-site")], true),
            (&[(SEC_FETCH_SITE, "cross-site")], true),
            (&[(SEC_FETCH_SITE, "same-origin"), (ORIGIN, "null")], false),
            (&[(ORIGIN, "null")], false),
            (&[(ORIGIN, "https://mail.example.org")], false),
            (&[(ORIGIN, "https://example.org")], true),
            (&[(ORIGIN, "https://mail.example.org:8443")], true),
            (&[(ORIGIN, "mail.example.org")], true),
        ] {
            let mut headers: HeaderMap = fields
                .iter()
                .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
                .collect();
            headers.insert(HOST, HeaderValue::from_static("mail.example.org"));
            assert_eq!(is_from_elsewhere(&headers), expected, "{fields:?}");
        }
    }
}
