//! The answers that we give ourselves: as text, as JSON, or as a page for people.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tamarisk_control::Reason;
use tamarisk_stage::Refused;

use crate::ErrorPages;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Marks an answer, in its extensions, as a refusal.
#[derive(Clone, Copy, Debug)]
pub struct Refusal;

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
    /// One sentence for operators.
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
        let _ = write!(text, "{}: {sentence} ({reason}", status.as_u16());
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
            r#"{{"status":{},"error":"{reason}","message":"{sentence}""#,
            status.as_u16()
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

/// A page for people about an answer with this status. It loads itself again after
/// `reload_after` seconds. `reason` and `request_id` must need no escaping.
fn page(
    status: StatusCode,
    reason: &str,
    request_id: Option<&str>,
    reload_after: Option<u64>,
) -> String {
    let (title, sentence) = words(status);
    let mut page = String::with_capacity(1024);
    page.push_str(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n",
    );
    if let Some(seconds) = reload_after {
        let _ = writeln!(page, "<meta http-equiv=\"refresh\" content=\"{seconds}\">");
    }
    let _ = write!(
        page,
        "<title>{title}</title>\n<style>\n\
         :root {{ color-scheme: light dark; }}\n\
         body {{ font: 1.05rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1.25rem; }}\n\
         h1 {{ font-size: 1.5rem; }}\n\
         small {{ opacity: .7; overflow-wrap: anywhere; }}\n\
         </style>\n<main>\n<h1>{title}</h1>\n<p>{sentence}</p>\n"
    );
    if let Some(seconds) = reload_after {
        let unit = if seconds == 1 { "second" } else { "seconds" };
        let _ = writeln!(page, "<p>This page tries again in {seconds} {unit}.</p>");
    }
    let _ = write!(page, "<p><small>{} · {reason}", status.as_u16());
    if let Some(id) = request_id {
        let _ = write!(page, " · request {id}");
    }
    page.push_str("</small></p>\n</main>\n</html>\n");
    page
}

/// The built-in page about an answer with this status, for a client whose `Accept` field asks for
/// HTML. If the request `can_reload`, the page loads itself again after `retry_after` seconds.
pub fn error_page(
    status: StatusCode,
    accept: Option<&[u8]>,
    can_reload: bool,
    retry_after: Option<u64>,
) -> Option<String> {
    let reason = match status {
        StatusCode::SERVICE_UNAVAILABLE => "overloaded",
        _ => status.canonical_reason().unwrap_or("error"),
    };
    let Form::Html { can_reload } = Form::accepted(accept, can_reload) else { return None };
    Some(page(status, reason, None, retry_after.filter(|_| can_reload)))
}

/// A title and a sentence for somebody who does not know how the site works.
fn words(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::SERVICE_UNAVAILABLE => (
            "This site is busy",
            "More people are using it right now than it can serve. Please try again in a moment.",
        ),
        StatusCode::BAD_GATEWAY => (
            "This site is not available",
            "Something went wrong on our side. Please try again in a few minutes.",
        ),
        StatusCode::GATEWAY_TIMEOUT => (
            "This took too long",
            "The site did not answer in time. Please try again in a few minutes.",
        ),
        StatusCode::NOT_FOUND => (
            "Page not found",
            "There is nothing at this address. Please check it for typing errors.",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            ("This is too large", "What you have sent is larger than this site accepts.")
        }
        StatusCode::FORBIDDEN => ("No access", "This page is not open to you."),
        status if status.is_client_error() => {
            ("This request cannot be answered", "The site does not understand the request.")
        }
        _ => {
            ("Something went wrong", "The error is on our side. Please try again in a few minutes.")
        }
    }
}

/// The answer to a request that a gate did not let through: 503, and when to
/// come again in whole seconds, at least one.
pub fn refused<B: From<Bytes>>(refused: &Refused, form: Form, details: Details<'_>) -> Response<B> {
    let after = match refused {
        Refused::Rejected(rejection) => rejection.retry_after,
        Refused::Dropped | Refused::Closed => None,
    };
    let seconds = after.map_or(1, |after| whole_seconds(after).max(1));
    let details = Details { retry_after: Some(seconds), ..details };
    let mut answer = message_of(reason(refused)).answer_with(form, details);
    answer.extensions_mut().insert(Refusal);
    answer
}

/// Why a gate did not let a request through.
pub fn reason(refused: &Refused) -> Reason {
    match refused {
        Refused::Rejected(rejection) => rejection.reason,
        Refused::Dropped => Reason::PredictedLate,
        Refused::Closed => Reason::Closed,
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn message_of(reason: Reason) -> Message {
    let sentence = match reason {
        Reason::PredictedLate => "overloaded: the answer would come too late; try again later",
        Reason::StandingQueue => "overloaded: the queue does not get shorter; try again later",
        Reason::QueueFull => "overloaded: the queue is full; try again later",
        Reason::RateExceeded => "overloaded: the admission rate is used up; try again later",
        Reason::ConcurrencyLimit => "overloaded: concurrency limit reached; try again later",
        Reason::PriorityCutoff => {
            "overloaded: only higher priorities are admitted; try again later"
        }
        Reason::ShareExceeded => {
            "overloaded: this client has used its share of the capacity; try again later"
        }
        Reason::Random => "overloaded: a share of all requests is refused; try again later",
        Reason::Draining => "shutting down; try again later",
        Reason::Closed => "shut down; try again later",
        _ => "overloaded; try again later",
    };
    Message::new(StatusCode::SERVICE_UNAVAILABLE, reason.as_str(), sentence)
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Rejection;

    use super::*;

    fn retry_after(after: Option<Duration>) -> String {
        let rejection = Rejection { reason: Reason::QueueFull, retry_after: after };
        let answer =
            refused::<Bytes>(&Refused::Rejected(rejection), Form::Text, Details::default());
        answer.headers()[RETRY_AFTER].to_str().unwrap().to_owned()
    }

    #[test]
    fn when_to_come_again_is_told_in_whole_seconds_and_never_too_early() {
        assert_eq!(retry_after(None), "1");
        assert_eq!(retry_after(Some(Duration::ZERO)), "1");
        assert_eq!(retry_after(Some(Duration::from_secs(2))), "2");
        assert_eq!(retry_after(Some(Duration::from_millis(2001))), "3");
    }

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

    fn body(form: Form) -> String {
        let details = Details { request_id: Some("7b-1"), ..Details::default() };
        let answer = refused::<Bytes>(&Refused::Closed, form, details);
        assert_eq!(answer.headers()["x-request-id"], "7b-1");
        String::from_utf8(answer.into_body().into()).unwrap()
    }

    #[test]
    fn every_form_says_why_and_names_the_request() {
        assert_eq!(body(Form::Text), "503: shut down; try again later (closed, request 7b-1)\n");
        let expected = serde_json::json!({
            "status": 503, "error": "closed", "message": "shut down; try again later",
            "request_id": "7b-1", "retry_after_seconds": 1
        });
        let json: serde_json::Value = serde_json::from_str(&body(Form::Json)).unwrap();
        assert_eq!(json, expected);
        let page = body(Form::Html { can_reload: true });
        assert!(page.contains("503 · closed · request 7b-1"), "{page}");
        assert!(page.contains("<meta http-equiv=\"refresh\" content=\"1\">"), "{page}");
    }

    #[test]
    fn a_page_that_answers_a_form_does_not_load_itself_again() {
        let page = body(Form::Html { can_reload: false });
        assert!(!page.contains("refresh") && !page.contains("tries again"), "{page}");
    }
}
