//! A client that leaves gives up its place, whatever it still owed.
//!
//! Request bodies are streamed here: buffered ones are owed by nobody who is in the queue.

use crate::support;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{OneByOne, axum, read_until, streaming_proxy, within};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::any;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use parking_lot::Mutex;
use socket2::SockRef;
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tamarisk_stage::{Gate, StageBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{advance, pause, resume, timeout};

/// "Promptly": well within the time in which people notice.
const PROMPTLY: Duration = Duration::from_secs(1);

const NO_BODY: &str = "GET /none HTTP/1.1\r\nHost: a\r\n\r\n";

/// Requests whose bodies are not read while they queue, in the parts in which they are sent.
const OWING: &[(&str, &[&str])] = &[
    ("nothing of the body", &["POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"]),
    ("a part of it", &["POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour"]),
    ("a later part", &["POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "four"]),
    ("two parts", &["POST /d HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour", "four"]),
    (
        "all of it, unread",
        &["POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour", "final"],
    ),
    (
        "a chunk",
        &["POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n"],
    ),
    (
        "all chunks, read ahead",
        &[
            "POST /g HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n",
        ],
    ),
    (
        "a body to be asked for",
        &["POST /h HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"],
    ),
];

#[derive(Clone, Copy, Debug)]
enum Disconnect {
    /// It closes its connection.
    Close,
    /// It closes its sending side.
    HalfClose,
    /// It resets the connection.
    Reset,
}

impl Disconnect {
    async fn of(self, mut client: TcpStream) {
        match self {
            Self::Close => {}
            Self::HalfClose => {
                client.shutdown().await.unwrap();
                let mut answer = Vec::new();
                let _ = within(client.read_to_end(&mut answer)).await;
                assert_eq!(String::from_utf8_lossy(&answer), "");
            }
            Self::Reset => client.set_zero_linger().unwrap(),
        }
    }
}

/// A proxy whose gate lets one request in at a time, and one that holds this place.
struct Busy {
    gate: Gate,
    address: SocketAddr,
    /// How many requests the upstream may answer.
    release: Arc<Semaphore>,
    /// The paths that it was asked for.
    asked: Arc<Mutex<Vec<String>>>,
    first: TcpStream,
    _drain: DrainTrigger,
}

impl Busy {
    async fn start() -> Self {
        let (release, asked) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (held, noted) = (Arc::clone(&release), Arc::clone(&asked));
        let router = Router::new().fallback(any(async move |request: Request| {
            noted.lock().push(request.uri().path().to_owned());
            held.acquire().await.unwrap().forget();
            let body = request.into_body().collect().await;
            format!("{} bytes.", body.map_or(0, |body| body.to_bytes().len()))
        }));
        let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
        let (address, drain) = streaming_proxy(axum(router).await, &gate).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        first.write_all(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        within(holds(&gate, 1)).await;
        Self { gate, address, release, asked, first, _drain: drain }
    }

    /// A client whose request joins the queue, of so many inside, with its first part.
    async fn queues(&self, parts: &[&str], inside: u64) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.set_nodelay(true).unwrap();
        client.write_all(parts[0].as_bytes()).await.unwrap();
        within(holds(&self.gate, inside)).await;
        for part in &parts[1..] {
            client.write_all(part.as_bytes()).await.unwrap();
            settle().await;
        }
        client
    }

    /// Lets the upstream answer, and says what it was asked in all.
    async fn ends(mut self) -> Vec<String> {
        self.release.add_permits(1000);
        assert!(read_until(&mut self.first, "0 bytes.").await.starts_with("HTTP/1.1 200"));
        within(holds(&self.gate, 0)).await;
        let accounts = self.gate.observe().total();
        assert!(accounts.balance(), "{accounts:?}");
        std::mem::take(&mut self.asked.lock())
    }
}

/// Until so many requests are inside.
async fn holds(gate: &Gate, count: u64) {
    while gate.observe().total().inside() != count {
        tokio::task::yield_now().await;
    }
}

/// Everyone does what can be done at once.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Far longer than it takes to notice a disconnect.
async fn a_while_passes() {
    pause();
    for _ in 0..10 {
        advance(PROMPTLY / 10).await;
        settle().await;
    }
    resume();
}

async fn give_up_their_places(disconnect: Disconnect) {
    let busy = Busy::start().await;
    for (owed, parts) in OWING.iter().chain(&[("no body", &[NO_BODY][..])]) {
        let client = busy.queues(parts, 2).await;
        let left = tokio::spawn(disconnect.of(client));
        let noticed = timeout(PROMPTLY, holds(&busy.gate, 1)).await;
        assert!(noticed.is_ok(), "{disconnect:?}, {owed}: {:?}", busy.gate.observe().total());
        left.await.unwrap();
    }
    let accounts = busy.gate.observe().total();
    assert_eq!((accounts.abandoned, accounts.inside()), (OWING.len() as u64 + 1, 1));
    assert_eq!(busy.ends().await, ["/first"]);
}

#[tokio::test]
async fn those_who_close_give_up_their_places() {
    give_up_their_places(Disconnect::Close).await;
}

#[tokio::test]
async fn those_who_half_close_give_up_their_places() {
    give_up_their_places(Disconnect::HalfClose).await;
}

#[tokio::test]
async fn those_who_reset_give_up_their_places() {
    give_up_their_places(Disconnect::Reset).await;
}

#[tokio::test]
async fn who_leaves_after_a_long_wait_is_noticed_as_well() {
    let busy = Busy::start().await;
    for (owed, parts) in OWING {
        let client = busy.queues(parts, 2).await;
        a_while_passes().await;
        assert_eq!(busy.gate.observe().total().inside(), 2, "{owed}");
        drop(client);
        assert!(timeout(PROMPTLY, holds(&busy.gate, 1)).await.is_ok(), "{owed}");
    }
    assert_eq!(busy.ends().await, ["/first"]);
}

#[tokio::test]
async fn the_next_in_the_queue_gets_the_place() {
    let busy = Busy::start().await;
    let leaves = busy.queues(OWING[1].1, 2).await;
    let mut next = busy.queues(&[NO_BODY], 3).await;
    drop(leaves);
    timeout(PROMPTLY, holds(&busy.gate, 2)).await.unwrap();
    busy.release.add_permits(2);
    assert!(read_until(&mut next, "0 bytes.").await.starts_with("HTTP/1.1 200"));
    assert_eq!(busy.ends().await, ["/first", "/none"]);
}

#[tokio::test]
async fn who_has_sent_all_and_stays_is_answered() {
    let busy = Busy::start().await;
    let body = "x".repeat(50_000);
    let length = body.len();
    let head = format!("POST /all HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    // The request behind it is read ahead with the end of the body, or waits in the socket.
    let mut client = busy.queues(&[&head, &body, NO_BODY], 2).await;
    a_while_passes().await;
    busy.release.add_permits(4);
    for bytes in [length, 0] {
        let answer = read_until(&mut client, &format!("{bytes} bytes.")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    client.write_all(NO_BODY.as_bytes()).await.unwrap();
    read_until(&mut client, "0 bytes.").await;
    drop(client);
    assert_eq!(busy.ends().await, ["/first", "/all", "/none", "/none"]);
}

#[tokio::test]
async fn who_dribbles_has_not_left() {
    let busy = Busy::start().await;
    let mut client = busy.queues(OWING[0].1, 2).await;
    for byte in b"dribbles".chunks(1) {
        client.write_all(byte).await.unwrap();
        // Neither has who has something urgent to say, which is not a part of the body.
        SockRef::from(&client).send_out_of_band(b"!").unwrap();
        a_while_passes().await;
        assert_eq!(busy.gate.observe().total().inside(), 2);
    }
    client.write_all(b"s").await.unwrap();
    busy.release.add_permits(2);
    assert!(read_until(&mut client, "9 bytes.").await.starts_with("HTTP/1.1 200"));
    drop(client);
    assert_eq!(busy.ends().await, ["/first", "/a"]);
}

#[tokio::test]
async fn who_waits_to_be_asked_for_the_body_is_asked() {
    let busy = Busy::start().await;
    let mut client = busy.queues(OWING[7].1, 2).await;
    a_while_passes().await;
    busy.release.add_permits(2);
    read_until(&mut client, "HTTP/1.1 100 Continue\r\n\r\n").await;
    client.write_all(b"the body.").await.unwrap();
    assert!(read_until(&mut client, "9 bytes.").await.starts_with("HTTP/1.1 200"));
    drop(client);
    assert_eq!(busy.ends().await, ["/first", "/h"]);
}

#[tokio::test]
async fn who_breaks_off_a_body_that_is_passed_on_is_told() {
    let busy = Busy::start().await;
    busy.release.add_permits(100);
    for (owed, parts) in &OWING[..4] {
        let mut client = TcpStream::connect(busy.address).await.unwrap();
        client.write_all(parts.concat().as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let answer = read_until(&mut client, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{owed}: {answer}");
    }
}

#[tokio::test]
async fn an_answer_that_has_begun_is_brought_to_its_end() {
    let release = Arc::new(Semaphore::new(0));
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_trigger, drain) = DrainTrigger::new();
    let answer = {
        let release = Arc::clone(&release);
        // The body is kept and never read.
        move |request: http::Request<ClientBody>| {
            let release = Arc::clone(&release);
            let end = futures_util::stream::once(async move {
                release.acquire().await.unwrap().forget();
                drop(request);
                Ok::<_, Infallible>("the end")
            });
            std::future::ready(Ok::<_, Infallible>(http::Response::new(Body::from_stream(end))))
        }
    };
    tokio::spawn(async move {
        Server::default()
            .serve(listener, |_| WithoutFastPath(service_fn(answer.clone())), drain)
            .await
    });
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(OWING[3].1.concat().as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    a_while_passes().await;
    release.add_permits(1);
    read_until(&mut client, "the end").await;
}

#[tokio::test]
async fn who_leaves_an_upload_that_is_stuck_cancels_it() {
    let deaf = TcpListener::bind(support::any_port()).await.unwrap();
    let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
    let (address, _drain) = streaming_proxy(deaf.local_addr().unwrap(), &gate).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n";
    client.write_all(head).await.unwrap();
    let (_upstream, _) = within(deaf.accept()).await.unwrap();
    let more = vec![b'x'; 64 * 1024];
    while timeout(PROMPTLY / 5, client.write(&more)).await.is_ok() {}
    assert_eq!(gate.observe().total().running, 1);
    client.set_zero_linger().unwrap();
    drop(client);
    timeout(PROMPTLY, holds(&gate, 0)).await.unwrap();
    let accounts = gate.observe().total();
    assert!(accounts.abandoned == 1 && accounts.balance(), "{accounts:?}");
}
