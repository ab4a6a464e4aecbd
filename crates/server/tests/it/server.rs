//! The server by itself: connections, bounds and the drain.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{PATIENCE, any_port, exchange, read_until, within};
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tamarisk_server::guard::Limits;
use tamarisk_server::{
    ClientBody, Cores, DrainTrigger, ListenError, Listeners, Server, WithoutFastPath,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server whose answers wait for a permit each, and tells when a request has come.
struct Held {
    address: SocketAddr,
    release: Arc<Semaphore>,
    arrived: mpsc::UnboundedReceiver<()>,
    drain: DrainTrigger,
    server: Server,
    served: JoinHandle<usize>,
}

impl Held {
    async fn start(server: Server) -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let release = Arc::new(Semaphore::new(0));
        let (arrival, arrived) = mpsc::unbounded_channel();
        let (trigger, drain) = DrainTrigger::new();
        let served = {
            let (release, server) = (Arc::clone(&release), server.clone());
            tokio::spawn(async move {
                let connect = |_| {
                    let (release, arrival) = (Arc::clone(&release), arrival.clone());
                    WithoutFastPath(service_fn(move |_: Request<ClientBody>| {
                        let (release, arrival) = (Arc::clone(&release), arrival.clone());
                        async move {
                            arrival.send(()).unwrap();
                            release.acquire().await.unwrap().forget();
                            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
                        }
                    }))
                };
                server.serve(listener, connect, drain).await
            })
        };
        Self { address, release, arrived, drain: trigger, server, served }
    }

    /// Waits for so many connections: the system gives those later that say nothing.
    async fn connected(&self, connections: usize) {
        let connected = async {
            while self.server.connections() < connections {
                tokio::task::yield_now().await;
            }
        };
        within(connected).await;
    }
}

/// A connection of HTTP/2 clients, and its end.
async fn http2<B>(address: SocketAddr) -> (http2::SendRequest<B>, JoinHandle<hyper::Result<()>>)
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
    (sender, tokio::spawn(connection))
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_at_once() {
    let mut held = Held::start(Server::default().connections_max(1)).await;
    let mut first = TcpStream::connect(held.address).await.unwrap();
    first.write_all(REQUEST.as_bytes()).await.unwrap();
    within(held.arrived.recv()).await.unwrap();
    // Also one who has asked, and would be reset by a close with that unread.
    for asked in ["", REQUEST] {
        let turned_away = exchange(held.address, asked).await;
        assert!(turned_away.starts_with("HTTP/1.1 503 "), "{turned_away}");
        assert!(turned_away.contains("retry-after: 1\r\n"));
        let (head, body) = turned_away.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
    }

    held.release.add_permits(1);
    read_until(&mut first, "done").await;
    drop(first);
    // The place is free again as soon as the server has noticed.
    let next = async {
        loop {
            held.release.add_permits(1);
            let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            if exchange(held.address, request).await.ends_with("done") {
                break;
            }
        }
    };
    within(next).await;
}

#[tokio::test]
async fn an_idle_connection_with_a_task_gives_way_to_who_comes() {
    let mut held = Held::start(Server::default().connections_max(1)).await;
    let mut idle = TcpStream::connect(held.address).await.unwrap();
    held.release.add_permits(2);
    idle.write_all(REQUEST.as_bytes()).await.unwrap();
    read_until(&mut idle, "done").await;
    within(held.arrived.recv()).await.unwrap();
    // It is idle once hyper has held it for a second.
    within(served_at_last(held.address)).await;
    assert_eq!(within(idle.read(&mut [0])).await.unwrap(), 0, "it is closed");
}

