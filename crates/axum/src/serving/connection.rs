//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "http2")]
use std::time::Duration;

use axum::extract::ConnectInfo;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tamarisk_http_gate::{ClientAddress, Deadline, Form, Message};
use tokio::sync::watch;
use tower::Service as _;

use crate::serving::Site;
use crate::serving::bodies::{RequestBody, ResponseBody};
use crate::serving::client_stream::ClientStream;
use crate::serving::state::{ConnectionState, Overdue};
use crate::serving::streams::Streams;

/// The most bytes of a head; hyper answers more with 431. hyper reads and writes in pieces of this
/// size.
const HEAD_MAX: usize = 32 * 1024;

/// Streams that one HTTP/2 connection may have open, the least that
/// [RFC9113 §5.1.2] advises.
#[cfg(feature = "http2")]
const STREAMS_MAX: u32 = 100;

/// hyper's buffer for each stream of HTTP/2: by default it would gather 400 KiB for a client that
/// reads slowly.
#[cfg(feature = "http2")]
const BUFFER_MAX: usize = 64 * 1024;

/// An HTTP/2 connection is pinged when it has been silent for this long, and closed when no answer
/// comes for as long again.
#[cfg(feature = "http2")]
const PING_INTERVAL: Duration = Duration::from_secs(30);

const TOO_SLOW: Message =
    Message::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the request body took too long");

/// Serves one client to the end; after the sender of `stop` is gone, to the end of the requests
/// that are under way.
pub(super) async fn serve(
    stream: ClientStream,
    connection: Arc<ConnectionState>,
    site: Site,
    peer: SocketAddr,
    mut stop: watch::Receiver<()>,
) {
    let service = Requests { site, peer, connection: Arc::clone(&connection) };
    let builder = builder(&connection);
    let mut http = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut timer = Deadline::default();
    let mut is_stopping = false;
    loop {
        tokio::select! {
            // First the connection, so that its state is the latest.
            biased;
            // An error is the client's, or one that the connection ends with.
            _ = http.as_mut() => break,
            overdue = poll_fn(|cx| connection.poll_overdue(&mut timer, cx)) => match overdue {
                Overdue::Idle => http.as_mut().graceful_shutdown(),
                Overdue::Cut => break,
            },
            _ = stop.changed(), if !is_stopping => {
                is_stopping = true;
                http.as_mut().graceful_shutdown();
            }
        }
    }
    connection.end();
}

fn builder(connection: &Arc<ConnectionState>) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams(Arc::clone(connection)));
    // The time of a head is the connection's state's: hyper's would count the time between
    // requests too.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_MAX);
    #[cfg(feature = "http2")]
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX as u32)
        .max_send_buf_size(BUFFER_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        // WebSockets over HTTP/2 need it.
        .enable_connect_protocol();
    builder
}

/// Answers the requests of a connection.
struct Requests {
    site: Site,
    peer: SocketAddr,
    connection: Arc<ConnectionState>,
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let Some(under_way) = self.connection.begin() else {
            // The connection is about to be cut.
            return Box::pin(std::future::pending());
        };
        let is_http2 = request.version() == http::Version::HTTP_2;
        let form = Form::of(request.method(), request.headers());
        let is_too_slow = Arc::new(AtomicBool::new(false));
        let connection = Arc::clone(&self.connection);
        let mut request =
            request.map(|body| RequestBody::new(body, connection, Arc::clone(&is_too_slow)));
        let client = self.site.proxies.client(self.peer.ip(), request.headers());
        request.extensions_mut().insert(ConnectInfo(self.peer));
        request.extensions_mut().insert(ClientAddress(client));
        let answering = self.site.router.clone().call(request);
        Box::pin(async move {
            let Ok(mut answer) = answering.await;
            let is_error = answer.status().is_client_error() || answer.status().is_server_error();
            if is_error && is_too_slow.load(Ordering::Relaxed) {
                // A handler cannot tell this error of a body from others.
                answer = TOO_SLOW.answer(form);
            }
            Ok(answer.map(|body| ResponseBody::new(body, is_http2, under_way)))
        })
    }
}
