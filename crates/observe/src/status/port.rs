//! Routing of the status port's paths.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::ALLOW;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use tamarisk_server::guard::Limits;
use tamarisk_server::{ClientBody, Drain, Server, WithoutFastPath};
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

use super::board::Board;
use super::history::{self, History};
use super::response::{content, text};
use super::{change, host, json, prometheus};
use crate::profile::diagram;

const PAGE: &str = include_str!("page.html");

/// Operators look on with a few browsers and scrapers; a port left open to the
/// world must not become a way to exhaust the process.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may let the port wait, for a head, for a body, or with an answer. A client that
/// takes all connections is closed then, after its 408 and some seconds in which it may read that.
const CLIENT_TIME: Duration = Duration::from_secs(2);

/// Changes of targets have some hundred.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Shows to whoever connects to `listener` what `board` gives, which is asked at each request,
/// until `drain` is triggered.
pub async fn serve(
    board: impl Fn() -> Arc<Board> + Clone + Send + 'static,
    listener: TcpListener,
    drain: Drain,
) {
    let limits = Limits::default().head_time(CLIENT_TIME).stall_time(CLIENT_TIME);
    let limits = limits.body(Some(BODY_BYTES_MAX));
    let server = Server::default().connections_max(CONNECTIONS_MAX).limits(limits);
    let history = Arc::new(History::default());
    let connect = |_peer| {
        let (board, history) = (board.clone(), Arc::clone(&history));
        WithoutFastPath(service_fn(move |request| {
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
        let board = board();
        // Before the accounts: what comes in between must not seem to be fewer than were rejected.
        let overdue = board.all_overdue();
        history.sample(Instant::now(), &board.observe(), |stage| {
            overdue.get(stage).copied().unwrap_or_default()
        });
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
             the name of the machine, or add the name with `--status-host`, or with `status_hosts` \
             in the configuration file\n",
        );
    }
    if request.uri().path() == "/targets" {
        return change::targets(board, request).await;
    }
    if request.uri().path() == "/profile" {
        return change::profile(board, request).await;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "405: use GET or HEAD\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let ok = StatusCode::OK;
    match request.uri().path() {
        "/" => content(ok, "text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes())),
        "/status" => content(ok, "application/json", json::render(board, history).into()),
        "/history" => content(ok, "application/json", history.render().into()),
        "/graph.svg" => content(ok, "image/svg+xml", diagram(&board.observe()).to_svg().into()),
        "/graph.dot" => content(ok, "text/vnd.graphviz", diagram(&board.observe()).to_dot().into()),
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
            "404: known paths are /, /status, /history, /graph.svg, /graph.dot, /rejections, /metrics, /targets, /profile \
             and /health\n",
        ),
    }
}
