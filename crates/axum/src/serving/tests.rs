//! Slow clients, many clients and leaving clients, over sockets.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body as AxumBody, Bytes};
use axum::response::Response;
use axum::routing::{get, post};
use http_body::{Body, Frame};
use socket2::{Domain, Socket, Type};
use tamarisk_http_gate::TrustedProxies;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{Limits, Site};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any limit.
const LONG: Duration = Duration::from_secs(300);
const MIB: usize = 1024 * 1024;

/// A router that is served until it is told to stop.
struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(router: Router, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let site = Site { router, proxies: TrustedProxies::default() };
        let serving = tokio::spawn(super::serve(listener, site, limits, async {
            let _ = stopped.await;
        }));
        Self { address, stop, serving }
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A client that has sent this.
    async fn sent(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut client = self.client().await;
        client.write_all(bytes.as_ref()).await.unwrap();
        client
    }
}

/// At most so many connections; otherwise the defaults.
fn at_most(connections_max: usize) -> Limits {
    Limits { connections_max, ..Limits::default() }
}

fn hello() -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/echo", post(|body: String| async { body }))
}

const HELLO: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// Reads one answer that ends with `end`.
async fn answer(client: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut bytes = [0; 1024];
        let read = client.read(&mut bytes).await.unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    text
}

/// What the client still gets until it is closed, and when that is.
async fn closed(client: &mut TcpStream) -> (String, Duration) {
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = timeout(LONG, client.read_to_end(&mut rest)).await;
    (String::from_utf8(rest).unwrap(), began.elapsed())
}

