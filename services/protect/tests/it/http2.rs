//! Requests over HTTP/2 that do not end, and clients that are slow on one stream.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, RawHttp2, head, head_to};
use crate::support::{Recorder, any_port, options, within};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tamarisk_server::guard::Limits;
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, duplex, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What is held to be too slow: several times what a busy machine may add.
const SOON: Duration = Duration::from_millis(500);

/// What is held of a body that nobody wants, at most (as in the server).
const REST_TIME: Duration = Duration::from_millis(500);

/// More than a client takes of an answer that it does not read (2 MiB, by hyper's client).
const LONG: usize = 8 << 20;

type Asking = UnsyncBoxBody<Bytes, Infallible>;

/// A server of an answer that is long, of one that comes when its request has been read, and of
/// one that waits for nothing.
async fn server(server: Server) -> (SocketAddr, DrainTrigger) {
    let (trigger, drain) = DrainTrigger::new();
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        server.serve(listener, |_| WithoutFastPath(service_fn(answer)), drain).await
    });
    (address, trigger)
}

fn limited() -> Server {
    Server::default().limits(Limits::default().stall_time(SOON))
}

async fn answer(request: Request<ClientBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let length = match request.uri().path() {
        "/long" => LONG,
        "/read" => request.into_body().collect().await.map_or(0, |body| body.to_bytes().len()),
        _ => 1,
    };
    Ok(Response::new(Full::new(Bytes::from(vec![0; length]))))
}

async fn connect(address: SocketAddr) -> SendRequest<Asking> {
    over(TcpStream::connect(address).await.unwrap()).await
}

async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> SendRequest<Asking> {
    let stream = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn get(path: &str) -> Request<Asking> {
    Request::get(format!("http://a{path}")).body(Empty::new().boxed_unsync()).unwrap()
}

/// A request whose body is what is sent on the channel.
fn post(path: &str) -> (mpsc::UnboundedSender<Bytes>, Request<Asking>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let next = |mut receiver: mpsc::UnboundedReceiver<Bytes>| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    };
    let body = StreamBody::new(stream::unfold(receiver, next).boxed()).boxed_unsync();
    (sender, Request::post(format!("http://a{path}")).body(body).unwrap())
}

#[tokio::test]
async fn a_head_is_judged_as_strictly_as_over_http1() {
    let (address, _trigger) = server(Server::default()).await;
    let mut client = RawHttp2::connect(address, 1 << 16).await;
    for (index, (method, path, fields)) in [
        ("GET", "/", &[("host", "b")][..]),
        ("GET", "/", &[("host", "a"), ("host", "a")]),
        ("GET", "/", &[("x", " y")]),
        ("POST", "*", &[]),
        ("GET", "/a\x7f", &[]),
        ("GET", "/", &[("x", "y ")]),
        ("GET", "/", &[("host", "u@a")]),
        ("POST", "/", &[("content-length", "0"), ("content-length", "0")]),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 2 * index as u32 + 1;
        client.frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(method, path, fields)).await;
        let (status, _) = client.answer(stream).await;
        // What is no head at all is reset and has no answer.
        assert!(matches!(status, Some(400) | None), "{method} {path} {fields:?}: {status:?}");
    }
    client.get(99, "/").await;
    assert_eq!(client.answer(99).await, (Some(200), 1));
}

#[tokio::test]
async fn an_authority_is_a_host_and_a_port_at_most() {
    let (address, _trigger) = server(Server::default()).await;
    for authority in ["u:p@a", "a:80:80", "[::1", "a:b;c", "a b", ""] {
        let mut client = RawHttp2::connect(address, 1 << 16).await;
        let block = head_to(authority, "GET", "/", &[]);
        client.frame(HEADERS, END_HEADERS | END_STREAM, 1, &block).await;
        let (status, _) = client.answer(1).await;
        assert!(matches!(status, Some(400) | None), "{authority}: {status:?}");
    }
    let mut client = RawHttp2::connect(address, 1 << 16).await;
    let block = head_to("a:8080", "GET", "/", &[]);
    client.frame(HEADERS, END_HEADERS | END_STREAM, 1, &block).await;
    assert_eq!(client.answer(1).await, (Some(200), 1));
}

