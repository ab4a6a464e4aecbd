//! Malformed requests as raw bytes, through the whole proxy: the client gets its
//! status and a closed connection, and the upstream hears nothing of it.

use std::time::Duration;

use crate::support::{PATIENCE, Recorder, exchange, front, options, read_until, within};
use tamarisk_server::Server;
use tamarisk_server::guard::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HOST: &str = "Host: a\r\n";

/// Requests whose heads are rejected, and with what.
fn bad_heads() -> Vec<(u16, String)> {
    let get = |fields: &str| format!("GET /bad HTTP/1.1\r\n{fields}\r\n");
    let post = |fields: &str, body: &str| format!("POST /bad HTTP/1.1\r\n{HOST}{fields}\r\n{body}");
    vec![
        // Request lines.
        (400, "GET /bad\r\n\r\n".to_owned()),
        (400, "GET  /bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, " GET /bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET\t/bad\tHTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /bad HTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "FETCH  /bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /bad http/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /bad HTTP/1.1 x\r\nHost: a\r\n\r\n".to_owned()),
        (400, "G{T /bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /b\0d HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /bad#x HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /b\u{e4}d HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET http://u:p@a/bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET http://a:b;c/bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET http://a:99999/bad HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}".to_owned()),
        (505, "GET /bad HTTP/1.9\r\nHost: a\r\n\r\n".to_owned()),
        (505, "GET /bad HTTP/3.0\r\nHost: a\r\n\r\n".to_owned()),
        (414, format!("GET /bad{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000))),
        // Line ends and folding.
        (400, "GET /bad HTTP/1.1\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /bad HTTP/1.1\nHost: a\n\n".to_owned()),
        (400, "GET /bad HTTP/1.1\r\nHost: a\n\r\n".to_owned()),
        (400, "GET /bad HTTP/1.1\r\nHost: a\r\n\n".to_owned()),
        (400, "GET /bad HTTP/1.1\rHost: a\r\n\r\n".to_owned()),
        (400, "GET /bad HTTP/1.1\r\nHost: a\rX: b\r\n\r\n".to_owned()),
        (400, get("Host: a\r\nX: b\r\n c\r\n")),
        (400, get("Host: a\r\nX: b\r\n\tc\r\n")),
        (400, get(" Host: a\r\n")),
        // Fields.
        (400, get("Host: a\r\nX : b\r\n")),
        (400, get("Host: a\r\nX\t: b\r\n")),
        (400, get("Host: a\r\n: b\r\n")),
        (400, get("Host: a\r\nX\r\n")),
        (400, get("Host: a\r\nX(y): b\r\n")),
        (400, get("Host: a\r\nX: b\0c\r\n")),
        (400, get("Host: a\r\nX: b\u{8}c\r\n")),
        (400, get("Host: a\r\nX\0: b\r\n")),
        // Host.
        (400, get("")),
        (400, get("Host: a\r\nHost: a\r\n")),
        (400, get("Host: a\r\nHost: b\r\n")),
        (400, get("Host: a/../b\r\n")),
        (400, get("Host: a b\r\n")),
        (400, get("Host: a:80:80\r\n")),
        (400, get("Host: [::1\r\n")),
        (400, get("Host: a:b;c\r\n")),
        // Lengths.
        (400, post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd")),
        (400, post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")),
        (400, post("Content-Length: 3, 3\r\n", "abc")),
        (400, post("Content-Length: +3\r\n", "abc")),
        (400, post("Content-Length: -3\r\n", "abc")),
        (400, post("Content-Length: 0x3\r\n", "abc")),
        (400, post("Content-Length: 3 \u{b}\r\n", "abc")),
        (400, post("Content-Length: \r\n", "abc")),
        (400, post("Content-Length: 99999999999999999999\r\n", "abc")),
        (400, post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: gzip\r\n", "abc")),
        (400, post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding:\u{b}chunked\r\n", "0\r\n\r\n")),
        (400, post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")),
        (400, "POST /bad HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
        (413, post("Content-Length: 1000001\r\n", "")),
        // Sizes.
        (431, get(&format!("Host: a\r\nX: {}\r\n", "x".repeat(33_000)))),
        (431, get(&format!("Host: a\r\n{}", "X: y\r\n".repeat(100)))),
    ]
}

async fn strict_front(upstream: &Recorder) -> tamarisk_protect::Running {
    let mut options = options(upstream.address);
    options.front.server = Server::default().limits(Limits::default().body(Some(1_000_000)));
    tamarisk_protect::start(options).await.unwrap()
}

fn status(answer: &str) -> u16 {
    let code = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    code.and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

#[tokio::test]
async fn malformed_heads_get_their_status_and_nothing_of_them_is_forwarded() {
    let upstream = Recorder::ok().await;
    let front = strict_front(&upstream).await;
    let cases = bad_heads();
    assert!(cases.len() >= 40);
    for (expected, bytes) in &cases {
        let answer = exchange(front.local_addr(), bytes).await;
        assert_eq!(status(&answer), *expected, "{bytes:?} got {answer:?}");
        assert!(answer.contains("connection: close\r\n"), "{bytes:?} got {answer:?}");
    }
    assert_eq!(upstream.heard().await, "");
    assert_eq!(front.gates()[0].observe().total().offered, 0);
}

#[tokio::test]
async fn what_stood_before_a_malformed_head_is_answered_first() {
    let upstream = Recorder::ok().await;
    let front = strict_front(&upstream).await;
    for (expected, bytes) in bad_heads() {
        let good = "GET /good HTTP/1.1\r\nHost: a\r\n\r\n";
        let answer = exchange(front.local_addr(), format!("{good}{good}{bytes}")).await;
        let (first, rest) = answer.split_once("\r\n\r\nok").expect("an answer to the first");
        let (second, rejection) = rest.split_once("\r\n\r\nok").expect("an answer to the second");
        assert_eq!((status(first), status(second)), (200, 200));
        assert_eq!(status(rejection), expected, "{bytes:?}");
    }
    let heard = upstream.heard().await;
    assert!(!heard.contains("/bad"), "{heard}");
}

#[tokio::test]
async fn a_head_that_drips_in_byte_by_byte_is_judged_the_same() {
    let upstream = Recorder::ok().await;
    let front = strict_front(&upstream).await;
    let mut socket = TcpStream::connect(front.local_addr()).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for byte in b"GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\nHost : a\r\n\r\n" {
        socket.write_all(&[*byte]).await.unwrap();
    }
    assert!(read_until(&mut socket, "\r\n\r\nok").await.starts_with("HTTP/1.1 200"));
    let mut rest = String::new();
    within(socket.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(status(&rest), 400);
    assert!(!upstream.heard().await.contains("/bad"));
}

#[tokio::test]
async fn a_malformed_body_ends_its_request_with_400() {
    for body in
        ["5\r\nhello\r\nx\r\n", "5\r\nhelloX", "5 \r\nhello", "fffffffffffffffff\r\n", "5\nhello"]
    {
        let upstream =
            Recorder::start("0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let front = strict_front(&upstream).await;
        let head = format!("POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
        let answer = exchange(front.local_addr(), format!("{head}{body}")).await;
        assert_eq!(status(&answer), 400, "{body:?}");
        assert!(answer.contains("connection: close\r\n"), "{answer:?}");
        assert!(
            !upstream.heard().await.ends_with("0\r\n\r\n"),
            "the body was made to look complete"
        );
        assert!(front.gates()[0].observe().total().balance());
    }
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_gets_413() {
    let upstream =
        Recorder::start("0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let front = strict_front(&upstream).await;
    let head = format!("POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
    let answer = exchange(front.local_addr(), format!("{head}f4241\r\n")).await;
    assert_eq!(status(&answer), 413);
}

#[tokio::test]
async fn a_rejection_arrives_while_the_client_is_still_sending() {
    let upstream = Recorder::ok().await;
    let front = strict_front(&upstream).await;
    let mut socket = TcpStream::connect(front.local_addr()).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\n{HOST}Content-Length: 2000000\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(socket.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(status(&answer), 413);
    // A socket that was closed at once would answer this with a reset, which
    // can overtake the answer.
    for _ in 0..100 {
        within(socket.write_all(&[b'x'; 20_000])).await.unwrap();
    }
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_get_408() {
    let upstream =
        Recorder::start("\r\n\r\nwhole", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let mut options = options(upstream.address);
    let soon = Duration::from_millis(50);
    options.front.server =
        Server::default().limits(Limits::default().head_time(soon).stall_time(soon));
    let front = tamarisk_protect::start(options).await.unwrap();
    for part in [
        "G",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwho",
    ] {
        let answer = exchange(front.local_addr(), part).await;
        assert_eq!(status(&answer), 408, "{part:?}");
    }
    assert_eq!(exchange(front.local_addr(), "").await, "", "who says nothing is told nothing");
}

#[tokio::test]
async fn a_connection_that_idles_between_requests_is_closed() {
    let upstream = Recorder::ok().await;
    let mut options = options(upstream.address);
    options.front.server = Server::default().idle_time(Duration::from_millis(50));
    let front = tamarisk_protect::start(options).await.unwrap();
    let answer = exchange(front.local_addr(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.ends_with("\r\n\r\nok"), "{answer:?}");
}

#[tokio::test]
async fn what_speaks_another_protocol_is_closed_on_without_a_word_and_counted() {
    let upstream = Recorder::ok().await;
    let options = options(upstream.address);
    let server = options.front.server.clone();
    let front = tamarisk_protect::start(options).await.unwrap();
    for bytes in ["INVALID CONNECTION PREFACE\r\n\r\n", "EHLO a\r\n", "SSH-2.0-OpenSSH_10.0\r\n"] {
        assert_eq!(exchange(front.local_addr(), bytes).await, "", "{bytes:?}");
    }
    assert_eq!(server.rejected().malformed, 3);
    // Who spoke HTTP before is told.
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let answers = exchange(front.local_addr(), format!("{good}EHLO a\r\n\r\n")).await;
    let (first, second) = answers.split_once("\r\n\r\nok").expect("an answer to the first");
    assert_eq!((status(first), status(second)), (200, 400));
}

#[tokio::test]
async fn bytes_of_no_protocol_at_all_do_no_harm() {
    let upstream = Recorder::ok().await;
    let front = front(upstream.address).await;
    for bytes in [
        &b"\0"[..],
        b"\xff\xfe",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
    ] {
        let mut socket = TcpStream::connect(front.local_addr()).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await.unwrap();
    }
    assert_eq!(upstream.heard().await, "");
    let answer = exchange(front.local_addr(), "GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(status(&answer.replace("HTTP/1.0", "HTTP/1.1")), 200);
}