/// Timers of tokio are a millisecond coarse.
fn about(time: Duration, seconds: u64) -> bool {
    let expected = Duration::from_secs(seconds);
    time >= expected && time < expected + SECOND
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_not_complete_in_time_closes_the_connection() {
    let served = Served::start(hello(), Limits::default()).await;
    for begun in ["", "G", "GET / HTTP/1.1\r\nhost: "] {
        let (rest, time) = closed(&mut served.sent(begun).await).await;
        assert!(rest.is_empty() && about(time, 10), "{begun:?}: {rest:?} after {time:?}");
    }
    // Single bytes do not extend the time; nor has a later head more.
    let mut client = served.sent(HELLO).await;
    answer(&mut client, "hello").await;
    sleep(30 * SECOND).await;
    let began = Instant::now();
    for byte in HELLO.as_bytes() {
        if client.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(SECOND).await;
    }
    assert!(closed(&mut client).await.0.is_empty(), "the head is not complete");
    assert!(began.elapsed() < 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_the_idle_time() {
    let served = Served::start(hello(), Limits::default()).await;
    let mut client = served.sent(HELLO).await;
    for _ in 0..3 {
        answer(&mut client, "hello").await;
        // Longer than a head may take.
        sleep(40 * SECOND).await;
        client.write_all(HELLO.as_bytes()).await.unwrap();
    }
    answer(&mut client, "hello").await;
    let (rest, time) = closed(&mut client).await;
    assert!(rest.is_empty() && about(time, 75), "{rest:?} after {time:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_connections_over_the_limit_give_way_to_new_ones() {
    let served = Served::start(hello(), at_most(3)).await;
    let began = Instant::now();
    let mut first = served.sent(HELLO).await;
    answer(&mut first, "hello").await;
    let mut others = vec![served.client().await, served.sent("GET /").await];
    for _ in 0..20 {
        let mut client = served.sent(HELLO).await;
        answer(&mut client, "hello").await;
        others.push(client);
    }
    assert!(began.elapsed() < SECOND, "nobody waited");
    assert_eq!(closed(&mut first).await.0, "");
    let mut last = others.pop().unwrap();
    last.write_all(HELLO.as_bytes()).await.unwrap();
    answer(&mut last, "hello").await;
}

#[tokio::test(start_paused = true)]
async fn a_client_over_the_limit_is_told_503_when_all_connections_are_busy() {
    let (go, gone) = tokio::sync::watch::channel(());
    let slow = get(|| async move {
        let _ = gone.clone().changed().await;
        "slow"
    });
    let served = Served::start(hello().route("/slow", slow), at_most(2)).await;
    let slow = "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut busy = [served.sent(slow).await, served.sent(slow).await];
    sleep(SECOND).await;
    // A connection that waits for the service stays.
    let mut other = from_elsewhere(served.address);
    other.write_all(HELLO.as_bytes()).await.unwrap();
    let (told, time) = closed(&mut other).await;
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("retry-after: 1"), "{told}");
    assert!(time < SECOND);
    drop(go);
    for client in &mut busy {
        answer(client, "slow").await;
    }
    answer(&mut served.sent(HELLO).await, "hello").await;
}

/// A connection from another address of this machine.
fn from_elsewhere(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpStream::from_std(socket.into()).unwrap()
}

/// Another client is answered at once while one client has all connections, each with `request`;
/// and one of these is closed for it.
async fn shuts_nobody_out(router: Router, request: impl AsRef<[u8]>) {
    const PLACES: usize = 10;
    let served = Served::start(router, at_most(PLACES)).await;
    // A client with few connections, which is waited for longer than the others.
    let mut few = from_elsewhere(served.address);
    few.write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\na").await.unwrap();
    sleep(SECOND).await;
    let mut greedy = Vec::new();
    for _ in 1..PLACES {
        greedy.push(served.sent(&request).await);
    }
    sleep(SECOND).await;
    let began = Instant::now();
    for closed in 1..=3 {
        let mut other = from_elsewhere(served.address);
        other
            .write_all(HELLO.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let (told, _) = self::closed(&mut other).await;
        assert!(told.starts_with("HTTP/1.1 200 ") && told.ends_with("hello"), "{closed}: {told}");
        // The connection that came in its place is free again.
        greedy.push(served.sent(&request).await);
        sleep(SECOND).await;
    }
    assert!(began.elapsed() < 10 * SECOND);
    few.write_all(b"b").await.unwrap();
    answer(&mut few, "ab").await;
    let mut cut = 0;
    for client in &mut greedy {
        cut += usize::from(timeout(SECOND, client.read_to_end(&mut Vec::new())).await.is_ok());
    }
    assert!(cut >= 3, "{cut} connections gave way");
}

#[tokio::test(start_paused = true)]
async fn bodies_of_one_byte_shut_nobody_out() {
    let body = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx";
    shuts_nobody_out(hello(), body).await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_not_read_shut_nobody_out() {
    let (router, _dropped) = endless();
    shuts_nobody_out(router, "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn upgraded_connections_in_which_nothing_moves_shut_nobody_out() {
    let upgrade = get(|mut request: axum::extract::Request| async move {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = hyper_util::rt::TokioIo::new(upgrade.await.unwrap());
            while stream.read_u8().await.is_ok() {}
        });
        (http::StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "x")])
    });
    let request = "GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    shuts_nobody_out(hello().route("/upgrade", upgrade), request).await;
}

/// Data without an end, which tells when it is dropped.
struct Endless(mpsc::UnboundedSender<()>);

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Body for Endless {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 64 * 1024])))))
    }
}

