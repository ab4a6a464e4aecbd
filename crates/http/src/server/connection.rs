//! One connection, from its first byte to its last.

use std::cell::Cell;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

use super::Drain;
use super::departure::Socket;
use super::pace::Pace;
use super::screen::Screen;
use super::stream::Stream;
use super::tunnel::Slot;
use crate::guard::{Guarded, Limits, Protocol};
use crate::tls::Handshakes;

/// hyper's buffer for each direction: a head and one read beside it. By default
/// it would gather 400 KiB for a client that reads slowly.
const BUFFER_MAX: usize = 64 * 1024;

/// Streams that one HTTP/2 connection may have open, the least that
/// [RFC9113 §5.1.2] advises.
const STREAMS_MAX: u32 = 100;

/// An HTTP/2 connection is pinged when it has been silent for this long, and
/// closed when no answer comes for as long again.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was done, or broke.
    ByItself,
    /// It was still busy when the time to drain was over.
    CutOff,
}

pub(super) async fn serve<S, B>(
    socket: TcpStream,
    service: S,
    tls: Option<Handshakes>,
    limits: Limits,
    idle_time: Duration,
    pace: Pace,
    drain: Drain,
) -> Ended
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Refused only by a socket that is dead already.
    let _ = socket.set_nodelay(true);
    let socket = Socket::new(socket);
    let debt = socket.debt();
    let begun = timeout(limits.head_time, begin(socket, tls, &limits));
    match drain.until(pin!(begun)).await {
        Ok(Ok(Ok((Some(Protocol::Http1), stream)))) => {
            let tunnel = Slot::default();
            let screen = Screen {
                service,
                sideband: stream.sideband(),
                tunnel: tunnel.clone(),
                pace,
                debt,
                requests: Cell::new(0),
            };
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(idle_time)
                .max_buf_size(BUFFER_MAX);
            let connection = builder.serve_connection(TokioIo::new(stream), screen).with_upgrades();
            let whole = Whole { connection, close: |c| c.graceful_shutdown() };
            let ended = whole.run(&drain).await;
            match tunnel.take() {
                Some(tunnel) => tunnel.run(&drain).await,
                None => ended,
            }
        }
        Ok(Ok(Ok((Some(Protocol::Http2), stream)))) => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(limits.head_max as u32)
                .max_send_buf_size(BUFFER_MAX)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_INTERVAL);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            let whole = Whole { connection, close: |c| c.graceful_shutdown() };
            whole.run(&drain).await
        }
        // The client left, broke off, or has not spoken.
        Ok(Ok(Ok((None, _)) | Err(_)) | Err(_)) | Err(_) => Ended::ByItself,
    }
}

/// The stream to speak HTTP on, and what the client begins with.
async fn begin(
    socket: Socket,
    tls: Option<Handshakes>,
    limits: &Limits,
) -> io::Result<(Option<Protocol>, Guarded<Stream>)> {
    let stream = match tls {
        None => Stream::Plain(socket),
        // Boxed for the sake of the connections that do without.
        Some(tls) => Stream::Tls(Box::new(Box::pin(tls.shake(socket)).await?)),
    };
    let mut stream = Guarded::new(stream, limits.clone());
    Ok((stream.protocol().await?, stream))
}

/// A connection of either protocol, and how to tell it to finish.
struct Whole<C> {
    connection: C,
    close: fn(Pin<&mut C>),
}

impl<C: Future> Whole<C> {
    /// Errors end it too; they are the client's business (gone, silent,
    /// malformed), and the requests inside have had their own outcomes.
    async fn run(self, drain: &Drain) -> Ended {
        let mut connection = pin!(self.connection);
        let Err(end) = drain.until(connection.as_mut()).await else { return Ended::ByItself };
        (self.close)(connection.as_mut());
        match timeout_at(end, connection).await {
            Ok(_) => Ended::ByItself,
            Err(_) => Ended::CutOff,
        }
    }
}
