//! Changes of targets over the status port, authorised by a token.

use http::header::{ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use tamarisk_server::ClientBody;

use super::board::Board;
use super::response::{content, text};
use super::targets;

/// Every class of every stage has room in it.
const BODY_MAX: usize = 64 * 1024;

/// The answer to whatever is asked about `/targets`.
pub(super) async fn targets(board: &Board, request: Request<ClientBody>) -> Response<Full<Bytes>> {
    let whole = match *request.method() {
        Method::GET | Method::HEAD => return shown(board),
        Method::PUT => true,
        Method::PATCH => false,
        _ => {
            let mut answer =
                text(StatusCode::METHOD_NOT_ALLOWED, "405: use GET, HEAD, PUT or PATCH\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, PUT, PATCH"));
            return answer;
        }
    };
    if let Err(rejection) = authorize(board, &request) {
        return rejection;
    }
    let body = match Limited::new(request.into_body(), BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return text(StatusCode::PAYLOAD_TOO_LARGE, "413: the body is longer than 64 KiB\n");
        }
        Err(_) => return text(StatusCode::BAD_REQUEST, "400: the body ended early\n"),
    };
    let document = match serde_json::from_slice(&body) {
        Ok(document) => document,
        Err(error) => {
            return said(StatusCode::BAD_REQUEST, &format!("400: invalid JSON: {error}\n"));
        }
    };
    match targets::read(board.gates(), &document, whole) {
        Ok(changes) => {
            changes.iter().for_each(targets::Change::apply);
            shown(board)
        }
        Err(reason) => said(StatusCode::UNPROCESSABLE_ENTITY, &format!("422: {reason}\n")),
    }
}

/// Whether whoever asks may change things; if not, the answer.
#[allow(clippy::result_large_err, reason = "it is the answer, and is given at once")]
fn authorize(board: &Board, request: &Request<ClientBody>) -> Result<(), Response<Full<Bytes>>> {
    let Some(token) = board.allowed() else {
        return Err(text(
            StatusCode::FORBIDDEN,
            "403: changes are not enabled: name a token in the configuration file, with \
             `status_token = { file = \"…\" }` or `status_token = { env = \"…\" }`\n",
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
