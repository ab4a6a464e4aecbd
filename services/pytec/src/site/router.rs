//! The routes of a site, in axum's terms: every path is a page, a file or neither.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ALLOW, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use tamarisk::axum::{RequestEntry, StageError};
use tamarisk::{CallError, Entry};
use tamarisk_http_gate::client_network;

use super::files::{self, FileAnswer, FileRequest};
use super::{Site, SiteError};
use crate::options::client;
use crate::page::Page;
use crate::request::PageRequest;

/// How long a client may take to send the body of a request.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

pub(super) fn router(site: Site) -> Router {
    Router::new().fallback(answer).with_state(site)
}

async fn answer(
    State(site): State<Site>,
    RequestEntry(entry): RequestEntry,
    request: axum::extract::Request,
) -> Response {
    let (head, body) = request.into_parts();
    if ![Method::GET, Method::HEAD, Method::POST].contains(&head.method) {
        return with_allow("GET, HEAD, POST");
    }
    let Ok(path) = percent_decode_str(head.uri.path()).decode_utf8() else {
        return plain(StatusCode::NOT_FOUND);
    };
    let entry = match client(&head) {
        Some(client) => entry.flow(client_network(client)),
        None => entry,
    };
    let page = match site.page(&path) {
        Some(page) => page,
        None => match beside(&site, &path, entry, &head).await {
            Ok(page) => page,
            Err(response) => return response,
        },
    };
    let entry = match site.class_of(&page, &head) {
        Some(class) => entry.class(class),
        None => entry,
    };
    let body = match body_of(body, site.options().request_bytes_max).await {
        Ok(body) => body,
        Err(status) => return plain(status),
    };
    let request = page_request(&head, body);
    let id = request.id.clone();
    match page.render(entry, request).await {
        Ok(answer) => answer.into_response(),
        Err(CallError::Failed(failure)) => failed(&site, &id, failure.text()),
        Err(error) => StageError::from(error).response_to(&head.method, &head.headers),
    }
}

/// A new page, or what else is to be answered.
async fn beside(site: &Site, path: &str, entry: Entry, head: &Parts) -> Result<Page, Response> {
    let files = site.files().ok_or_else(|| plain(StatusCode::NOT_FOUND))?;
    let request = FileRequest { path: path.to_owned(), method: head.method.clone() };
    let answer = files.call_as(request, entry).await;
    let answer =
        answer.map_err(|error| StageError::from(error).response_to(&head.method, &head.headers))?;
    match answer {
        FileAnswer::NewPage(file) => site.add(file).await.map_err(|error| {
            tracing::error!("Page {path} cannot be added: {error}");
            match error {
                SiteError::TooManyPages { .. } => plain(StatusCode::NOT_FOUND),
                _ => plain(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }),
        FileAnswer::File(_) | FileAnswer::TooLarge | FileAnswer::Folder
            if head.method == Method::POST =>
        {
            Err(with_allow("GET, HEAD"))
        }
        FileAnswer::File(file) => Err(files::response(file)),
        FileAnswer::Folder => {
            // As the client wrote it, with a slash behind; a query goes with it.
            let query = head.uri.query().map_or_else(String::new, |query| format!("?{query}"));
            let location = HeaderValue::try_from(format!("{}/{query}", head.uri.path()));
            let location = location.map_err(|_| plain(StatusCode::NOT_FOUND))?;
            Err((StatusCode::PERMANENT_REDIRECT, [(LOCATION, location)]).into_response())
        }
        FileAnswer::TooLarge => Err(plain(StatusCode::INTERNAL_SERVER_ERROR)),
        FileAnswer::Nothing => Err(plain(StatusCode::NOT_FOUND)),
    }
}

async fn body_of(body: Body, bytes_max: usize) -> Result<Bytes, StatusCode> {
    let body = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(BODY_TIME_MAX, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

fn page_request(head: &Parts, body: Bytes) -> PageRequest {
    let mut request = PageRequest::get(head.uri.path()).query(head.uri.query().unwrap_or_default());
    request.method = head.method.clone();
    request.headers = head.headers.clone();
    request.client = client(head);
    request.body = body;
    request
}

/// The page about an error in a page.
fn failed(site: &Site, id: &str, text: &str) -> Response {
    let what = if site.options().shows_errors {
        format!("<pre>{}</pre>", escaped(text))
    } else {
        "<p>This page failed. The log of the server says why.</p>".to_owned()
    };
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>500</title>\n<h1>500</h1>\n{what}\n<p>Request {id}</p>\n</html>\n"
    );
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (StatusCode::INTERNAL_SERVER_ERROR, headers, page).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn plain(status: StatusCode) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    (status, format!("{}: {}\n", status.as_u16(), reason.to_lowercase())).into_response()
}

fn with_allow(methods: &'static str) -> Response {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}
