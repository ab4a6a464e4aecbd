//! A place is held while the upstream works, and only then, whatever the client does.

use crate::support;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{
    OneByOne, any_port, axum, exchange, options, proxy, proxy_to, read_until, streaming_proxy,
    within,
};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tamarisk_proxy::classify::{Route, Routes};
use tamarisk_proxy::{Answers, Bounds, Budget, Upstream};
use tamarisk_server::DrainTrigger;
use tamarisk_stage::{Accounts, Gate, StageBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// More than it takes for what can happen at once.
const A_WHILE: Duration = Duration::from_millis(100);

const LONG: usize = 3 << 20;
/// More than the sockets between the upstream and a client that does not read can hold.
const HUGE: usize = 24 << 20;
const SHORT: usize = 20 << 10;

fn narrow() -> Gate {
    StageBuilder::new("narrow").law(OneByOne).gate().unwrap()
}

/// Answers of several lengths, whole and in parts.
fn service() -> Router {
    let whole = |length: usize| get(async move || vec![b'x'; length]);
    let parts = get(async || {
        let parts = futures_util::stream::unfold(0, async |part| {
            sleep(Duration::from_millis(1)).await;
            (part < 20).then(|| (Ok::<_, std::io::Error>(vec![b'x'; 1024]), part + 1))
        });
        Body::from_stream(parts)
    });
    Router::new()
        .route("/", get(async || "ok."))
        .route("/short", whole(SHORT))
        .route("/long", whole(LONG))
        .route("/huge", whole(HUGE))
        .route("/parts", parts)
}

async fn until(gate: &Gate, holds: impl Fn(&Accounts) -> bool) {
    let seen = timeout(support::PATIENCE, async {
        while !holds(&gate.observe().total()) {
            tokio::task::yield_now().await;
        }
    });
    assert!(seen.await.is_ok(), "{:?}", gate.observe().total());
}

async fn serves_good_clients(address: SocketAddr) {
    for _ in 0..20 {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = exchange(address, request).await;
        assert!(answer.ends_with("ok."), "{answer}");
    }
}

/// A client with one connection whose streams have so much of a window.
async fn http2(address: SocketAddr, window: u32) -> http2::SendRequest<Empty<Bytes>> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let builder = {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        builder
    };
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://a{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn streams_of_http2_without_a_window_take_no_places() {
    let gate = narrow();
    let (address, _drain) = proxy(axum(service()).await, &gate).await;
    for path in ["/short", "/parts", "/long"] {
        let client = http2(address, 0).await;
        let asked = (0..33).map(|_| {
            let mut client = client.clone();
            async move { client.send_request(request(path)).await.unwrap() }
        });
        let answers = within(futures_util::future::join_all(asked)).await;
        within(serves_good_clients(address)).await;
        until(&gate, |accounts| accounts.inside() == 0).await;
        drop(answers);
    }
    let accounts = gate.observe().total();
    assert_eq!((accounts.completed, accounts.balance()), (3 * 33 + 3 * 20, true), "{accounts:?}");
}

#[tokio::test]
async fn answers_that_are_read_late_arrive_whole() {
    let gate = narrow();
    let (address, _drain) = proxy(axum(service()).await, &gate).await;
    for (path, length) in [("/short", SHORT), ("/parts", SHORT), ("/long", LONG)] {
        let mut client = http2(address, 16 << 10).await;
        let answer = within(client.send_request(request(path))).await.unwrap();
        until(&gate, |accounts| accounts.inside() == 0).await;
        let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
        assert!(body.len() == length && body.iter().all(|byte| *byte == b'x'), "{path}");
    }
}

#[tokio::test]
async fn who_asks_and_does_not_read_takes_no_place() {
    let gate = narrow();
    let (address, _drain) = proxy(axum(service()).await, &gate).await;
    let mut clients = Vec::new();
    for path in ["/short", "/parts", "/long"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(50);
        client.write_all(asked.as_bytes()).await.unwrap();
        clients.push(client);
    }
    within(serves_good_clients(address)).await;
    // As many as the socket takes, and one more.
    until(&gate, |accounts| accounts.inside() == 0 && accounts.completed > 23).await;
    assert!(gate.observe().total().balance());
}

