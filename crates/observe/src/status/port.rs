//! Routing of the status port's paths.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use tamarisk_stage::BoxError;
use tokio::time::MissedTickBehavior;

use super::board::Board;
use super::history::{self, History};
use super::response::{content, text};
use super::{change, host, json, prometheus};
use crate::profile::diagram;

const PAGE: &str = include_str!("page.html");

/// Operators look on with a few browsers and scrapers; a port left open to the
/// world must not become a way to exhaust the process.
pub const CONNECTIONS_MAX: usize = 256;

/// How long a client may let the port wait, for a head, for a body, or with an answer. A client that
/// takes all connections is closed then, after its 408 and some seconds in which it may read that.
#[cfg(feature = "server")]
const CLIENT_TIME: std::time::Duration = std::time::Duration::from_secs(2);

/// Changes of targets have some hundred.
#[cfg(feature = "server")]
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Shows to clients of `listener` what `board` gives, which is asked at each request,
/// until `drain` is triggered.
#[cfg(feature = "server")]
pub async fn serve(
    board: impl Fn() -> Arc<Board> + Clone + Send + Sync + 'static,
    listener: tokio::net::TcpListener,
    drain: tamarisk_server::Drain,
) {
    use std::convert::Infallible;

    use tamarisk_server::guard::Limits;
    use tamarisk_server::{Server, WithoutFastPath};

    let limits = Limits::default().head_time(CLIENT_TIME).stall_time(CLIENT_TIME);
    let limits = limits.body(Some(BODY_BYTES_MAX));
    let server = Server::default().connections_max(CONNECTIONS_MAX).limits(limits);
    let port = Arc::new(StatusPort::new(board));
    let connect = |_peer| {
        let port = Arc::clone(&port);
        WithoutFastPath(hyper::service::service_fn(move |request| {
            let port = Arc::clone(&port);
            async move { Ok::<_, Infallible>(port.answer(request).await) }
        }))
    };
    tokio::select! {
        _ = server.serve(listener, connect, drain) => {}
        () = port.sample() => {}
    }
}

/// The answers of the status port, for any server.
pub struct StatusPort<F> {
    board: F,
    history: History,
}

impl<F: Fn() -> Arc<Board>> StatusPort<F> {
    /// Shows what `board` gives, which is asked at each request.
    pub fn new(board: F) -> Self {
        Self { board, history: History::default() }
    }

    /// Keeps the history; endless.
    pub async fn sample(&self) {
        let mut ticks = tokio::time::interval(history::INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let board = (self.board)();
            // Before the accounts: what comes in between must not seem to be fewer than were rejected.
            let overdue = board.all_overdue();
            self.history.sample(Instant::now(), &board.observe(), |stage| {
                overdue.get(stage).copied().unwrap_or_default()
            });
        }
    }

    /// The answer to `request`.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data: Send, Error: Into<BoxError>>,
    {
        answer(&(self.board)(), &self.history, request).await
    }
}

async fn answer<B>(board: &Board, history: &History, request: Request<B>) -> Response<Full<Bytes>>
where
    B: Body<Data: Send, Error: Into<BoxError>>,
{
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
