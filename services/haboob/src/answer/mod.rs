//! Answers to requests for pages.

pub(crate) mod body;
mod placeholders;
pub(crate) mod range;
pub(crate) mod rejection;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, LAST_MODIFIED, LOCATION, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tamarisk_http_gate::error_page;
use tamarisk_proxy::ProxyBody;

use crate::answer::body::{Part, SiteBody};
use crate::answer::placeholders::filled;
use crate::answer::range::{ByteRange, Ranges};
use crate::page::condition::Verdict;
use crate::page::encoding::Accepted;
use crate::page::{Content, Form, Page};
use crate::site::route::Redirect;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(crate) type Answer = Response<SiteBody>;

/// A page, or what a request with these headers wants of it.
pub(crate) fn page(page: &Page, method: &Method, headers: &HeaderMap) -> Answer {
    let form = page.form(Accepted::of(headers));
    let mut answer = match form.validators.judge(headers) {
        Verdict::Failed => return message(StatusCode::PRECONDITION_FAILED),
        Verdict::NotModified => {
            let mut answer = Answer::default();
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            for field in [ETAG, LAST_MODIFIED] {
                let value = form.head[&field].clone();
                answer.headers_mut().insert(field, value);
            }
            answer
        }
        // Ranges are for GET only [RFC9110 §14.2].
        Verdict::Proceed { ranges: true } if method == Method::GET => {
            let field = headers.get(RANGE).and_then(|field| field.to_str().ok());
            match field.map_or(Ranges::Whole, |field| Ranges::of(field, form.length)) {
                Ranges::Whole => whole(form),
                Ranges::Parts(ranges) => partial(form, &ranges),
                Ranges::Unsatisfiable => return unsatisfiable(form.length),
            }
        }
        Verdict::Proceed { .. } => whole(form),
    };
    if page.varies() {
        answer.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    if method == Method::HEAD {
        *answer.body_mut() = SiteBody::default();
    }
    answer
}

fn whole(form: &Form) -> Answer {
    let all = ByteRange { first: 0, last: form.length.saturating_sub(1) };
    let part = if form.length > 0 { Some(part(form, all)) } else { None };
    let mut answer = Answer::new(SiteBody::of(part));
    *answer.headers_mut() = form.head.clone();
    answer
}

fn partial(form: &Form, ranges: &[ByteRange]) -> Answer {
    let mut answer = whole(form);
    *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    let fields = answer.headers_mut();
    let parts: Vec<Part> = if let &[range] = ranges {
        fields.insert(CONTENT_RANGE, content_range(range, form.length));
        vec![part(form, range)]
    } else {
        // It must not occur in the parts; a tag of the file's time and length will not.
        let tag = String::from_utf8_lossy(form.validators.etag.as_bytes());
        let boundary = format!("tamarisk-{}", tag.trim_matches('"'));
        let content_type = format!("multipart/byteranges; boundary={boundary}");
        let content_type = HeaderValue::try_from(content_type).expect("a tag is printable");
        fields.insert(CONTENT_TYPE, content_type);
        let end = Part::Held(format!("\r\n--{boundary}--\r\n").into());
        let parts = ranges
            .iter()
            .flat_map(|&range| [Part::Held(part_head(form, range, &boundary)), part(form, range)]);
        parts.chain([end]).collect()
    };
    *answer.body_mut() = SiteBody::of(parts);
    let length = http_body::Body::size_hint(answer.body()).lower();
    answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    answer
}

fn part_head(form: &Form, range: ByteRange, boundary: &str) -> Bytes {
    let mut head = format!("\r\n--{boundary}\r\ncontent-type: ").into_bytes();
    head.extend_from_slice(form.head[CONTENT_TYPE].as_bytes());
    head.extend_from_slice(b"\r\ncontent-range: ");
    head.extend_from_slice(content_range(range, form.length).as_bytes());
    head.extend_from_slice(b"\r\n\r\n");
    head.into()
}

fn content_range(ByteRange { first, last }: ByteRange, length: u64) -> HeaderValue {
    HeaderValue::try_from(format!("bytes {first}-{last}/{length}")).expect("digits and signs")
}

fn part(form: &Form, range: ByteRange) -> Part {
    match &form.content {
        Content::Held(bytes) => Part::Held(bytes.slice(range.first as usize..=range.last as usize)),
        Content::InMemory(file) => {
            Part::InMemory { file: Arc::clone(file), at: range.first, left: range.len() }
        }
        Content::File(file) => {
            Part::File { file: Arc::clone(file), at: range.first, left: range.len() }
        }
    }
}

fn unsatisfiable(length: u64) -> Answer {
    let mut answer = message(StatusCode::RANGE_NOT_SATISFIABLE);
    let field = HeaderValue::try_from(format!("bytes */{length}")).expect("digits and signs");
    answer.headers_mut().insert(CONTENT_RANGE, field);
    answer
}

/// What may be asked for.
pub(crate) fn options() -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().insert(ALLOW, METHODS);
    answer
}