#[tokio::test]
async fn a_greedy_client_loses_what_it_does_not_read_and_others_nothing() {
    let gate = narrow();
    let origin = format!("http://{}", axum(service()).await).parse().unwrap();
    let bounds = Bounds { answers: Answers { client: 10, total: 20 }, ..Bounds::default() };
    let upstream = Upstream::new(&origin, gate.clone());
    let (address, _drain) = proxy_to(upstream, Budget::new(bounds)).await;
    let mut clients = Vec::new();
    for _ in 0..13 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /huge HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        read_until(&mut client, "\r\n\r\n").await;
        clients.push(client);
    }
    serves_good_clients(address).await;
    until(&gate, |accounts| accounts.inside() == 0).await;
    let mut whole = Vec::new();
    for client in clients {
        let mut read = Vec::new();
        // What is broken off may end in a reset.
        let _ = within(client.take(HUGE as u64).read_to_end(&mut read)).await;
        whole.push(read.len() == HUGE);
    }
    assert_eq!(whole.iter().filter(|whole| **whole).count(), 10, "{whole:?}");
}

/// An upstream whose every step the test takes.
struct Manual {
    listener: TcpListener,
    gate: Gate,
    address: SocketAddr,
    _drain: DrainTrigger,
}

impl Manual {
    async fn start() -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let gate = narrow();
        let (address, drain) = proxy(listener.local_addr().unwrap(), &gate).await;
        Self { listener, gate, address, _drain: drain }
    }

    async fn streaming() -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let gate = narrow();
        let (address, drain) = streaming_proxy(listener.local_addr().unwrap(), &gate).await;
        Self { listener, gate, address, _drain: drain }
    }

    /// A client that has sent `request`, and the upstream's connection with what it got.
    async fn asked(&self, request: &str) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let (mut upstream, _) = within(self.listener.accept()).await.unwrap();
        read_until(&mut upstream, "\r\n\r\n").await;
        (client, upstream)
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_client_that_leaves_keeps_its_place_until_the_upstream_has_answered() {
    let manual = Manual::start().await;
    for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.", ""] {
        let (client, mut upstream) = manual.asked(GET).await;
        drop(client);
        // Many would close at once if they were told, and go on all the same.
        timeout(A_WHILE, upstream.read(&mut [0; 16])).await.unwrap_err();
        assert_eq!(manual.gate.observe().total().inside(), 1);
        upstream.write_all(answer.as_bytes()).await.unwrap();
        drop(upstream);
        until(&manual.gate, |accounts| accounts.inside() == 0).await;
    }
    let accounts = manual.gate.observe().total();
    assert_eq!((accounts.abandoned, accounts.balance()), (2, true), "{accounts:?}");
}

#[tokio::test]
async fn an_overdue_request_keeps_its_place_until_the_upstream_has_answered() {
    let manual = Manual::start().await;
    let impatient = "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout: 50ms\r\n\r\n";
    let (mut client, mut upstream) = manual.asked(impatient).await;
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    timeout(A_WHILE, upstream.read(&mut [0; 16])).await.unwrap_err();
    assert_eq!(manual.gate.observe().total().inside(), 1);
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.").await.unwrap();
    until(&manual.gate, |accounts| accounts.inside() == 0).await;
    let accounts = manual.gate.observe().total();
    assert_eq!((accounts.terminated, accounts.balance()), (1, true), "{accounts:?}");
}

#[tokio::test]
async fn what_an_upstream_has_had_for_a_while_is_not_sent_again() {
    let manual = Manual::start().await;
    let (mut client, mut upstream) = manual.asked(GET).await;
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.").await.unwrap();
    read_until(&mut client, "ok.").await;
    client.write_all(GET.as_bytes()).await.unwrap();
    read_until(&mut upstream, "\r\n\r\n").await;
    sleep(Duration::from_millis(1100)).await;
    drop(upstream);
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    timeout(A_WHILE, manual.listener.accept()).await.unwrap_err();
}

