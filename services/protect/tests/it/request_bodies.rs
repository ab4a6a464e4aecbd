//! Request bodies are read before their requests take a place, whatever their clients do.

use crate::support;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{
    OneByOne, Recorder, any_port, axum, exchange, options, proxy_to, read_until, streaming_proxy,
    within,
};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::routing::any;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::{Domain, Socket, Type};
use tamarisk_proxy::classify::{Route, Routes};
use tamarisk_proxy::{Bounds, Budget, Held, RequestBuffering, Upstream};
use tamarisk_server::guard::Limits;
use tamarisk_server::{DrainTrigger, Server};
use tamarisk_stage::{Entry, Gate, StageBuilder};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// What is held to be too slow.
const SOON: Duration = Duration::from_millis(100);

/// A service that says how long each body is, and how it came.
fn measuring() -> Router {
    Router::new().fallback(any(async |request: Request| {
        let length = request.headers().get("content-length").cloned();
        let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        format!("{} bytes, sum {sum}, stated {length:?}.", body.len())
    }))
}

/// A proxy whose gate lets one request in at a time.
struct Narrow {
    address: SocketAddr,
    gate: Gate,
    budget: Budget,
    _drain: DrainTrigger,
}

impl Narrow {
    async fn start(bounds: Bounds) -> Self {
        let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
        let origin = format!("http://{}", axum(measuring()).await).parse().unwrap();
        let budget = Budget::new(bounds);
        let (address, drain) = proxy_to(Upstream::new(&origin, gate.clone()), budget.clone()).await;
        Self { address, gate, budget, _drain: drain }
    }

    async fn send(&self, bytes: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(bytes.as_bytes()).await.unwrap();
        client
    }

    /// A client who sends all at once is answered at once.
    async fn serves_good_clients(&self) {
        for _ in 0..20 {
            let request =
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab";
            let answer = exchange(self.address, request).await;
            assert!(answer.contains("2 bytes, sum 195"), "{answer}");
        }
    }