/// Files are only read here.
pub(crate) fn not_allowed() -> Answer {
    let mut answer = message(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers_mut().insert(ALLOW, METHODS);
    answer
}

/// The same place with a slash at its end, where links in a folder's page lead right.
pub(crate) fn folder(path: &str, query: Option<&str>) -> Answer {
    // Two slashes would name another host, and browsers take a backslash for one.
    let path = path.trim_start_matches('/').replace('\\', "%5C");
    let location = match query {
        Some(query) => format!("/{path}/?{query}"),
        None => format!("/{path}/"),
    };
    let Ok(location) = HeaderValue::try_from(location) else {
        return message(StatusCode::BAD_REQUEST);
    };
    let mut answer = message(StatusCode::MOVED_PERMANENTLY);
    answer.headers_mut().insert(LOCATION, location);
    answer
}

/// Somewhere else, for a request that has `rest` below the route's path.
pub(crate) fn redirect(redirect: &Redirect, rest: &str, query: Option<&str>) -> Answer {
    let Some(location) = redirect.location(rest, query) else {
        return message(StatusCode::BAD_REQUEST);
    };
    let mut answer = message(redirect.status);
    answer.headers_mut().insert(LOCATION, location);
    answer
}

/// What an upstream has said, or what is said in its place.
pub(crate) fn passing(answer: Response<ProxyBody>) -> Answer {
    answer.map(SiteBody::passing)
}

/// What of a request matters to a page that stands for an error.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    accepted: Accepted,
    accept: Option<HeaderValue>,
    is_head: bool,
}

impl Wish {
    pub(crate) fn new(accepted: Accepted, accept: Option<HeaderValue>, is_head: bool) -> Self {
        Self { accepted, accept, is_head }
    }

    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).cloned();
        Self::new(Accepted::of(headers), accept, method == Method::HEAD)
    }
}

/// `answer`, which is a text of ours, as a page for clients that ask for HTML.
pub(crate) fn for_people(mut answer: Answer, wish: &Wish) -> Answer {
    let status = answer.status();
    let is_ours = answer.headers().get(CONTENT_TYPE) == Some(&TEXT);
    if !is_ours || !(status.is_client_error() || status.is_server_error()) {
        return answer;
    }
    let accept = wish.accept.as_ref().map(HeaderValue::as_bytes);
    if let Some(page) = error_page(status, accept) {
        let fields = answer.headers_mut();
        fields.insert(CONTENT_TYPE, HTML);
        fields.insert(CONTENT_LENGTH, page.len().into());
        let is_head = wish.is_head;
        *answer.body_mut() =
            if is_head { SiteBody::default() } else { SiteBody::held(page.into()) };
    }
    answer
}

/// Whether a page may stand for `answer`: a client that asked for JSON gets JSON.
pub(crate) fn is_text(answer: &Answer) -> bool {
    let content_type = answer.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|content_type| content_type.as_bytes().starts_with(b"text/"))
}

/// `answer` with a page in place of its text, and the page's placeholders filled in. Its status and
/// its other fields stay.
pub(crate) fn with_page(mut answer: Answer, page: &Page, wish: &Wish) -> Answer {
    let filled = filled(page, &answer);
    let form = if filled.is_some() { &page.plain } else { page.form(wish.accepted) };
    let (head, mut body) = whole(form).into_parts();
    let fields = answer.headers_mut();
    fields.remove(CONTENT_ENCODING);
    fields.extend(head.headers);
    for of_the_page in [ACCEPT_RANGES, ETAG, LAST_MODIFIED] {
        fields.remove(of_the_page);
    }
    if page.varies() {
        fields.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    if let Some(filled) = filled {
        fields.insert(CONTENT_LENGTH, filled.len().into());
        body = SiteBody::held(filled);
    }
    *answer.body_mut() = if wish.is_head { SiteBody::default() } else { body };
    answer
}

/// A status in words.
pub(crate) fn message(status: StatusCode) -> Answer {
    let words = status.canonical_reason().unwrap_or("no answer");
    let text = [status.as_str(), ": ", words, "\n"].concat();
    let mut answer = Answer::new(SiteBody::held(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer
}