#[tokio::test]
async fn a_request_that_breaks_off_does_not_end_an_answer_that_has_begun() {
    let manual = Manual::streaming().await;
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    let (mut client, mut upstream) = manual.asked(request).await;
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc").await.unwrap();
    read_until(&mut client, "abc").await;
    client.write_all(b"this is no chunk\r\n").await.unwrap();
    sleep(A_WHILE).await;
    upstream.write_all(b"def").await.unwrap();
    read_until(&mut client, "def").await;
    until(&manual.gate, |accounts| accounts.completed == 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_a_short_answer_keeps_its_place_until_that_ends() {
    let manual = Manual::start().await;
    let (mut client, mut upstream) = manual.asked(GET).await;
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no").await.unwrap();
    read_until(&mut client, "\r\n\r\no").await;
    drop(client);
    timeout(A_WHILE, upstream.read(&mut [0; 16])).await.unwrap_err();
    assert_eq!(manual.gate.observe().total().inside(), 1);
    upstream.write_all(b"k.").await.unwrap();
    until(&manual.gate, |accounts| accounts.inside() == 0).await;
    let accounts = manual.gate.observe().total();
    assert_eq!((accounts.abandoned, accounts.balance()), (1, true), "{accounts:?}");
}

#[tokio::test]
async fn an_upstream_that_never_answers_who_has_left_is_waited_for_no_longer_than_for_others() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let gate = narrow();
    let origin = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let upstream = Upstream::new(&origin, gate.clone()).answer_time(4 * A_WHILE);
    let (address, _drain) = proxy_to(upstream, Budget::default()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(GET.as_bytes()).await.unwrap();
    let (mut upstream, _) = within(listener.accept()).await.unwrap();
    read_until(&mut upstream, "\r\n\r\n").await;
    drop(client);
    sleep(A_WHILE).await;
    assert_eq!(gate.observe().total().inside(), 1);
    until(&gate, |accounts| accounts.inside() == 0).await;
    assert!(gate.observe().total().balance());
}

#[tokio::test]
async fn an_answer_just_as_long_as_is_read_ahead_ends_though_nobody_reads_it() {
    let manual = Manual::start().await;
    let mut client = http2(manual.address, 0).await;
    let asked = tokio::spawn(async move { client.send_request(request("/")).await.unwrap() });
    let (mut upstream, _) = within(manual.listener.accept()).await.unwrap();
    read_until(&mut upstream, "\r\n\r\n").await;
    upstream
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n")
        .await
        .unwrap();
    upstream.write_all(&[b'x'; 64 << 10]).await.unwrap();
    let answer = within(asked).await.unwrap();
    sleep(A_WHILE).await;
    assert_eq!(manual.gate.observe().total().running, 1);
    upstream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
    until(&manual.gate, |accounts| accounts.completed == 1).await;
    drop(answer);
}

#[tokio::test]
async fn a_stream_holds_its_place_until_its_end() {
    let manual = Manual::start().await;
    let (mut client, mut upstream) = manual.asked(GET).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    upstream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    for _ in 0..3 {
        upstream.write_all(b"data: 1\n\n").await.unwrap();
        read_until(&mut client, "data: 1\n\n").await;
        assert_eq!(manual.gate.observe().total().running, 1);
    }
    drop(upstream);
    until(&manual.gate, |accounts| accounts.inside() == 0).await;
    let accounts = manual.gate.observe().total();
    assert_eq!((accounts.completed, accounts.balance()), (1, true), "{accounts:?}");
}

#[tokio::test]
async fn the_answers_of_a_route_are_streams_if_it_says_so() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let mut options = options(listener.local_addr().unwrap());
    let streams = Route { streams: true, ..Route::everything(0) };
    options.routes = Routes::new(vec![streams]);
    let front = tamarisk_protect::start(options).await.unwrap();
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    client.write_all(GET.as_bytes()).await.unwrap();
    let (mut upstream, _) = within(listener.accept()).await.unwrap();
    read_until(&mut upstream, "\r\n\r\n").await;
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    upstream.write_all(head.as_bytes()).await.unwrap();
    // Far more than makes another answer ready.
    upstream.write_all(&[b'x'; 300_000]).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    within(client.read_exact(&mut vec![0; 300_000])).await.unwrap();
    assert_eq!(front.gates()[0].observe().total().running, 1);
    upstream.write_all(&vec![b'x'; 700_000]).await.unwrap();
    within(client.read_exact(&mut vec![0; 700_000])).await.unwrap();
    until(&front.gates()[0], |accounts| accounts.completed == 1).await;
}

#[tokio::test]
async fn a_stream_that_its_client_does_not_read_gives_its_place_back_meanwhile() {
    let manual = Manual::start().await;
    let (mut client, mut upstream) = manual.asked(GET).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    upstream.write_all(head.as_bytes()).await.unwrap();
    let event = vec![b'x'; 64 << 10];
    let mut written = 0;
    while let Ok(count) = timeout(A_WHILE, upstream.write(&event)).await {
        written += count.unwrap();
    }
    until(&manual.gate, |accounts| accounts.suspended == 1).await;
    let (mut other, mut answering) = manual.asked(GET).await;
    answering.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.").await.unwrap();
    read_until(&mut other, "ok.").await;

    drop(upstream);
    let mut read = Vec::new();
    let reading = tokio::spawn(async move {
        // The end of the body is a last chunk: the connection stays.
        while !read.ends_with(b"\r\n0\r\n\r\n") {
            assert!(client.read_buf(&mut read).await.unwrap() > 0);
        }
        read.iter().filter(|byte| **byte == b'x').count()
    });
    // One `x` is in the content type.
    let counted = within(reading).await.unwrap();
    assert!((written..written + 10).contains(&counted), "{counted} of {written}");
    until(&manual.gate, |accounts| accounts.inside() == 0).await;
    assert!(manual.gate.observe().total().balance());
}

#[tokio::test]
async fn a_stream_whose_client_leaves_is_closed_at_once() {
    let manual = Manual::start().await;
    let (mut client, mut upstream) = manual.asked(GET).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    upstream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "data: 1\n\n").await;
    drop(client);
    until(&manual.gate, |accounts| accounts.inside() == 0).await;
    assert!(manual.gate.observe().total().balance());
}