/// Asks again and again until a place is free.
async fn served_at_last(address: SocketAddr) {
    loop {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = exchange(address, request).await;
        if answer.ends_with("done") {
            return;
        }
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
}

#[tokio::test]
async fn an_http2_connection_without_requests_gives_way_to_who_comes() {
    let held = Held::start(Server::default().connections_max(1)).await;
    held.release.add_permits(2);
    let (mut sender, connection) = http2(held.address).await;
    let request = Request::get("http://a/").body(Empty::<Bytes>::new()).unwrap();
    let answer = within(sender.send_request(request)).await.unwrap();
    assert_eq!(within(answer.into_body().collect()).await.unwrap().to_bytes(), "done");
    // After a second.
    within(served_at_last(held.address)).await;
    within(connection).await.unwrap().expect("it is told to part");
}

#[tokio::test]
async fn a_drain_finishes_requests_and_closes_idle_connections() {
    let mut held = Held::start(Server::default()).await;
    let mut idle = TcpStream::connect(held.address).await.unwrap();
    held.release.add_permits(1);
    idle.write_all(REQUEST.as_bytes()).await.unwrap();
    read_until(&mut idle, "done").await;
    within(held.arrived.recv()).await.unwrap();
    let mut silent = TcpStream::connect(held.address).await.unwrap();
    let mut busy = TcpStream::connect(held.address).await.unwrap();
    busy.write_all(REQUEST.as_bytes()).await.unwrap();
    within(held.arrived.recv()).await.unwrap();
    held.connected(3).await;

    held.drain.drain(PATIENCE);
    for closed in [&mut idle, &mut silent] {
        assert_eq!(within(closed.read(&mut [0])).await.unwrap(), 0);
    }
    assert!(TcpStream::connect(held.address).await.is_err(), "the listener is closed");
    held.release.add_permits(1);
    let mut answer = String::new();
    within(busy.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("done"), "{answer}");
    assert_eq!(within(held.served).await.unwrap(), 0);
    assert_eq!(held.server.connections(), 0);
}

#[tokio::test]
async fn a_connection_that_a_drain_finds_idle_is_answered_once_more() {
    let held = Held::start(Server::default()).await;
    held.release.add_permits(2);
    let mut idle = TcpStream::connect(held.address).await.unwrap();
    idle.write_all(REQUEST.as_bytes()).await.unwrap();
    assert!(!read_until(&mut idle, "done").await.contains("connection: close"));
    let silent = TcpStream::connect(held.address).await.unwrap();
    held.connected(2).await;

    held.drain.drain(PATIENCE);
    within(async { while TcpStream::connect(held.address).await.is_ok() {} }).await;
    for mut client in [idle, silent] {
        held.release.add_permits(1);
        client.write_all(REQUEST.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(client.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.contains("connection: close\r\n") && answer.ends_with("done"), "{answer}");
    }
    assert_eq!(within(held.served).await.unwrap(), 0);
}

#[tokio::test]
async fn clients_that_nobody_has_accepted_yet_are_served_when_a_drain_starts() {
    let held = Held::start(Server::default()).await;
    held.release.add_permits(50);
    // The server's task does not run meanwhile.
    let connect = |_| {
        let mut client = std::net::TcpStream::connect(held.address).unwrap();
        client.write_all(REQUEST.as_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    };
    let clients: Vec<_> = (0..50).map(connect).collect();
    held.drain.drain(PATIENCE);
    for client in clients {
        let mut answer = String::new();
        let mut client = TcpStream::from_std(client).unwrap();
        within(client.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.contains("connection: close\r\n") && answer.ends_with("done"), "{answer}");
    }
    assert_eq!(within(held.served).await.unwrap(), 0);
}

#[tokio::test]
async fn an_http2_connection_without_requests_is_told_and_closed() {
    let server = Server::default().idle_time(Duration::from_millis(100));
    let mut held = Held::start(server).await;
    let (mut sender, connection) = http2(held.address).await;
    let request = Request::get("http://a/").body(Empty::<Bytes>::new()).unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    within(held.arrived.recv()).await.unwrap();
    let (_sender, idle) = http2::<Empty<Bytes>>(held.address).await;
    within(idle).await.unwrap().unwrap();
    assert!(!connection.is_finished(), "it waits for its answer, which is not idle");
    held.release.add_permits(1);
    let answer = within(answer).await.unwrap().unwrap();
    assert_eq!(within(answer.into_body().collect()).await.unwrap().to_bytes(), "done");
    within(connection).await.unwrap().unwrap();
    let ended = async {
        while held.server.connections() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(ended).await;
}

#[tokio::test]
async fn a_head_request_over_http2_has_an_answer_without_a_body() {
    let held = Held::start(Server::default()).await;
    held.release.add_permits(1);
    let (mut sender, _connection) = http2(held.address).await;
    // The second one is rejected before the service sees it.
    for (field, status, length) in [("x", 200, "4"), ("x ", 400, "41")] {
        let mut request = Request::head("http://a/").body(Empty::<Bytes>::new()).unwrap();
        request.headers_mut().insert("x", HeaderValue::from_static(field));
        let answer = within(sender.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()[CONTENT_LENGTH], length);
        assert!(answer.body().is_end_stream(), "{status}");
    }
}

#[tokio::test]
async fn a_body_over_its_limit_is_rejected_over_http2() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_trigger, drain) = DrainTrigger::new();
    let server = Server::default().limits(Limits::default().body(Some(10)));
    let serving = server.clone();
    let reads = |request: Request<ClientBody>| async {
        let read = request.into_body().collect().await;
        let mut answer = Response::new(Empty::<Bytes>::new());
        if let Err(error) = read {
            *answer.status_mut() = error.violation().unwrap().status();
        }
        Ok::<_, Infallible>(answer)
    };
    tokio::spawn(async move {
        serving.serve(listener, |_| WithoutFastPath(service_fn(reads)), drain).await
    });
    let (mut sender, _connection) = http2(address).await;
    for (frames, status) in [(2, 200), (3, 413)] {
        let frames = (0..frames).map(|_| Ok(Frame::data(Bytes::from_static(b"five."))));
        let body = StreamBody::new(stream::iter(frames)).boxed_unsync();
        let request = Request::post("http://a/").body(body).unwrap();
        let answer = within(sender.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), status);
    }
    assert_eq!(server.rejected().too_large, 0, "the service rejects it");
    for (length, status) in [(10, 200), (11, 413)] {
        let body = Full::from(vec![b'x'; length]).boxed_unsync();
        let request = Request::post("http://a/").body(body).unwrap();
        let answer = within(sender.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), status);
    }
    assert_eq!(server.rejected().too_large, 1, "its head says that it is too long");
}

