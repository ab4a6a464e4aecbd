//! Error and rejection responses, as text, JSON or HTML by `Accept`.

use std::fmt::{self, Write};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::error_pages::ErrorPages;
use crate::page::page;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The media type of an answer of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `text/plain`, for programs and terminals.
    Text,
    /// `application/json`.
    Json,
    /// `text/html`, for people.
    Html {
        /// Whether loading the page again repeats the request without harm.
        can_reload: bool,
    },
}

impl Form {
    /// What `Accept` asks for.
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).map(HeaderValue::as_bytes);
        Self::accepted(accept, *method == Method::GET)
    }

    /// Of HTML and JSON the one that an `Accept` field names with the higher weight
    /// [RFC9110 §12.5.1], the first one of equal weights; text if it names neither.
    pub fn accepted(accept: Option<&[u8]>, can_reload: bool) -> Self {
        let mut best = (0.0, Self::Text);
        let ranges = accept.unwrap_or_default().split(|byte| *byte == b',');
        for range in ranges.filter_map(|range| std::str::from_utf8(range).ok()) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let form = if name.eq_ignore_ascii_case("text/html") {
                Self::Html { can_reload }
            } else if name.to_ascii_lowercase().ends_with("json") {
                Self::Json
            } else {
                continue;
            };
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            if weight > best.0 {
                best = (weight, form);
            }
        }
        best.1
    }
}

/// An answer of ours, whatever its form.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The status of the answer.
    pub status: StatusCode,
    /// One word for programs, in snake case.
    pub reason: &'static str,
    /// One sentence for operators; when to come again is added to it.
    pub sentence: &'static str,
}

/// What else an answer of ours says.
#[derive(Clone, Copy, Default)]
pub struct Details<'a> {
    /// The request, as the access log names it.
    pub request_id: Option<&'a str>,
    /// In how many seconds to come again.
    pub retry_after: Option<u64>,
    /// The operator's own pages.
    pub pages: Option<&'a ErrorPages>,
}

impl Message {
    /// An answer with this status, one word for programs and one sentence for operators.
    pub const fn new(status: StatusCode, reason: &'static str, sentence: &'static str) -> Self {
        Self { status, reason, sentence }
    }

    /// The answer to a request that has no id.
    pub fn answer<B: From<Bytes>>(self, form: Form) -> Response<B> {
        self.answer_with(form, Details::default())
    }

    /// The answer in this form, with these details.
    pub fn answer_with<B: From<Bytes>>(self, form: Form, details: Details<'_>) -> Response<B> {
        let (body, content_type) = match form {
            Form::Text => (self.text(details), "text/plain; charset=utf-8"),
            Form::Json => (self.json(details), "application/json"),
            Form::Html { can_reload } => {
                let page = self.page(details, can_reload);
                (page, "text/html; charset=utf-8")
            }
        };
        let mut answer = Response::new(B::from(Bytes::from(body)));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let id = details.request_id.and_then(|id| HeaderValue::from_str(id).ok());
        headers.extend(id.map(|id| (REQUEST_ID, id)));
        headers.extend(details.retry_after.map(|seconds| (RETRY_AFTER, seconds.into())));
        answer
    }

    fn text(self, details: Details<'_>) -> String {
        let Self { status, reason, sentence } = self;
        let mut text = String::with_capacity(160);
        // Writing to a string does not fail.
        let _ = write!(text, "{}: {sentence}{} ({reason}", status.as_u16(), Again(details));
        if let Some(id) = details.request_id {
            let _ = write!(text, ", request {id}");
        }
        text.push_str(")\n");
        text
    }

    /// Nothing in it needs to be escaped: ids of requests are plain, the rest is ours.
    fn json(self, details: Details<'_>) -> String {
        let Self { status, reason, sentence } = self;
        let mut json = String::with_capacity(200);
        let _ = write!(
            json,
            r#"{{"status":{},"error":"{reason}","message":"{sentence}{}""#,
            status.as_u16(),
            Again(details)
        );
        if let Some(id) = details.request_id {
            let _ = write!(json, r#","request_id":"{id}""#);
        }
        if let Some(seconds) = details.retry_after {
            let _ = write!(json, r#","retry_after_seconds":{seconds}"#);
        }
        json.push_str("}\n");
        json
    }

    fn page(self, details: Details<'_>, can_reload: bool) -> String {
        let Self { status, reason, .. } = self;
        let Details { request_id, retry_after, pages } = details;
        if let Some(page) =
            pages.and_then(|pages| pages.fill(status, reason, request_id, retry_after))
        {
            return page;
        }
        page(status, reason, request_id, retry_after.filter(|_| can_reload))
    }
}

/// When to come again, if an answer says it.
struct Again<'a>(Details<'a>);

impl fmt::Display for Again<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.retry_after {
            Some(seconds) => write!(f, "; try again in {seconds} s"),
            None => Ok(()),
        }
    }
}

/// The built-in page about an answer with this status, for a client whose `Accept` field asks for
/// HTML.
pub fn error_page(status: StatusCode, accept: Option<&[u8]>) -> Option<String> {
    let reason = match status {
        StatusCode::SERVICE_UNAVAILABLE => "overloaded",
        _ => status.canonical_reason().unwrap_or("error"),
    };
    let is_html = matches!(Form::accepted(accept, false), Form::Html { .. });
    is_html.then(|| page(status, reason, None, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_accept_prefers() {
        const HTML: Form = Form::Html { can_reload: true };
        for (accept, expected) in [
            ("", Form::Text),
            ("*/*", Form::Text),
            ("text/plain", Form::Text),
            ("application/json", Form::Json),
            ("application/problem+json", Form::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", HTML),
            ("text/html;q=0.4, application/JSON; q=0.5", Form::Json),
            ("text/html, application/JSON;q=0.5", HTML),
            ("application/json, text/html", Form::Json),
            ("text/html;q=0", Form::Text),
            ("text/html;q=x", Form::Text),
        ] {
            assert_eq!(Form::accepted(Some(accept.as_bytes()), true), expected, "{accept}");
        }
        assert_eq!(Form::accepted(None, true), Form::Text);
        assert_eq!(Form::accepted(Some(b"\xff, text/html"), true), HTML);
    }
}