#[tokio::test]
async fn a_path_of_eight_thousand_octets_is_answered() {
    let (address, _trigger) = server(Server::default()).await;
    let mut client = connect(address).await;
    let path = format!("/{}", "x".repeat(8000 - "GET / HTTP/1.1".len()));
    let answer = within(client.send_request(get(&path))).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn an_answer_that_needs_nothing_of_the_request_comes_after_it() {
    let (address, _trigger) = server(Server::default()).await;
    let mut client = connect(address).await;
    let (body, request) = post("/");
    let mut answer = std::pin::pin!(client.send_request(request));
    body.send(Bytes::from("so far")).unwrap();
    let early = tokio::time::timeout(REST_TIME / 4, answer.as_mut()).await;
    assert!(early.is_err(), "it overtook the request");
    drop(body);
    assert_eq!(within(answer).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_goes_on_and_on_is_answered_all_the_same() {
    let (address, _trigger) = server(Server::default()).await;
    let mut client = connect(address).await;
    let start = Instant::now();
    let (_body, request) = post("/");
    within(client.send_request(request)).await.unwrap();
    assert!(start.elapsed() >= REST_TIME, "{:?}", start.elapsed());

    // The quickest of some, for a busy machine may take its time once.
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let (body, request) = post("/");
        body.send(Bytes::from(vec![0; 60_000])).unwrap();
        let (_expecting, mut expecting) = post("/");
        expecting.headers_mut().insert("expect", "100-continue".parse().unwrap());
        let start = Instant::now();
        within(client.send_request(request)).await.unwrap();
        within(client.send_request(expecting)).await.unwrap();
        quickest = quickest.min(start.elapsed());
    }
    assert!(quickest < REST_TIME, "{quickest:?}");
}

#[tokio::test]
async fn a_request_body_that_stands_still_or_drips_is_given_up() {
    let upstream = Recorder::start("never", "").await;
    let mut options = options(upstream.address);
    options.front.server = limited();
    let front = tamarisk_protect::start(options).await.unwrap();
    let mut client = connect(front.local_addr()).await;
    for interval in [20 * SOON, SOON / 5] {
        let (body, request) = post("/");
        let dripping = tokio::spawn(async move {
            while body.send(Bytes::from("x")).is_ok() {
                tokio::time::sleep(interval).await;
            }
        });
        let start = Instant::now();
        let answer = within(client.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
        assert!(start.elapsed() >= SOON, "{:?}", start.elapsed());
        dripping.abort();
    }
    assert!(front.gates()[0].observe().total().balance());
}

#[tokio::test]
async fn a_request_body_is_waited_for_as_long_as_it_goes_on() {
    let (address, _trigger) = server(limited()).await;
    let mut client = connect(address).await;
    let (body, request) = post("/read");
    let sending = async move {
        for _ in 0..10 {
            // 500 bytes a second are the least.
            body.send(Bytes::from(vec![0; 1000])).unwrap();
            tokio::time::sleep(SOON / 2).await;
        }
    };
    let (answer, ()) = tokio::join!(client.send_request(request), sending);
    let read = within(answer.unwrap().into_body().collect()).await.unwrap();
    assert_eq!(read.to_bytes().len(), 10_000);
}

#[tokio::test]
async fn an_answer_that_the_client_does_not_take_is_reset_and_the_others_go_on() {
    let (address, _trigger) = server(limited()).await;
    let mut client = connect(address).await;
    let stalled = within(client.send_request(get("/long"))).await.unwrap().into_body();
    let start = Instant::now();
    while start.elapsed() < 3 * SOON {
        let taken = within(client.send_request(get("/long"))).await.unwrap().into_body();
        assert_eq!(within(taken.collect()).await.unwrap().to_bytes().len(), LONG);
    }
    let error = within(stalled.collect()).await.unwrap_err();
    assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
    assert_eq!(within(client.send_request(get("/"))).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn an_answer_that_is_taken_slowly_is_not_reset() {
    let (address, _trigger) = server(limited()).await;
    let mut client = connect(address).await;
    let mut answer = within(client.send_request(get("/long"))).await.unwrap().into_body();
    let mut read = 0;
    while let Some(frame) = within(answer.frame()).await {
        let bytes = frame.unwrap().into_data().unwrap().len();
        if read / (1 << 20) != (read + bytes) / (1 << 20) {
            tokio::time::sleep(SOON / 2).await;
        }
        read += bytes;
    }
    assert_eq!(read, LONG);
}

#[tokio::test(start_paused = true)]
async fn answers_that_take_turns_on_a_slow_connection_are_not_reset() {
    let (client, near) = duplex(4096);
    let (far, stream) = duplex(4096);
    let (_trigger, drain) = DrainTrigger::new();
    tokio::spawn(limited().serve_stream(stream, WithoutFastPath(service_fn(answer)), drain));
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
        (split(near), split(far));
    tokio::spawn(async move { copy(&mut near_read, &mut far_write).await });
    // A megabyte a second: 32 KiB of each of the ten answers take three times as long as one may.
    tokio::spawn(async move {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = far_read.read(&mut bytes).await {
            near_write.write_all(&bytes[..count]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    });
    let client = over(client).await;
    let answers = (0..10).map(|_| {
        let mut client = client.clone();
        async move { client.send_request(get("/long")).await.unwrap().into_body().collect().await }
    });
    for answer in futures_util::future::join_all(answers).await {
        assert_eq!(answer.unwrap().to_bytes().len(), LONG);
    }
}
