//! One connection, from its first byte to its last.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tamarisk_http_gate::Deadline;
use tokio::time::{Instant, timeout_at};

use crate::client_connection::{Http1, Served};
use crate::client_service::ClientService;
use crate::connection_entry::{ConnectionPermit, Entry};
use crate::h1::wire::Wire;
use crate::h2::Streams;
use crate::h2::stream::H2Stream;
use crate::settings::{ConnectionSettings, Ended};
use crate::tls::Handshakes;
use crate::transport::socket::Socket;
use crate::transport::stream::{Protocol, Stream};

/// hyper's buffer for each stream of HTTP/2: by default it would gather 400 KiB for a client that
/// reads slowly.
const BUFFER_MAX: usize = 64 * 1024;

/// Streams that one HTTP/2 connection may have open, the least that
/// [RFC9113 §5.1.2] advises.
const STREAMS_MAX: u32 = 100;

/// An HTTP/2 connection is pinged when it has been silent for this long, and
/// closed when no answer comes for as long again.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long an HTTP/2 client that asks for nothing, and a TLS client that has asked for nothing yet,
/// may take to close the connection once it drains.
const PARTING_TIME: Duration = Duration::from_secs(5);

/// A client, and how far we have come with it.
pub(crate) enum Client {
    /// A stream to speak HTTP on.
    Open(Box<Wire<Stream>>),
    /// A socket, and what is to be done on it first.
    Socket(Socket, Handshakes),
}

impl Client {
    pub(crate) fn of(socket: Socket, settings: &ConnectionSettings) -> Self {
        match &settings.tls {
            Some(tls) => Self::Socket(socket, tls.clone()),
            None => Self::on(Stream::Plain(socket), settings),
        }
    }

    pub(crate) fn on(stream: Stream, settings: &ConnectionSettings) -> Self {
        Self::Open(Box::new(Wire::new(stream, settings.limits.clone())))
    }
}

/// Serves `client`, who has `permit` until the end.
pub(crate) async fn serve<S: ClientService>(
    client: Client,
    service: S,
    settings: Arc<ConnectionSettings>,
    permit: ConnectionPermit,
) -> Served<S> {
    let mut clock = Deadline::default();
    clock.start(settings.limits.head_time);
    permit.connection().waits();
    // Boxed, as all that does not last as long as the connection: what it needs when it is idle
    // is what many of them cost.
    let begun = {
        let has_begun = AtomicBool::new(false);
        let mut begun =
            Box::pin(clock.limit(begin(client, &settings, permit.connection(), &has_begun)));
        match settings.drain.until_kept(begun.as_mut()).await {
            Err(end) if has_begun.load(Ordering::Relaxed) => {
                let parting = end.min(Instant::now() + PARTING_TIME);
                timeout_at(parting, begun).await.map_err(|_| end)
            }
            begun => begun,
        }
    };
    permit.connection().moves();
    match begun {
        Ok(Some(Ok((Some(Protocol::Http1), wire)))) => {
            Box::new(Http1::new(wire, service, settings, permit, clock)).run().await
        }
        Ok(Some(Ok((Some(Protocol::Http2), wire)))) => {
            Served::ToTheEnd(Box::pin(http2(*wire, service, &settings)).await)
        }
        // The client left, broke off, or has not spoken.
        Ok(Some(Ok((None, _)) | Err(_)) | None) | Err(_) => Served::ToTheEnd(Ended::ByItself),
    }
}

async fn http2<S: ClientService>(
    wire: Wire<Stream>,
    service: S,
    settings: &ConnectionSettings,
) -> Ended {
    let stream = H2Stream::of(wire, Arc::clone(&settings.rejected));
    let (backoff, memory) = (settings.backoff.clone(), settings.memory.clone());
    let streams = Streams::new(settings.limits.clone(), stream.unsent(), backoff, memory);
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        // Of heads, which nothing else limits; in trailers the mark counts, too.
        .max_header_list_size(settings.limits.bytes.head_max as u32)
        .max_send_buf_size(BUFFER_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL);
    let service = streams.counted(service, Arc::clone(&settings.rejected));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // In this order: those that wait look at the streams that the connection has opened.
    tokio::select! {
        biased;
        done = settings.drain.until(connection.as_mut()) => if done.is_ok() {
            return Ended::ByItself;
        },
        () = streams.idle(settings.idle_time) => {}
        () = streams.place_given_away(&settings.idle) => {}
    }
    connection.as_mut().graceful_shutdown();
    // A request that comes before the client knows is answered, however long that takes.
    tokio::select! {
        biased;
        _ = connection => Ended::ByItself,
        () = settings.drain.ended() => Ended::CutOff,
        () = streams.parted(PARTING_TIME) => Ended::ByItself,
    }
}

/// The stream to speak HTTP on, and what the client begins with; whether a handshake `has_begun`.
async fn begin(
    client: Client,
    settings: &ConnectionSettings,
    entry: &Arc<Entry>,
    has_begun: &AtomicBool,
) -> io::Result<(Option<Protocol>, Box<Wire<Stream>>)> {
    let mut wire = match client {
        Client::Open(wire) => wire,
        Client::Socket(socket, tls) => {
            // Boxed, because each future around it has room for it twice: without, a client in clear
            // text would take 24 KiB until it speaks.
            let shaking = Box::pin(tls.shake(socket, has_begun));
            let stream = settings.rejected.handshake(shaking).await?;
            let stream = Stream::Tls(Box::new(stream));
            Box::new(Wire::new(stream, settings.limits.clone()))
        }
    };
    wire.tell(entry);
    let spoken = poll_fn(|cx| wire.poll_protocol(cx)).await?;
    match (wire.get_ref().agreed(), spoken) {
        // Nothing that we could answer would be understood.
        (Some(agreed), Some(spoken)) if agreed != spoken => Err(ErrorKind::InvalidData.into()),
        _ => Ok((spoken, wire)),
    }
}
