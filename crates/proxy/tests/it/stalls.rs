//! Upstreams that stop within their answers.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{OneByOne, any_port, proxy, read_until, within};
use tamarisk_server::DrainTrigger;
use tamarisk_stage::{Accounts, Gate, StageBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{advance, pause, resume};

/// An upstream whose every step the test takes, behind a gate for one request at a time.
struct Manual {
    listener: TcpListener,
    gate: Gate,
    address: SocketAddr,
    _drain: DrainTrigger,
}

impl Manual {
    async fn start() -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
        let (address, drain) = proxy(listener.local_addr().unwrap(), &gate).await;
        Self { listener, gate, address, _drain: drain }
    }

    /// A client whose request has been answered with `answer` so far, and the upstream's connection.
    async fn answered(&self, answer: &[u8]) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let (mut upstream, _) = within(self.listener.accept()).await.unwrap();
        read_until(&mut upstream, "\r\n\r\n").await;
        upstream.write_all(answer).await.unwrap();
        read_until(&mut client, "\r\n\r\n").await;
        (client, upstream)
    }

    async fn until(&self, holds: impl Fn(&Accounts) -> bool) {
        within(async {
            while !holds(&self.gate.observe().total()) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(self.gate.observe().total().balance());
    }
}

async fn passes(seconds: u64) {
    pause();
    advance(Duration::from_secs(seconds)).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    resume();
}

/// Whether the client's connection is closed before the end of the answer; what came before.
async fn broken_off(mut client: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // It may end in a reset.
    let _ = client.read_to_end(&mut rest).await;
    rest
}

#[tokio::test]
async fn an_answer_that_stops_has_failed_after_a_minute_and_has_no_place_before() {
    let manual = Manual::start().await;
    let (client, _upstream) =
        manual.answered(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").await;
    manual.until(|accounts| accounts.running == 1).await;
    passes(6).await;
    manual.until(|accounts| (accounts.running, accounts.suspended) == (0, 1)).await;
    let (mut other, _) = manual.answered(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.").await;
    read_until(&mut other, "ok.").await;
    passes(53).await;
    manual.until(|accounts| (accounts.completed, accounts.suspended) == (1, 1)).await;
    passes(2).await;
    manual.until(|accounts| (accounts.failed, accounts.inside()) == (1, 0)).await;
    let why = manual.gate.observe().last_failure;
    assert_eq!(why.as_deref(), Some("stopped within its answer"));
    assert_eq!(within(broken_off(client)).await, b"abc");
}

#[tokio::test]
async fn an_answer_that_goes_on_before_a_minute_is_completed() {
    let manual = Manual::start().await;
    let (mut client, mut upstream) =
        manual.answered(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na").await;
    for byte in [b"b", b"c"] {
        manual.until(|accounts| accounts.inside() == 1).await;
        passes(59).await;
        upstream.write_all(byte).await.unwrap();
        read_until(&mut client, std::str::from_utf8(byte).unwrap()).await;
    }
    manual.until(|accounts| (accounts.completed, accounts.inside()) == (1, 0)).await;
}

#[tokio::test]
async fn the_rest_of_a_long_answer_is_waited_for_no_longer() {
    let manual = Manual::start().await;
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    let (client, _upstream) = manual.answered(&[&head[..], &[b'x'; 200_000]].concat()).await;
    manual.until(|accounts| (accounts.completed, accounts.inside()) == (1, 0)).await;
    let reading = tokio::spawn(broken_off(client));
    tokio::time::sleep(Duration::from_millis(100)).await;
    passes(61).await;
    assert_eq!(within(reading).await.unwrap().len(), 200_000);
}

#[tokio::test]
async fn a_stream_may_be_silent_for_longer() {
    for kind in ["text/event-stream", "application/grpc"] {
        let manual = Manual::start().await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\none");
        let (mut client, mut upstream) = manual.answered(head.as_bytes()).await;
        read_until(&mut client, "one").await;
        for _ in 0..3 {
            manual.until(|accounts| accounts.inside() == 1).await;
            passes(61).await;
        }
        upstream.write_all(b"two").await.unwrap();
        read_until(&mut client, "two").await;
        drop(upstream);
        manual.until(|accounts| (accounts.completed, accounts.inside()) == (1, 0)).await;
    }
}
