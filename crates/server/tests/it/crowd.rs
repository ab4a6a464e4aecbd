//! One client that takes all places and lets the server wait shuts out no others.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;

use crate::support::frames::{NO_FLAGS, PING, RawHttp2, SETTINGS};
use crate::support::{any_port, read_until, within};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use socket2::{Domain, Socket, Type};
use tamarisk_server::{ClientBody, DrainTrigger, Server, Tunnel, Upgrade, WithoutFastPath};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

/// Connections at once.
const PLACES: usize = 20;

/// More than the buffers of two sockets hold.
const LONG: usize = 32 << 20;

/// Reads bodies whole. `/long` is [`LONG`], `/tunnel` is one, and `/never` is not answered.
async fn answer(request: Request<ClientBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut answer = Response::new(Full::from("ok."));
    match request.uri().path() {
        "/never" => pending::<()>().await,
        "/long" => *answer.body_mut() = Full::from(vec![b'x'; LONG]),
        "/tunnel" => {
            let upgrade = request.extensions().get::<Upgrade>().unwrap().clone();
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            answer.extensions_mut().insert(Tunnel::new(async {
                let mut stream = upgrade.await.unwrap();
                while stream.read_u8().await.is_ok() {}
            }));
        }
        _ => drop(request.into_body().collect().await),
    }
    Ok(answer)
}

async fn start() -> (SocketAddr, Server, DrainTrigger) {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (trigger, drain) = DrainTrigger::new();
    let server = Server::default().connections_max(PLACES);
    let serving = server.clone();
    tokio::spawn(async move {
        serving.serve(listener, |_| WithoutFastPath(service_fn(answer)), drain).await
    });
    (address, server, trigger)
}

/// A connection from another address of this machine.
async fn from_elsewhere(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpStream::from_std(socket.into()).unwrap()
}

/// What another client gets while one client holds all places with `request`s.
async fn another_client(address: SocketAddr, server: &Server, request: &str) -> String {
    let mut held = Vec::new();
    for _ in 0..PLACES {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        held.push(client);
    }
    let filled = async {
        while server.connections() < PLACES {
            yield_now().await;
        }
    };
    within(filled).await;
    let mut other = from_elsewhere(address).await;
    other.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within(other.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// Another client is served, as soon as the server waits for those who hold the places; how many of
/// them gave way though they were under way.
async fn shuts_nobody_out(request: &str) -> u64 {
    let (address, server, _drain) = start().await;
    let served = async {
        while !another_client(address, &server, request).await.starts_with("HTTP/1.1 200 ") {}
    };
    within(served).await;
    server.rejected().gave_way
}

#[tokio::test]
async fn bodies_of_one_byte_shut_nobody_out() {
    let body = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx";
    assert!(shuts_nobody_out(body).await > 0);
}

#[tokio::test]
async fn heads_that_do_not_end_shut_nobody_out() {
    // They count as idle.
    assert_eq!(shuts_nobody_out("GET / HTTP/1.1\r\nhost: a\r\n").await, 0);
}

#[tokio::test]
async fn answers_that_are_not_read_shut_nobody_out() {
    assert!(shuts_nobody_out("GET /long HTTP/1.1\r\nhost: a\r\n\r\n").await > 0);
}

#[tokio::test]
async fn tunnels_in_which_nothing_moves_shut_nobody_out() {
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";
    let request = format!("GET /tunnel HTTP/1.1\r\nhost: a\r\n{upgrade}\r\n");
    assert!(shuts_nobody_out(&request).await > 0);
}

#[tokio::test]
async fn connections_of_http2_that_ask_for_nothing_shut_nobody_out() {
    assert!(shuts_nobody_out("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await > 0);
}

#[tokio::test]
async fn frames_of_http2_that_bring_nothing_further_have_an_end() {
    for (kind, payload) in [(PING, &[0; 8][..]), (SETTINGS, &[]), (0x77, &[])] {
        let (address, server, _drain) = start().await;
        let mut client = RawHttp2::connect(address, 1 << 16).await;
        let mut left = 3000;
        while left > 0 && client.frame(kind, NO_FLAGS, 0, payload).await {
            left -= 1;
        }
        // `ENHANCE_YOUR_CALM`.
        assert_eq!(client.closed().await, Some(0xb), "frame type {kind}");
        assert_eq!(server.rejected().flooded, 1);
    }
}

#[tokio::test]
async fn who_waits_for_the_service_stays() {
    let (address, server, _drain) = start().await;
    let mut waiting = Vec::new();
    for _ in 0..PLACES {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        waiting.push(client);
    }
    let filled = async {
        while server.connections() < PLACES {
            yield_now().await;
        }
    };
    within(filled).await;
    let mut other = from_elsewhere(address).await;
    other.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    read_until(&mut other, "503: too many connections").await;
    assert_eq!((server.rejected().gave_way, server.connections()), (0, PLACES));
}