/// `/endless`, and what tells when its answers are dropped.
fn endless() -> (Router, mpsc::UnboundedReceiver<()>) {
    let (tells, dropped) = mpsc::unbounded_channel();
    let endless = get(|| async move { Response::new(AxumBody::new(Endless(tells))) });
    (hello().route("/endless", endless), dropped)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let (router, mut dropped) = endless();
    let served = Served::start(router, Limits::default()).await;
    let began = Instant::now();
    let client = served.sent("GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let told = timeout(LONG, dropped.recv()).await;
    told.expect("the answer is dropped").unwrap();
    assert!(about(began.elapsed(), 60), "{:?}", began.elapsed());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_all_of_its_answer() {
    // hyper has all of it at once; reading it takes longer than a connection may be idle.
    let long = get(|| async { vec![b'x'; 64 * MIB] });
    let served = Served::start(hello().route("/long", long), Limits::default()).await;
    let mut client = served.sent("GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut left = 64 * MIB;
    let mut bytes = vec![0; 4 * MIB];
    while left > 0 {
        sleep(20 * SECOND).await;
        let piece = bytes.len().min(left);
        client.read_exact(&mut bytes[..piece]).await.unwrap();
        left -= piece;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_body_that_does_not_come_is_answered_with_408() {
    let served = Served::start(hello(), Limits::default()).await;
    let head =
        "POST /echo HTTP/1.1\r\nhost: x\r\naccept: application/json\r\ncontent-length: 9\r\n\r\n";
    let (told, time) = closed(&mut served.sent(format!("{head}abc")).await).await;
    assert!(told.starts_with("HTTP/1.1 408") && about(time, 60), "{told} after {time:?}");
    assert!(told.contains(r#""error":"request_timeout""#), "{told}");
    // A slow one that comes at all is waited for.
    let mut client = served.sent(head).await;
    for byte in b"012345678" {
        sleep(6 * SECOND).await;
        client.write_all(&[*byte]).await.unwrap();
    }
    answer(&mut client, "012345678").await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_closes_idle_connections_and_waits_for_the_busy_ones() {
    let slow = get(|| async {
        sleep(5 * SECOND).await;
        "slow"
    });
    let served = Served::start(hello().route("/slow", slow), Limits::default()).await;
    let mut idle = served.sent(HELLO).await;
    answer(&mut idle, "hello").await;
    let silent = served.client().await;
    let mut busy = served.sent("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    sleep(SECOND).await;
    let began = Instant::now();
    served.stop.send(()).unwrap();
    assert_eq!(closed(&mut idle).await, (String::new(), Duration::ZERO));
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody listens");
    let (told, time) = closed(&mut busy).await;
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("connection: close"), "{told}");
    assert!(told.ends_with("slow") && time < 5 * SECOND);
    served.serving.await.unwrap();
    assert!(began.elapsed() < 5 * SECOND);
    drop(silent);
}

#[cfg(feature = "http2")]
mod http2 {
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http2::{Builder, SendRequest};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    /// A client, and its connection's task.
    async fn client(served: &Served) -> (SendRequest<Empty<Bytes>>, JoinHandle<()>) {
        let io = TokioIo::new(served.client().await);
        let (client, connection) = Builder::new(TokioExecutor::new()).handshake(io).await.unwrap();
        (client, tokio::spawn(async { drop(connection.await) }))
    }

    async fn ask(
        client: &mut SendRequest<Empty<Bytes>>,
        path: &str,
    ) -> hyper::Result<http::Response<hyper::body::Incoming>> {
        let request = http::Request::get(format!("http://x{path}")).body(Empty::new()).unwrap();
        client.send_request(request).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_idle_for_longer_than_a_head_may_take() {
        let served = Served::start(hello(), Limits::default()).await;
        let (mut client, connection) = client(&served).await;
        for _ in 0..3 {
            sleep(40 * SECOND).await;
            let answer = ask(&mut client, "/").await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
        }
        let began = Instant::now();
        connection.await.unwrap();
        assert!(about(began.elapsed(), 75), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_come_shut_nobody_out() {
        // HEADERS of stream 1, without END_STREAM: POST, http, /echo, x.
        let head = b"\0\0\x0c\x01\x04\0\0\0\x01\x83\x86\x04\x05/echo\x01\x01x";
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let request = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings, head].concat();
        shuts_nobody_out(hello(), request).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_client_takes_nothing_is_reset_and_no_other() {
        let (router, mut dropped) = endless();
        let served = Served::start(router, Limits::default()).await;
        let (mut client, _connection) = client(&served).await;
        let began = Instant::now();
        let untaken = ask(&mut client, "/endless").await.unwrap();
        // A connection's window is shared: the others need none.
        let others = async {
            for _ in 0..30 {
                sleep(10 * SECOND).await;
                assert_eq!(ask(&mut client, "/nowhere").await.unwrap().status(), 404);
            }
        };
        tokio::select! {
            told = dropped.recv() => told.unwrap(),
            () = others => {}
        }
        assert!(about(began.elapsed(), 60), "{:?}", began.elapsed());
        assert_eq!(ask(&mut client, "/nowhere").await.unwrap().status(), 404);
        drop(untaken);
    }
}
