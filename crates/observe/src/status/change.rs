//! Changes over the status port, authorised by a token: of targets, and of the profiler's log.

use std::path::Path;

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tamarisk_stage::BoxError;

use super::board::Board;
use super::response::{content, text};
use super::targets;

/// Every class of every stage has room in it.
const BODY_MAX: usize = 64 * 1024;

/// The answer to whatever is asked about `/targets`.
pub(super) async fn targets<B>(board: &Board, request: Request<B>) -> Response<Full<Bytes>>
where
    B: Body<Data: Send, Error: Into<BoxError>>,
{
    let whole = match *request.method() {
        Method::GET | Method::HEAD => return shown(board),
        Method::PUT => true,
        Method::PATCH => false,
        _ => return not_allowed("405: use GET, HEAD, PUT or PATCH\n", "GET, HEAD, PUT, PATCH"),
    };
    let document = match authorized_document(board, request).await {
        Ok(document) => document,
        Err(answer) => return answer,
    };
    match targets::read(board.gates(), &document, whole) {
        Ok(changes) => {
            changes.iter().for_each(targets::TargetChange::apply);
            shown(board)
        }
        Err(reason) => said(StatusCode::UNPROCESSABLE_ENTITY, &format!("422: {reason}\n")),
    }
}

/// What a PUT to `/profile` says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    on: bool,
}

/// What `/profile` shows.
#[derive(Serialize)]
struct ShownProfile<'p> {
    on: bool,
    file: &'p Path,
    interval_seconds: f64,
    lines: u64,
    failures: u64,
}

/// The answer to whatever is asked about `/profile`.
pub(super) async fn profile<B>(board: &Board, request: Request<B>) -> Response<Full<Bytes>>
where
    B: Body<Data: Send, Error: Into<BoxError>>,
{
    let is_change = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::PUT => true,
        _ => return not_allowed("405: use GET, HEAD or PUT\n", "GET, HEAD, PUT"),
    };
    let Some(log) = board.profile() else {
        return text(
            StatusCode::NOT_FOUND,
            "404: no profile is written: name a file with `profile` or `--profile`\n",
        );
    };
    if is_change {
        let document = match authorized_document(board, request).await {
            Ok(document) => document,
            Err(answer) => return answer,
        };
        match Switch::deserialize(document) {
            Ok(Switch { on }) => log.switch(on),
            Err(_) => {
                let cure = "422: give `{\"on\": true}` or `{\"on\": false}`\n";
                return text(StatusCode::UNPROCESSABLE_ENTITY, cure);
            }
        }
    }
    let shown = ShownProfile {
        on: log.is_on(),
        file: &log.options().file,
        interval_seconds: log.options().interval.as_secs_f64(),
        lines: log.lines(),
        failures: log.failures(),
    };
    let shown = serde_json::to_string(&shown).unwrap_or_default();
    content(StatusCode::OK, "application/json", shown.into())
}

/// The JSON that a request brings who may change things; else the answer.
#[allow(clippy::result_large_err, reason = "it is the answer, and is given at once")]
async fn authorized_document<B>(
    board: &Board,
    request: Request<B>,
) -> Result<Value, Response<Full<Bytes>>>
where
    B: Body<Data: Send, Error: Into<BoxError>>,
{
    authorize(board, &request)?;
    let body = match Limited::new(request.into_body(), BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let too_long = "413: the body is longer than 64 KiB\n";
            return Err(text(StatusCode::PAYLOAD_TOO_LARGE, too_long));
        }
        Err(_) => return Err(text(StatusCode::BAD_REQUEST, "400: the body ended early\n")),
    };
    serde_json::from_slice(&body)
        .map_err(|error| said(StatusCode::BAD_REQUEST, &format!("400: invalid JSON: {error}\n")))
}

fn not_allowed(why: &'static str, allowed: &'static str) -> Response<Full<Bytes>> {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, why);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Whether the client may change things; if not, the answer.
#[allow(clippy::result_large_err, reason = "it is the answer, and is given at once")]
fn authorize<B>(board: &Board, request: &Request<B>) -> Result<(), Response<Full<Bytes>>> {
    let Some(token) = board.allowed() else {
        return Err(text(
            StatusCode::FORBIDDEN,
            "403: changes are not enabled: name a token with `--status-token-file`, or in the \
             configuration file with `status_token = { file = \"…\" }` or \
             `status_token = { env = \"…\" }`\n",
        ));
    };
    let given = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let bearer = given.and_then(|given| given.split_at_checked(b"bearer ".len()));
    match bearer {
        Some((scheme, given))
            if scheme.eq_ignore_ascii_case(b"bearer ") && token.is(given.trim_ascii()) =>
        {
            Ok(())
        }
        _ => {
            let mut answer =
                text(StatusCode::UNAUTHORIZED, "401: needs `Authorization: Bearer TOKEN`\n");
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            Err(answer)
        }
    }
}

fn shown(board: &Board) -> Response<Full<Bytes>> {
    content(StatusCode::OK, "application/json", targets::render(board.gates()).into())
}

fn said(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    content(status, "text/plain; charset=utf-8", text.to_owned().into())
}