/// A server of 8 MiB, which gives a client up that takes nothing for 100 ms.
async fn large() -> (SocketAddr, Server, DrainTrigger) {
    let limits = Limits::default().stall_time(Duration::from_millis(100));
    let (trigger, drain) = DrainTrigger::new();
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::default().limits(limits);
    let serving = server.clone();
    tokio::spawn(async move {
        let large = |_: Request<ClientBody>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![0; 8 << 20]))))
        };
        serving.serve(listener, |_| WithoutFastPath(service_fn(large)), drain).await
    });
    (address, server, trigger)
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_reset_and_nothing_of_it_stays() {
    let (address, server, _trigger) = large().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    let ended = async {
        while server.connections() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(ended).await;
    let end = within(client.read_to_end(&mut Vec::new())).await;
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_answer_that_is_whole_when_the_connection_ends_breaks_off_with_a_reset() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_trigger, drain) = DrainTrigger::new();
    let answer = |request: Request<ClientBody>| async move {
        let mut frames = vec![Ok(Frame::data(Bytes::from_static(b"part")))];
        if request.uri().path() == "/broken" {
            frames.push(Err(io::Error::other("it broke off")));
        }
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
    };
    tokio::spawn(async move {
        Server::default().serve(listener, |_| WithoutFastPath(service_fn(answer)), drain).await
    });
    for (path, end) in [("/whole", None), ("/broken", Some(io::ErrorKind::ConnectionReset))] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = within(client.read_to_end(&mut answer)).await;
        assert_eq!(read.err().map(|error| error.kind()), end, "{path}");
        assert!(end.is_some() || answer.ends_with(b"\r\n\r\npart"), "{path}");
    }
}

#[tokio::test]
async fn what_outlasts_the_drain_is_cut_and_counted() {
    let mut held = Held::start(Server::default()).await;
    let mut busy = TcpStream::connect(held.address).await.unwrap();
    busy.write_all(REQUEST.as_bytes()).await.unwrap();
    within(held.arrived.recv()).await.unwrap();
    held.drain.drain(Duration::from_millis(20));
    assert_eq!(within(held.served).await.unwrap(), 1);
    assert_eq!(within(busy.read(&mut [0])).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_lost_trigger_ends_the_server() {
    let held = Held::start(Server::default()).await;
    drop(held.drain);
    assert_eq!(within(held.served).await.unwrap(), 0);
}

#[tokio::test]
async fn http2_requests_are_finished_by_a_drain_as_well() {
    let mut held = Held::start(Server::default()).await;
    let (mut sender, connection) = http2(held.address).await;
    let request = Request::get("http://a/").body(Empty::<Bytes>::new()).unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    within(held.arrived.recv()).await.unwrap();
    held.drain.drain(PATIENCE);
    held.release.add_permits(1);
    let answer = within(answer).await.unwrap().unwrap();
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body, "done");
    within(connection).await.unwrap().unwrap();
    assert_eq!(within(held.served).await.unwrap(), 0);
}

#[test]
fn several_cores_share_one_port() {
    let listeners = Listeners::bind(any_port(), NonZeroUsize::new(3).unwrap()).unwrap();
    let address = listeners.local_addr();
    let (trigger, drain) = DrainTrigger::new();
    let serving = async move |listener| {
        let answer = |_: Request<ClientBody>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
        };
        Server::default().serve(listener, |_| WithoutFastPath(service_fn(answer)), drain).await
    };
    let cores = Cores::start(listeners, serving).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..30 {
            let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            assert!(exchange(address, request).await.ends_with("done"));
        }
    });
    trigger.drain(PATIENCE);
    assert_eq!(cores.join(), [0, 0, 0]);
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let taken = Listeners::bind(any_port(), NonZeroUsize::MIN).unwrap();
    let address = taken.local_addr();
    let error = Listeners::bind(address, NonZeroUsize::MIN).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"));
    let ListenError::Address { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::AddrInUse);
}
