//! Real services on the loopback interface to put under load.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// What a service has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    pub(crate) inside: AtomicUsize,
    pub(crate) inside_max: AtomicUsize,
}

/// A service under load.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
}

impl Service {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst) as u64
    }

    pub(crate) fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst) as u64
    }

    /// The most requests that were inside at once since this was last asked.
    pub(crate) fn take_inside_max(&self) -> usize {
        self.seen.inside_max.swap(0, Ordering::SeqCst)
    }
}

/// An HTTP service that answers as `answer` says.
pub(crate) async fn http<A>(
    answer: impl Fn(Request<Bytes>) -> A + Clone + Send + 'static,
) -> Service
where
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    connections(move |stream, seen| {
        let answer = answer.clone();
        async move {
            let serve = service_fn(move |request: Request<hyper::body::Incoming>| {
                let (answer, seen) = (answer.clone(), Arc::clone(&seen));
                async move {
                    seen.requests.fetch_add(1, Ordering::SeqCst);
                    let inside = seen.inside.fetch_add(1, Ordering::SeqCst) + 1;
                    seen.inside_max.fetch_max(inside, Ordering::SeqCst);
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
                    let answer = answer(Request::from_parts(head, body)).await;
                    seen.inside.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(answer)
                }
            });
            // Clients hang up as they please.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
        }
    })
    .await
}

/// A service that reads one request from each connection, answers with `bytes`
/// as they are, and hangs up.
pub(crate) async fn raw(bytes: &'static [u8]) -> Service {
    connections(move |mut stream, seen| async move {
        let mut head = [0; 4096];
        if stream.read(&mut head).await.is_ok_and(|n| n > 0) {
            seen.requests.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(bytes).await;
        }
    })
    .await
}

/// A service that answers every request of a connection with the same `pieces`, each in a
/// packet of its own.
pub(crate) async fn pieces(pieces: &'static [&'static [u8]]) -> Service {
    connections(move |mut stream, seen| async move {
        stream.set_nodelay(true).unwrap();
        let mut head = [0; 4096];
        while stream.read(&mut head).await.is_ok_and(|n| n > 0) {
            seen.requests.fetch_add(1, Ordering::SeqCst);
            for piece in pieces {
                tokio::time::sleep(Duration::from_millis(1)).await;
                // Clients hang up as they please.
                let _ = stream.write_all(piece).await;
            }
        }
    })
    .await
}

/// A service that answers with `bytes` as soon as it has read something, and reads no more.
pub(crate) async fn hasty(bytes: &'static [u8]) -> Service {
    connections(move |mut stream, _| async move {
        let mut some = [0; 16];
        if stream.read(&mut some).await.is_ok_and(|n| n > 0) {
            let _ = stream.write_all(bytes).await;
            std::future::pending::<()>().await;
        }
    })
    .await
}

/// A service that answers at once, but does not accept connections before `wait`
/// is over, and has little room for those that wait: `backlog`.
pub(crate) async fn late_to_accept(backlog: u32, wait: Duration) -> Service {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(backlog).unwrap();
    serve(listener, wait, |mut stream, _| async move {
        let mut head = [0; 4096];
        while stream.read(&mut head).await.is_ok_and(|n| n > 0) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
}

async fn connections<C>(handle: impl Fn(TcpStream, Arc<Seen>) -> C + Send + 'static) -> Service
where
    C: Future<Output = ()> + Send + 'static,
{
    serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), Duration::ZERO, handle)
}

fn serve<C>(
    listener: TcpListener,
    wait: Duration,
    handle: impl Fn(TcpStream, Arc<Seen>) -> C + Send + 'static,
) -> Service
where
    C: Future<Output = ()> + Send + 'static,
{
    let service = Service { address: listener.local_addr().unwrap(), seen: Arc::default() };
    let seen = Arc::clone(&service.seen);
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        while let Ok((stream, _)) = listener.accept().await {
            seen.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(handle(stream, Arc::clone(&seen)));
        }
    });
    service
}

/// An answer with this status and no body.
pub(crate) fn status(status: u16) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::default()).unwrap()
}
