//! One connection, from its first byte to its last.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::Drain;
use super::departure::Socket;
use super::pace::Pace;
use super::screen::Screen;
use super::stream::Stream;
use super::streams::Streams;
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

/// How long an HTTP/2 client that asked for nothing may take to part.
const PARTING_TIME: Duration = Duration::from_secs(5);

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
    let Ok(Ok(Ok((Some(protocol), stream)))) = drain.until_kept(pin!(begun)).await else {
        // The client left, broke off, or has not spoken.
        return Ended::ByItself;
    };
    match protocol {
        Protocol::Http1 => {
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
            let mut connection = pin!(connection);
            // Errors end it too; they are the client's business (gone, silent, malformed), and
            // the requests inside have had their own outcomes.
            let ended = match drain.until_kept(connection.as_mut()).await {
                Ok(_) => Ended::ByItself,
                Err(end) => {
                    connection.as_mut().graceful_shutdown();
                    Ended::by(end, connection).await
                }
            };
            match tunnel.take() {
                Some(tunnel) => tunnel.run(&drain).await,
                None => ended,
            }
        }
        Protocol::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(limits.head_max as u32)
                .max_send_buf_size(BUFFER_MAX)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_INTERVAL);
            let streams = Streams::new();
            let service = streams.counted(service);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
            let end = tokio::select! {
                done = drain.until(connection.as_mut()) => match done {
                    Ok(_) => return Ended::ByItself,
                    Err(end) => end,
                },
                () = streams.idle(idle_time) => Instant::now() + PARTING_TIME,
                () = streams.stalled(limits.stall_time) => return Ended::ByItself,
            };
            connection.as_mut().graceful_shutdown();
            Ended::by(end, connection).await
        }
    }
}

impl Ended {
    /// Lets `connection` finish until `end`.
    async fn by(end: Instant, connection: impl Future) -> Self {
        match timeout_at(end, connection).await {
            Ok(_) => Self::ByItself,
            Err(_) => Self::CutOff,
        }
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
    let agreed = stream.agreed();
    let mut stream = Guarded::new(stream, limits.clone());
    let spoken = stream.protocol().await?;
    match (agreed, spoken) {
        // Nothing that we could answer would be understood.
        (Some(agreed), Some(spoken)) if agreed != spoken => Err(ErrorKind::InvalidData.into()),
        _ => Ok((spoken, stream)),
    }
}