    /// Until so many bytes of bodies are in memory.
    async fn keeps(&self, bytes: u64) {
        within(async {
            while self.budget.held().memory != bytes {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Until bodies hold so much.
    async fn holds(&self, held: Held) {
        within(async {
            while self.budget.held() != held {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn balances(&self) {
        let accounts = self.gate.observe().total();
        assert!(accounts.balance() && accounts.inside() == 0, "{accounts:?}");
    }
}

#[tokio::test]
async fn bodies_that_never_come_take_no_places() {
    let narrow = Narrow::start(Bounds::default()).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    let mut mute = Vec::new();
    for _ in 0..33 {
        mute.push(narrow.send(head).await);
    }
    narrow.serves_good_clients().await;
    assert_eq!(narrow.gate.observe().total().offered, 20);
    // They may still send theirs.
    let last = mute.last_mut().unwrap();
    last.write_all(b"hello").await.unwrap();
    read_until(last, "5 bytes, sum 532").await;
    drop(mute);
    narrow.serves_good_clients().await;
    narrow.balances();
}

#[tokio::test]
async fn bodies_that_trickle_take_no_places() {
    let narrow = Narrow::start(Bounds::default()).await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        slow.push(narrow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").await);
    }
    for byte in ["h", "e", "l", "l"] {
        for client in &mut slow {
            client.write_all(byte.as_bytes()).await.unwrap();
        }
        narrow.serves_good_clients().await;
        assert_eq!(narrow.gate.observe().total().inside(), 0);
    }
    narrow.keeps(40 * 4).await;
    for client in &mut slow {
        client.write_all(b"o").await.unwrap();
        read_until(client, "5 bytes, sum 532").await;
    }
    narrow.balances();
    assert_eq!(narrow.budget.held(), Held::default());
}

#[tokio::test]
async fn a_long_body_arrives_whole_and_its_length_is_told() {
    let narrow = Narrow::start(Bounds::default()).await;
    let body: String = (0..2 << 20).map(|index| char::from(b'a' + (index % 26) as u8)).collect();
    let sum: u64 = body.bytes().map(u64::from).sum();
    let stated = format!("{} bytes, sum {sum}, stated Some(\"{}\").", body.len(), body.len());
    let length = body.len();
    let mut client = narrow
        .send(&format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"))
        .await;
    for part in body.as_bytes().chunks(100_000) {
        assert_eq!(narrow.gate.observe().total().offered, 0);
        client.write_all(part).await.unwrap();
    }
    read_until(&mut client, &stated).await;

    let mut client =
        narrow.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    for part in body.as_bytes().chunks(100_000) {
        client.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await.unwrap();
        client.write_all(part).await.unwrap();
        client.write_all(b"\r\n").await.unwrap();
    }
    client.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut client, &stated).await;
    assert_eq!(narrow.budget.held(), Held::default());
    narrow.balances();
}

#[tokio::test]
async fn a_client_that_expects_100_continue_is_asked_before_it_takes_a_place() {
    let upstream = Recorder::ok().await;
    let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
    let (address, _drain) = support::proxy(upstream.address, &gate).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(gate.observe().total().offered, 0);
    client.write_all(b"hello").await.unwrap();
    assert!(read_until(&mut client, "ok").await.starts_with("HTTP/1.1 200"));
    let heard = upstream.heard().await;
    assert!(heard.contains("content-length: 5") && !heard.contains("expect"), "{heard}");
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up_though_nobody_waits_for_a_place() {
    let upstream = Recorder::ok().await;
    let mut options = options(upstream.address);
    options.front.server = Server::default().limits(Limits::default().stall_time(SOON));
    let front = tamarisk_protect::start(options).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell";
    let answer = exchange(front.local_addr(), head).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(front.gates()[0].observe().total().offered, 0);
    assert_eq!(upstream.heard().await, "");
}

/// Bodies of so many bytes may be kept for a client, and for all.
fn in_files(client: u64, total: u64) -> Bounds {
    let held = |file| Held { memory: 0, file, files: 10 };
    Bounds { client: held(client), total: held(total), ..Bounds::default() }
}

/// A connection from another address of this machine.
async fn from_elsewhere(last: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpStream::from_std(socket.into()).unwrap()
}

#[tokio::test]
async fn who_has_sent_too_much_is_rejected_and_others_are_not() {
    let narrow = Narrow::start(in_files(1000, 10_000)).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600\r\n\r\n";
    let half = format!("{head}{}", "x".repeat(599));
    let _first = narrow.send(&half).await;
    narrow.holds(Held { memory: 0, file: 599, files: 1 }).await;
    let rejected = exchange(narrow.address, &half).await;
    assert!(rejected.starts_with("HTTP/1.1 503"), "{rejected}");
    assert!(rejected.contains("too many request bodies") && rejected.contains("retry-after: 1"));
    let mut other = from_elsewhere(9, narrow.address).await;
    other.write_all(format!("{half}x").as_bytes()).await.unwrap();
    read_until(&mut other, "600 bytes").await;
    assert_eq!(narrow.budget.held().file, 599);
    narrow.balances();
}

/// Four files for all, and eight bytes of a body in memory.
fn four_files() -> Bounds {
    let held = |files| Held { memory: 10_000, file: 10_000, files };
    Bounds { body_memory: 8, client: held(3), total: held(4), ..Bounds::default() }
}

/// What so many bodies hold of which [`trickling`] clients have sent ten bytes: what came first is
/// in files, and what came then in memory.
fn trickled(bodies: u64) -> Held {
    Held { memory: 2 * bodies, file: 8 * bodies, files: bodies }
}

/// A client at this address, who has sent ten bytes of a body of eleven; nobody has done so before
/// but those who hold `before`.
async fn trickling(last: u8, narrow: &Narrow, before: Held) -> TcpStream {
    let mut client = from_elsewhere(last, narrow.address).await;
    let begin = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nabcdefgh";
    client.write_all(begin.as_bytes()).await.unwrap();
    narrow.keeps(before.memory + 8).await;
    client.write_all(b"ij").await.unwrap();
    client
}

#[tokio::test]
async fn where_all_room_is_used_the_greediest_client_loses_what_stood_still_longest() {
    let narrow = Narrow::start(four_files()).await;
    let mut clients = Vec::new();
    for (address, count) in [(2, 0), (3, 1), (3, 2), (3, 3)] {
        clients.push(trickling(address, &narrow, trickled(count)).await);
        narrow.holds(trickled(count + 1)).await;
    }
    let mut good = trickling(4, &narrow, trickled(4)).await;
    // It is told although it sends nothing.
    let rejected = read_until(&mut clients.remove(1), "too many request bodies").await;
    assert!(rejected.starts_with("HTTP/1.1 503") && rejected.contains("connection: close"));
    narrow.holds(trickled(4)).await;
    // Who would hold as much as the greediest is rejected.
    let mut second = trickling(4, &narrow, trickled(4)).await;
    let rejected = read_until(&mut second, "too many request bodies").await;
    assert!(rejected.starts_with("HTTP/1.1 503"), "{rejected}");
    narrow.holds(trickled(4)).await;
    for client in clients.iter_mut().chain([&mut good]) {
        client.write_all(b"k").await.unwrap();
        read_until(client, "11 bytes, sum 1122").await;
    }
    assert_eq!(narrow.budget.held(), Held::default());
    narrow.balances();
}

#[tokio::test]
async fn slow_uploads_of_as_many_addresses_as_there_are_files_shut_nobody_out() {
    let narrow = Narrow::start(four_files()).await;
    let mut slow = Vec::new();
    for address in 2..6 {
        let count = u64::from(address) - 2;
        slow.push(trickling(address, &narrow, trickled(count)).await);
        narrow.holds(trickled(count + 1)).await;
    }
    for address in 6..9 {
        let mut fast = from_elsewhere(address, narrow.address).await;
        let body = "x".repeat(5000);
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{body}");
        fast.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut fast, "5000 bytes").await;
    }
    // One of them has given way, and the others had its file one after the other.
    narrow.holds(trickled(3)).await;
    narrow.balances();
}

#[tokio::test]
async fn bodies_that_have_come_whole_and_wait_for_a_place_give_no_way() {
    let narrow = Narrow::start(four_files()).await;
    let place = narrow.gate.enter(Entry::default()).await.unwrap();
    let mut clients = Vec::new();
    for (address, count) in [(2, 0), (3, 1), (3, 2), (3, 3)] {
        let whole = Held { memory: 0, file: 11 * count, files: count };
        let mut client = trickling(address, &narrow, whole).await;
        client.write_all(b"k").await.unwrap();
        narrow.holds(Held { file: 11 * (count + 1), files: count + 1, ..whole }).await;
        clients.push(client);
    }
    let mut late = trickling(4, &narrow, Held::default()).await;
    read_until(&mut late, "too many request bodies").await;
    place.complete();
    for client in &mut clients {
        read_until(client, "11 bytes, sum 1122").await;
    }
    narrow.balances();
}

#[tokio::test]
async fn good_clients_upload_while_a_greedy_one_takes_all_room_again_and_again() {
    let narrow = Narrow::start(four_files()).await;
    let mut modest = trickling(2, &narrow, trickled(0)).await;
    narrow.holds(trickled(1)).await;
    let mut greedy = Vec::new();
    for round in 0..10 {
        let held = if round == 0 { 1..4 } else { 3..4 };
        for count in held {
            greedy.push(trickling(3, &narrow, trickled(count)).await);
            narrow.holds(trickled(count + 1)).await;
        }
        let mut good = trickling(4, &narrow, trickled(4)).await;
        good.write_all(b"k").await.unwrap();
        read_until(&mut good, "11 bytes, sum 1122").await;
        narrow.holds(trickled(3)).await;
    }
    modest.write_all(b"k").await.unwrap();
    read_until(&mut modest, "11 bytes, sum 1122").await;
}

#[tokio::test]
async fn a_body_that_is_longer_than_what_is_buffered_is_413() {
    let narrow = Narrow::start(Bounds { body: 1000, ..Bounds::default() }).await;
    let stated = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n";
    let chunk = "x".repeat(1001);
    let unstated = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{chunk}\r\n"
    );
    for request in [stated, &unstated] {
        let answer = exchange(narrow.address, request).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
    narrow.serves_good_clients().await;
    assert_eq!(narrow.budget.held(), Held::default());
}

#[tokio::test]
async fn bodies_are_passed_on_as_they_come_where_the_operator_says_so() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
    let (address, _drain) = streaming_proxy(listener.local_addr().unwrap(), &gate).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour";
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut upstream, _) = within(listener.accept()).await.unwrap();
    read_until(&mut upstream, "\r\n\r\nfour").await;
    client.write_all(b" five").await.unwrap();
    read_until(&mut upstream, " five").await;
}

/// A call of gRPC over HTTP/2, of which this body comes. What the proxy of a gate for one sends to
/// the upstream is read until `end`, if the proxy sends anything.
async fn call(
    route: Route,
    body: impl Stream<Item = Frame<Bytes>> + Send + 'static,
    end: &str,
) -> Option<String> {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let mut options = options(listener.local_addr().unwrap());
    options.routes = Routes::new(vec![route]);
    let front = tamarisk_protect::start(options).await.unwrap();
    let address = front.local_addr();
    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{address}/"));
    let request = request.header("content-type", "application/grpc+proto");
    let body = StreamBody::new(body.map(Ok::<_, Infallible>));
    let request = request.body(Box::pin(body)).unwrap();
    let asked = tokio::spawn(async move { client.send_request(request).await.map(drop) });
    let accepted = timeout(SOON, listener.accept()).await;
    let sent = match accepted {
        Ok(accepted) => Some(read_until(&mut accepted.unwrap().0, end).await),
        Err(_) => {
            assert_eq!(front.gates()[0].observe().total().offered, 0);
            None
        }
    };
    asked.abort();
    sent
}

fn four() -> Frame<Bytes> {
    Frame::data(Bytes::from("four"))
}

#[tokio::test]
async fn a_body_that_calls_itself_grpc_is_buffered_as_others_are() {
    let endless = stream::iter([four()]).chain(stream::pending());
    assert_eq!(call(Route::everything(0), endless, "four").await, None);
    // A unary call has all of its body at once.
    let sent = call(Route::everything(0), stream::iter([four()]), "four").await.unwrap();
    assert!(sent.ends_with("content-length: 4\r\n\r\nfour"), "{sent}");
}

#[tokio::test]
async fn a_stream_of_grpc_is_passed_on_as_it_comes_where_its_route_says_so() {
    let request_buffering = Some(RequestBuffering::Off);
    let route = Route { request_buffering, ..Route::everything(0) };
    let endless = stream::iter([four()]).chain(stream::pending());
    let sent = call(route, endless, "four\r\n").await.unwrap();
    assert!(sent.ends_with("\r\n\r\n4\r\nfour\r\n"), "{sent}");
}
