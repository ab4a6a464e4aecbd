//! What a page is asked, and what it answers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Values of a query or a form; more are left out, and nobody types as many.
const VALUES_MAX: usize = 1000;

/// A request for a page, as [`Page::render`](crate::Page::render) takes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PageRequest {
    /// Names the request in the log and on error pages.
    pub id: String,
    /// The method.
    pub method: Method,
    /// The path, as the client sent it.
    pub path: String,
    /// The query without its `?`.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The address of the client, if it is known.
    pub client: Option<IpAddr>,
    /// The body: a form if `Content-Type` says so.
    pub body: Bytes,
    /// Values for the page, which has them as `req.values`.
    pub values: serde_json::Value,
}

impl PageRequest {
    /// A GET of this path, without anything else.
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            id: new_id(),
            method: Method::GET,
            path: path.into(),
            query: String::new(),
            headers: HeaderMap::new(),
            client: None,
            body: Bytes::new(),
            values: serde_json::Value::Null,
        }
    }

    /// With these values for the page, which has them as `req.values`.
    #[must_use]
    pub fn values(mut self, values: serde_json::Value) -> Self {
        self.values = values;
        self
    }

    /// With this query, without its `?`.
    #[must_use]
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = query.into();
        self
    }

    pub(crate) fn head<'r>(&'r self, class: &'r str, quality: f64) -> RequestHead<'r> {
        let is_form = self.headers.get(CONTENT_TYPE).is_some_and(|value| {
            let value = value.to_str().unwrap_or_default();
            let kind = value.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
        });
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        RequestHead {
            id: &self.id,
            method: self.method.as_str(),
            path: &self.path,
            query: pairs(self.query.as_bytes()),
            form: if is_form { pairs(&self.body) } else { Vec::new() },
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), text(value)))
                .collect(),
            client: self.client.map(|client| client.to_string()),
            class,
            quality,
            values: &self.values,
        }
    }
}

/// A random id, from the random seed of the standard library's hasher.
fn new_id() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

fn pairs(encoded: &[u8]) -> Vec<(String, String)> {
    let pairs = form_urlencoded::parse(encoded).into_owned();
    pairs.take(VALUES_MAX).collect()
}

/// A request as a process reads it.
#[derive(Serialize)]
pub(crate) struct RequestHead<'r> {
    id: &'r str,
    method: &'r str,
    path: &'r str,
    query: Vec<(String, String)>,
    form: Vec<(String, String)>,
    headers: Vec<(&'r str, String)>,
    client: Option<String>,
    class: &'r str,
    quality: f64,
    values: &'r serde_json::Value,
}

/// What a page answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PageAnswer {
    /// The status; 200 unless the page sets another.
    pub status: StatusCode,
    /// The headers that the page set, and its `Content-Type`.
    pub headers: HeaderMap,
    /// The page.
    pub body: Bytes,
}

impl PageAnswer {
    /// What the process sent, if it can be an answer. The process checks the same where the page
    /// sets it, but it runs the page's code and is not to be trusted.
    pub(crate) fn of(status: u16, fields: Vec<(String, String)>, body: Vec<u8>) -> Option<Self> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::try_from(name).ok()?;
            headers.try_append(name, HeaderValue::try_from(value).ok()?).ok()?;
        }
        let status = StatusCode::from_u16(status).ok().filter(|it| !it.is_informational())?;
        Some(Self { status, headers, body: body.into() })
    }
}

impl IntoResponse for PageAnswer {
    fn into_response(self) -> Response {
        (self.status, self.headers, self.body).into_response()
    }
}
