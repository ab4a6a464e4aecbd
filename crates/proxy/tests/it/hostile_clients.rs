//! Clients that hold, drip, break off and flood, as raw sockets: whatever they do, good
//! clients are served through the one place that there is, and the accounts balance.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_FLAGS, PING, RawHttp2, head,
};
use crate::support::{OneByOne, axum, exchange, proxy, read_until, streaming_proxy, within};
use axum::Router;
use axum::body::Bytes;
use axum::routing::{any, get};
use tamarisk_server::DrainTrigger;
use tamarisk_stage::{Accounts, Gate, StageBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// As many as one connection may have at once.
const STREAMS: u32 = 100;

/// Longer than any window that is given here.
const LONG: usize = 300_000;

const ENHANCE_YOUR_CALM: u32 = 11;
const FLOW_CONTROL_ERROR: u32 = 3;

/// One place before an upstream that counts how often it is asked for what is slow.
struct Front {
    gate: Gate,
    address: SocketAddr,
    asked: Arc<AtomicU32>,
    _drain: DrainTrigger,
}

impl Front {
    /// Of both kinds: bodies are buffered, and passed on as they come.
    async fn both() -> [Self; 2] {
        [Self::start(true).await, Self::start(false).await]
    }

    async fn start(buffered: bool) -> Self {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let slow = async move || {
            counted.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(5)).await;
        };
        let router = Router::new()
            .route("/", get(async || "ok."))
            .route("/long", get(async || vec![b'x'; LONG]))
            .route("/slow", get(slow))
            .route("/read", any(async |body: Bytes| body.len().to_string()));
        let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
        let upstream = axum(router).await;
        let (address, drain) = match buffered {
            true => proxy(upstream, &gate).await,
            false => streaming_proxy(upstream, &gate).await,
        };
        Self { gate, address, asked, _drain: drain }
    }

    async fn serves_good_clients(&self) {
        for _ in 0..10 {
            let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let answer = exchange(self.address, request).await;
            assert!(answer.ends_with("ok."), "{answer}");
        }
    }

    /// Nobody is inside any more, and everybody had an outcome.
    async fn settles(&self) -> Accounts {
        within(async {
            while self.gate.observe().total().inside() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let accounts = self.gate.observe().total();
        assert!(accounts.balance(), "{accounts:?}");
        accounts
    }
}

/// The numbers of the streams that a client opens.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

#[tokio::test]
async fn windows_that_open_by_one_byte_hold_no_place() {
    let front = Front::start(true).await;
    let mut client = RawHttp2::connect(front.address, 0).await;
    for stream in streams(STREAMS) {
        assert!(client.get(stream, "/long").await);
    }
    let dripping = tokio::spawn(async move {
        loop {
            for stream in streams(STREAMS) {
                if !client.allow(stream, 1).await {
                    return;
                }
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    front.serves_good_clients().await;
    assert_eq!(front.settles().await.completed, u64::from(STREAMS) + 10);
    assert!(!dripping.is_finished());
    dripping.abort();
}

#[tokio::test]
async fn a_window_that_is_taken_back_holds_no_place() {
    let front = Front::start(true).await;
    let mut client = RawHttp2::connect(front.address, 50_000).await;
    for stream in streams(STREAMS) {
        assert!(client.get(stream, "/long").await);
    }
    client.window_of_streams(0).await;
    front.serves_good_clients().await;
    front.settles().await;
    // What is allowed later is sent in full.
    client.allow(0, 1 << 30).await;
    client.window_of_streams(1 << 20).await;
    let last = streams(STREAMS).last().unwrap();
    assert_eq!(client.answer(last).await, (Some(200), LONG));
}

#[tokio::test]
async fn a_window_that_overflows_ends_its_connection_only() {
    let front = Front::start(true).await;
    let mut client = RawHttp2::connect(front.address, 0).await;
    client.get(1, "/long").await;
    client.allow(0, i32::MAX as u32).await;
    assert_eq!(client.closed().await, Some(FLOW_CONTROL_ERROR));
    front.serves_good_clients().await;
    front.settles().await;
}

#[tokio::test]
async fn a_length_without_data_holds_no_place() {
    // Passed on as they come, such requests are open at the upstream and do hold a place.
    let front = Front::start(true).await;
    let mut client = RawHttp2::connect(front.address, 1 << 16).await;
    for stream in streams(STREAMS) {
        assert!(client.post(stream, "/read", &[("content-length", "10")]).await);
    }
    front.serves_good_clients().await;
    // One that goes on after all is answered, whatever the others do.
    client.frame(DATA, END_STREAM, 1, b"ten bytes.").await;
    assert_eq!(client.answer(1).await, (Some(200), 2));
    drop(client);
    front.settles().await;
}

#[tokio::test]
async fn data_of_one_byte_holds_no_place() {
    for front in Front::both().await {
        let mut client = RawHttp2::connect(front.address, 1 << 16).await;
        for stream in streams(STREAMS) {
            assert!(client.post(stream, "/read", &[]).await);
        }
        let dripping = tokio::spawn(async move {
            loop {
                for stream in streams(STREAMS) {
                    if !client.frame(DATA, NO_FLAGS, stream, b"x").await {
                        return;
                    }
                }
                // Far more often, and the server closes the connection.
                sleep(Duration::from_millis(100)).await;
            }
        });
        front.serves_good_clients().await;
        // Not because the connection was closed.
        let accounts = front.gate.observe().total();
        assert_eq!((accounts.dropped, accounts.terminated), (0, 0), "{accounts:?}");
        dripping.abort();
        front.settles().await;
    }
}

#[tokio::test]
async fn a_flood_of_empty_data_is_no_request() {
    for front in Front::both().await {
        let mut client = RawHttp2::connect(front.address, 1 << 16).await;
        assert!(client.post(1, "/read", &[]).await);
        let flooding = tokio::spawn(async move {
            for _ in 0..100_000 {
                if !client.frame(DATA, NO_FLAGS, 1, &[]).await {
                    break;
                }
            }
            client
        });
        front.serves_good_clients().await;
        drop(flooding.await.unwrap());
        front.settles().await;
    }
}

#[tokio::test]
async fn a_length_that_data_does_not_keep_is_a_broken_request() {
    for (sent, said) in [(&b"more than four"[..], "4"), (b"less", "14")] {
        for front in Front::both().await {
            let mut client = RawHttp2::connect(front.address, 1 << 16).await;
            client.post(1, "/read", &[("content-length", said)]).await;
            client.frame(DATA, END_STREAM, 1, sent).await;
            let (status, _) = client.answer(1).await;
            assert!(matches!(status, None | Some(400)), "{status:?}");
            // The connection is good for the next.
            client.get(3, "/").await;
            assert_eq!(client.answer(3).await, (Some(200), 3));
            front.settles().await;
        }
    }
}

#[tokio::test]
async fn who_opens_and_resets_gets_no_work_out_of_it() {
    for front in Front::both().await {
        let mut client = RawHttp2::connect(front.address, 1 << 16).await;
        let flooding = tokio::spawn(async move {
            for stream in streams(100_000) {
                if !client.get(stream, "/slow").await || !client.reset(stream).await {
                    break;
                }
            }
            client.closed().await
        });
        front.serves_good_clients().await;
        let code = flooding.await.unwrap();
        assert!(matches!(code, Some(ENHANCE_YOUR_CALM) | None), "{code:?}");
        front.settles().await;
        let asked = front.asked.load(Ordering::SeqCst);
        assert!(asked < 2 * STREAMS, "the upstream was asked {asked} times");
    }
}

#[tokio::test]
async fn those_who_close_in_the_midst_of_everything_leave_nothing_behind() {
    for front in Front::both().await {
        for _ in 0..5 {
            let mut client = RawHttp2::connect(front.address, 0).await;
            for stream in streams(STREAMS) {
                match stream % 3 {
                    0 => client.get(stream, "/long").await,
                    1 => client.get(stream, "/slow").await,
                    _ => client.post(stream, "/read", &[("content-length", "10")]).await,
                };
            }
            within(async {
                while front.gate.observe().total().running == 0 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            drop(client);
        }
        front.serves_good_clients().await;
        front.settles().await;
    }
}

#[tokio::test]
async fn a_head_without_end_is_ended() {
    let front = Front::start(true).await;
    let mut client = RawHttp2::connect(front.address, 1 << 16).await;
    client.frame(HEADERS, END_STREAM, 1, &head("GET", "/", &[])).await;
    let field = head("GET", "/", &[("x", "y")])[head("GET", "/", &[]).len()..].repeat(500);
    let mut sent = 0;
    while sent < 100 << 20 && client.frame(CONTINUATION, NO_FLAGS, 1, &field).await {
        sent += field.len();
    }
    assert!(sent < 10 << 20, "{sent} bytes of one head");
    front.serves_good_clients().await;
    assert_eq!(front.settles().await.offered, 10);
}

#[tokio::test]
async fn floods_of_pings_and_settings_delay_nobody_else() {
    let front = Front::start(true).await;
    let mut client = RawHttp2::connect(front.address, 1 << 16).await;
    let flooding = tokio::spawn(async move {
        // Their answers are never read.
        for _ in 0..100_000 {
            let sent = client.frame(PING, NO_FLAGS, 0, b"8 bytes.").await;
            client.window_of_streams(1 << 16).await;
            if !sent {
                break;
            }
        }
    });
    front.serves_good_clients().await;
    flooding.abort();
    front.settles().await;
}

#[tokio::test]
async fn frames_of_streams_that_are_not_there_do_no_harm() {
    for (kind, payload) in
        [(DATA, &b"x"[..]), (HEADERS, b"\xff"), (GOAWAY, b"\0\0\0\0\0\0\0\0"), (99, b"")]
    {
        let front = Front::start(true).await;
        let mut client = RawHttp2::connect(front.address, 1 << 16).await;
        for stream in streams(10) {
            client.frame(kind, END_HEADERS, stream, payload).await;
        }
        drop(client);
        front.serves_good_clients().await;
        assert_eq!(front.settles().await.offered, 10);
    }
}

#[tokio::test]
async fn chunks_that_trickle_hold_no_place() {
    // Passed on as they come, such requests are open at the upstream and do hold a place.
    let front = Front::start(true).await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = TcpStream::connect(front.address).await.unwrap();
        let head = "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        clients.push(client);
    }
    let (most, rest) = b"4\r\nfour\r\n0\r\n\r\n".split_at(6);
    let trickle = async {
        for byte in most.chunks(1) {
            for client in &mut clients {
                client.write_all(byte).await.unwrap();
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(trickle, front.serves_good_clients());
    for client in &mut clients {
        client.write_all(rest).await.unwrap();
    }
    for mut client in clients {
        let answer = read_until(&mut client, "\r\n\r\n4").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    front.settles().await;
}

#[tokio::test]
async fn those_who_shut_their_sending_side_after_the_request_hold_no_place() {
    for front in Front::both().await {
        let mut clients = Vec::new();
        for _ in 0..40 {
            let mut client = TcpStream::connect(front.address).await.unwrap();
            client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            client.shutdown().await.unwrap();
            clients.push(client);
        }
        front.serves_good_clients().await;
        for mut client in clients {
            // They are answered, or count as gone: both end.
            let _ = within(client.read_to_end(&mut Vec::new())).await;
        }
        front.settles().await;
    }
}