#[tokio::test]
async fn a_body_that_is_passed_on_as_it_comes_keeps_its_place_and_its_wait_is_no_service() {
    let manual = Manual::streaming().await;
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour";
    let (mut client, mut upstream) = manual.asked(request).await;
    let mut other = TcpStream::connect(manual.address).await.unwrap();
    other.write_all(GET.as_bytes()).await.unwrap();
    // The upstream may have a worker waiting for the body.
    timeout(3 * A_WHILE, manual.listener.accept()).await.unwrap_err();
    let accounts = manual.gate.observe().total();
    assert_eq!((accounts.running, accounts.queued, accounts.suspended), (1, 1, 0));
    client.write_all(b" five").await.unwrap();
    read_until(&mut upstream, " five").await;
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.").await.unwrap();
    read_until(&mut client, "ok.").await;
    let service = manual.gate.observe().classes[0].service_times.sum_seconds();
    assert!(service < 2.0 * A_WHILE.as_secs_f64(), "{service} s");
    // The other one has the place now.
    read_until(&mut upstream, "\r\n\r\n").await;
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.").await.unwrap();
    read_until(&mut other, "ok.").await;
    until(&manual.gate, |accounts| accounts.inside() == 0).await;
    assert!(manual.gate.observe().total().balance());
}

#[tokio::test]
async fn uploads_that_are_slow_take_no_places() {
    let (sent, mut lengths) = mpsc::unbounded_channel();
    let router = service().route(
        "/upload",
        axum::routing::post(async move |body: Bytes| sent.send(body.len()).unwrap())
            .layer(axum::extract::DefaultBodyLimit::disable()),
    );
    let gate = narrow();
    let (address, _drain) = proxy(axum(router).await, &gate).await;
    let uploads = (0..10).map(|_| async {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..20 {
            client.write_all(&[b'x'; 10_000]).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
        read_until(&mut client, "\r\n\r\n").await
    });
    let good = async {
        for _ in 0..5 {
            serves_good_clients(address).await;
            sleep(Duration::from_millis(10)).await;
        }
    };
    let (answers, ()) =
        within(futures_util::future::join(futures_util::future::join_all(uploads), good)).await;
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 200")));
    for _ in 0..10 {
        assert_eq!(lengths.recv().await, Some(200_000));
    }
    assert!(gate.observe().total().balance());
}
