//! Connections to the upstream: used again, stale, and lost.

use crate::support;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Recorder, axum, curl, exchange, front, options, read_until, within};
use axum::Router;
use axum::http::header;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

#[tokio::test]
async fn kept_connections_are_used_again() {
    let upstream = Recorder::ok().await;
    let front = front(upstream.address).await;
    for _ in 0..5 {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert!(exchange(front.local_addr(), request).await.ends_with("ok"));
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_that_the_upstream_wants_closed_is_not_used_again() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let upstream = Recorder::start("\r\n\r\n", answer).await;
    let front = front(upstream.address).await;
    for _ in 0..3 {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert!(exchange(front.local_addr(), request).await.ends_with("ok"));
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 3);
}

/// An upstream that answers once on each connection and closes it, without
/// saying so, when the next request comes.
async fn forgetful() -> (std::net::SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let requests = Arc::clone(&counted);
            tokio::spawn(async move {
                read_until(&mut socket, "\r\n\r\n").await;
                requests.fetch_add(1, Ordering::SeqCst);
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
                let _ = socket.read_u8().await;
            });
        }
    });
    (address, requests)
}

#[tokio::test]
async fn a_stale_connection_costs_a_get_nothing() {
    let (upstream, requests) = forgetful().await;
    let front = front(upstream).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(read_until(&mut client, "\r\n\r\nok").await.starts_with("HTTP/1.1 200"));
    }
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_post_is_never_sent_twice() {
    let (upstream, requests) = forgetful().await;
    let front = front(upstream).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    client.write_all(post).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\nok").await.starts_with("HTTP/1.1 200"));
    client.write_all(post).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 502"));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_upstream_that_closes_idle_connections_loses_no_post() {
    let router =
        Router::new().route("/", post(|| async { ([(header::CONNECTION, "close")], "ok") }));
    let front = front(axum(router).await).await;
    for _ in 0..3 {
        let answer = curl(&["-d", "x", &format!("http://{}/", front.local_addr())]).await;
        assert_eq!(answer, "ok");
    }
}

#[tokio::test]
async fn an_upstream_that_works_for_nobody_is_told_after_the_answer_time() {
    let (gone, mut told) = mpsc::unbounded_channel();
    struct OnDrop(mpsc::UnboundedSender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (started, mut starts) = mpsc::unbounded_channel();
    let router = Router::new().route(
        "/",
        get(async move || {
            let _guard = OnDrop(gone);
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        }),
    );
    let mut options = options(axum(router).await);
    options.upstreams[0].answer_time = Duration::from_millis(200);
    let front = tamarisk_protect::start(options).await.unwrap();
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    within(starts.recv()).await.unwrap();
    assert_eq!(front.gates()[0].observe().total().running, 1);
    drop(client);
    within(told.recv()).await.unwrap();
    let left = async {
        while front.gates()[0].observe().total().inside() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(left).await;
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.abandoned, accounts.inside()), (1, 0));
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_502() {
    let closed = std::net::TcpListener::bind(support::any_port()).unwrap().local_addr().unwrap();
    let front = front(closed).await;
    let url = format!("http://{}/", front.local_addr());
    let answer = curl(&["-i", &url]).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let answer = curl(&["-H", "Accept: application/json", &url]).await;
    let json: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&json["status"], &json["error"]), (&502.into(), &"unreachable".into()));
    assert_eq!(front.gates()[0].observe().total().failed, 2);
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_504() {
    let upstream = Recorder::start("never", "").await;
    let mut options = options(upstream.address);
    options.upstreams[0].answer_time = Duration::from_millis(50);
    let front = tamarisk_protect::start(options).await.unwrap();
    let url = format!("http://{}/", front.local_addr());
    assert!(curl(&["-i", &url]).await.starts_with("HTTP/1.1 504"));
    assert_eq!(front.gates()[0].observe().total().failed, 1);
}

#[tokio::test]
async fn a_clients_own_deadline_is_504_and_no_failure_of_the_service() {
    let upstream = Recorder::start("never", "").await;
    let mut options = options(upstream.address);
    options.upstreams[0].answer_time = Duration::from_secs(1);
    let front = tamarisk_protect::start(options).await.unwrap();
    let url = format!("http://{}/", front.local_addr());
    let answer = curl(&["-i", "-H", "X-Request-Timeout: 50ms", &url]).await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    assert!(answer.contains("deadline"), "{answer}");
    let accounts = || front.gates()[0].observe().total();
    // The upstream is given its time.
    assert_eq!((accounts().running, accounts().failed), (1, 0));
    let ended = async {
        while accounts().running == 1 {
            tokio::task::yield_now().await;
        }
    };
    within(ended).await;
    assert_eq!((accounts().terminated, accounts().failed), (1, 0));
}

#[tokio::test]
async fn an_upstream_that_talks_nonsense_is_502() {
    for answer in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let upstream = Recorder::start("\r\n\r\n", answer).await;
        let front = front(upstream.address).await;
        let url = format!("http://{}/", front.local_addr());
        let seen = curl(&["-i", &url]).await;
        assert!(seen.starts_with("HTTP/1.1 502"), "{answer:?} gave {seen:?}");
        assert_eq!(front.gates()[0].observe().total().failed, 1);
    }
}

/// What the client gets of an upstream that sends so many interim answers before its own.
async fn after_interim_answers(count: usize) -> String {
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let front = front(listener.local_addr().unwrap()).await;
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_until(&mut socket, "\r\n\r\n").await;
        for _ in 0..count {
            if socket.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").await.is_err() {
                return;
            }
        }
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok.";
        let _ = socket.write_all(answer).await;
    });
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    exchange(front.local_addr(), request).await
}

#[tokio::test]
async fn an_upstream_that_sends_interim_answers_without_end_is_502() {
    let answer = after_interim_answers(64).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok."), "{answer}");
    let answer = after_interim_answers(usize::MAX).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_never_looks_complete() {
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let front = front(listener.local_addr().unwrap()).await;
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_until(&mut socket, "\r\n\r\n").await;
        socket
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
            .await
            .unwrap();
    });
    let answer = exchange(front.local_addr(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(!answer.contains("0\r\n\r\n"), "{answer}");
    assert_eq!(front.gates()[0].observe().total().failed, 1);
}
