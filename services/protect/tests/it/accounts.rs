//! Whatever clients do, every request has one outcome and every permit comes back.

use crate::support;
use std::time::Duration;

use crate::support::{OneByOne, axum, curl, exchange, front, proxy, read_until, within};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tamarisk_stage::StageBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_rejection_is_503_with_retry_after_and_costs_the_upstream_nothing() {
    let upstream = support::Recorder::ok().await;
    let front = front(upstream.address).await;
    let url = format!("http://{}/", front.local_addr());
    // Nothing can be answered in no time.
    let answer = curl(&["-i", "-H", "X-Request-Timeout: 0", &url]).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    let (_, id) = head.split_once("x-request-id: ").unwrap();
    let id = id.lines().next().unwrap();
    let reason = "503: too busy to answer in time; try again in 1 s (predicted_late";
    assert_eq!(text, format!("{reason}, request {id})\n"));
    let json = curl(&["-H", "X-Request-Timeout: 0", "-H", "Accept: application/json", &url]).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["error"], "predicted_late");
    assert_eq!(upstream.heard().await, "");
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.offered, accounts.rejected), (2, 2));
}

#[tokio::test]
async fn a_connection_survives_rejections() {
    let upstream = support::Recorder::ok().await;
    let front = front(upstream.address).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    let late = "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout: 0\r\n\r\n";
    let usual = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(format!("{late}{usual}{late}{usual}").as_bytes()).await.unwrap();
    for _ in 0..2 {
        assert!(read_until(&mut client, ")\n").await.starts_with("HTTP/1.1 503"));
        assert!(read_until(&mut client, "\r\n\r\nok").await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn a_gate_that_closes_answers_those_in_its_queue() {
    let silent = support::Recorder::start("never", "").await;
    let gate = StageBuilder::new("closing").law(OneByOne).gate().unwrap();
    let (address, _drain) = proxy(silent.address, &gate).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(request.as_bytes()).await.unwrap();
    let second = tokio::spawn(exchange(address, request));
    let both = async {
        while gate.observe().total().inside() != 2 {
            tokio::task::yield_now().await;
        }
    };
    within(both).await;
    gate.close();
    let answer = within(second).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("shut down"), "{answer}");
}

/// What a badly behaved client does; the same seed does the same.
async fn misbehave(address: std::net::SocketAddr, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let Ok(mut socket) = TcpStream::connect(address).await else { return };
    for _ in 0..random.random_range(1..5) {
        let body = "x".repeat(random.random_range(0..5000));
        let path = ["/", "/slow", "/fail", "/big", "/ignore"][random.random_range(0..5)];
        let timeout = ["", "X-Request-Timeout: 5ms\r\n", "X-Request-Timeout: 0\r\n"]
            [random.random_range(0..3)];
        let length = body.len();
        let request = match random.random_range(0..7) {
            0 => format!("GET {path} HTTP/1.1\r\nHost: a\r\n{timeout}\r\n"),
            1 => format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\n{timeout}Content-Length: {length}\r\n\r\n{body}"
            ),
            2 => format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
            ),
            3 => format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}XX"
            ),
            4 => format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
            ),
            5 => format!(
                "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
            ),
            _ => "GET / HTTP/1.1\r\nHost : a\r\n\r\n".to_owned(),
        };
        let sent = random.random_range(1..=request.len());
        let whole = random.random_bool(0.7);
        let bytes = &request.as_bytes()[..if whole { request.len() } else { sent }];
        if socket.write_all(bytes).await.is_err() {
            return;
        }
        let mut some = vec![0; random.random_range(1..20_000)];
        match random.random_range(0..4) {
            0 => return,
            1 => drop(socket.shutdown().await),
            _ => {}
        }
        let patience = Duration::from_millis(random.random_range(1..30));
        let _ = tokio::time::timeout(patience, socket.read(&mut some)).await;
    }
}

#[tokio::test]
async fn no_misbehaviour_leaks_a_permit_or_loses_an_outcome() {
    let router = Router::new()
        .route("/", any(|body: String| async move { body.len().to_string() }))
        .route("/slow", any(|| async { tokio::time::sleep(Duration::from_millis(10)).await }))
        .route("/fail", any(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
        .route("/big", any(|| async { vec![0_u8; 1_000_000] }))
        .route("/ignore", any(|| async { StatusCode::PAYLOAD_TOO_LARGE }));
    let front = front(axum(router).await).await;
    // All at once they would be an overload, in which few are served before they leave.
    for wave in 0..10 {
        let seeds = 100 * wave..100 * (wave + 1);
        within(join_all(seeds.map(|seed| misbehave(front.local_addr(), seed)))).await;
    }
    let settled = async {
        while front.connections() > 0 || front.gates()[0].observe().total().inside() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(settled).await;
    let accounts = front.gates()[0].observe().total();
    assert!(accounts.balance(), "{accounts:?}");
    assert!(
        accounts.completed > 20 && accounts.abandoned > 5 && accounts.failed > 5,
        "{accounts:?}"
    );
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(exchange(front.local_addr(), request).await.starts_with("HTTP/1.1 200"));
    assert_eq!(within(front.shutdown(support::PATIENCE)).await, 0);
}
