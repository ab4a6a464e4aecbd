//! What every stage is doing, on a port of its own: a page for people, JSON for
//! programs, text for Prometheus.
//!
//! | path | content |
//! | --- | --- |
//! | `/` | a page that refreshes itself |
//! | `/status` | JSON |
//! | `/history` | the last ten minutes of each stage as JSON, a sample a second |
//! | `/rejections` | the last hundred rejections as JSON |
//! | `/metrics` | Prometheus text |
//! | `/targets` | the targets as JSON; PUT and PATCH change them |
//! | `/health` | `ok`, or 503 while draining |
//!
//! Whoever changes something has to have the [`Token`] of the board, as
//! `Authorization: Bearer TOKEN`; a board without one changes nothing.

mod board;
mod change;
mod history;
mod host;
mod json;
mod process;
mod prometheus;
mod promise;
mod rejections;
mod targets;
mod token;
mod verdict;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use tamarisk_server::{ClientBody, Drain, Ordinary, Server};
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

use self::history::History;

pub use board::Board;
pub use rejections::{Rejection, Rejections};
pub use token::{InvalidToken, Token, TokenSource};

const PAGE: &str = include_str!("page.html");

/// Operators look on with a few browsers and scrapers; a port left open to the
/// world must not become a way to exhaust the process.
const CONNECTIONS_MAX: usize = 256;

/// Shows to whoever connects to `listener` what `board` gives, which is asked at each request,
/// until `drain` is triggered.
pub async fn serve(
    board: impl Fn() -> Arc<Board> + Clone + Send + 'static,
    listener: TcpListener,
    drain: Drain,
) {
    let server = Server::default().connections_max(CONNECTIONS_MAX);
    let history = Arc::new(History::default());
    let connect = |_peer| {
        let (board, history) = (board.clone(), Arc::clone(&history));
        Ordinary(service_fn(move |request| {
            let (board, history) = (board(), Arc::clone(&history));
            async move { Ok::<_, Infallible>(answer(&board, &history, request).await) }
        }))
    };
    tokio::select! {
        _ = server.serve(listener, connect, drain) => {}
        () = sample(&history, &board) => {}
    }
}

/// Keeps the history; endless.
async fn sample(history: &History, board: impl Fn() -> Arc<Board>) {
    let mut ticks = tokio::time::interval(history::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        history.sample(Instant::now(), &board().observe());
    }
}

async fn answer(
    board: &Board,
    history: &History,
    request: Request<ClientBody>,
) -> Response<Full<Bytes>> {
    if !host::is_known(&request, board.hosts()) {
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "421: the status port does not answer to this host name: use an address, `localhost` or \
             the name of the machine, or add the name to `status_hosts`\n",
        );
    }
    if request.uri().path() == "/targets" {
        return change::targets(board, request).await;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "405: only GET and HEAD\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let ok = StatusCode::OK;
    match request.uri().path() {
        "/" => content(ok, "text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes())),
        "/status" => content(ok, "application/json", json::render(board, history).into()),
        "/history" => content(ok, "application/json", history.render().into()),
        "/rejections" => content(ok, "application/json", json::render_rejections(board).into()),
        "/metrics" => content(
            ok,
            "text/plain; version=0.0.4; charset=utf-8",
            prometheus::render(board).into(),
        ),
        "/health" if board.is_open() => text(ok, "ok\n"),
        "/health" => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        _ => text(
            StatusCode::NOT_FOUND,
            "404: there are /, /status, /history, /rejections, /metrics, /targets and /health\n",
        ),
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    content(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn content(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    const SAFETY: [(HeaderName, &str); 3] = [
        (CACHE_CONTROL, "no-store"),
        (http::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The page brings its own script and style, and talks to its own origin alone.
        (
            http::header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
             connect-src 'self'; frame-ancestors 'none'",
        ),
    ];
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in SAFETY {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
