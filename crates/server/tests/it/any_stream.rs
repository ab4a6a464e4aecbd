//! Connections over something else than a socket.

use std::convert::Infallible;
use std::time::Duration;

use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, head};
use crate::support::{PATIENCE, within};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// What an HTTP/2 client begins with: these words, and its settings, which are the usual ones.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const SECOND: Duration = Duration::from_secs(1);

async fn answer(_: Request<ClientBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from("done"))))
}

#[tokio::test]
async fn a_connection_over_memory_is_served_counted_and_drained() {
    let server = Server::default();
    let (trigger, drain) = DrainTrigger::new();
    let (mut client, stream) = duplex(1024);
    let served =
        tokio::spawn(server.serve_stream(stream, WithoutFastPath(service_fn(answer)), drain));
    let mut answers = Vec::new();
    for _ in 0..2 {
        client.write_all(REQUEST).await.unwrap();
        while !answers.ends_with(b"done") {
            assert_ne!(within(client.read_buf(&mut answers)).await.unwrap(), 0);
        }
        assert!(answers.starts_with(b"HTTP/1.1 200 "));
        assert_eq!(server.connections(), 1);
        answers.clear();
    }
    trigger.drain(PATIENCE);
    assert_eq!(within(client.read_buf(&mut answers)).await.unwrap(), 0, "it was idle");
    assert!(within(served).await.unwrap(), "it has ended by itself");
    assert_eq!(server.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_that_vanished_while_idle_is_not_cut_off() {
    let server = Server::default().idle_time(Duration::from_secs(1));
    let (_trigger, drain) = DrainTrigger::new();
    // It never closes its end, nor answers.
    let (mut client, stream) = duplex(1024);
    client.write_all(PREFACE).await.unwrap();
    let service = WithoutFastPath(service_fn(answer));
    assert!(within(server.serve_stream(stream, service, drain)).await, "nothing of it was lost");
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_that_vanished_while_idle_does_not_hold_up_a_drain() {
    let (trigger, drain) = DrainTrigger::new();
    let (mut client, stream) = duplex(1024);
    client.write_all(PREFACE).await.unwrap();
    let service = WithoutFastPath(service_fn(answer));
    let served = tokio::spawn(Server::default().serve_stream(stream, service, drain));
    sleep(SECOND).await;
    let start = Instant::now();
    trigger.drain(60 * SECOND);
    assert!(within(served).await.unwrap(), "nothing of it was lost");
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_an_http2_client_asks_while_it_is_told_to_part_is_answered() {
    let server = Server::default().idle_time(SECOND);
    let (_trigger, drain) = DrainTrigger::new();
    let (mut client, stream) = duplex(1024);
    client.write_all(PREFACE).await.unwrap();
    // For longer than a client may take to part that asks for nothing.
    let slow = |request| async {
        sleep(8 * SECOND).await;
        answer(request).await
    };
    let service = WithoutFastPath(service_fn(slow));
    let served = tokio::spawn(server.serve_stream(stream, service, drain));
    sleep(2 * SECOND).await;
    let head = head("GET", "/", &[]);
    let length = u8::try_from(head.len()).unwrap();
    let frame = [0, 0, length, HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, 1];
    client.write_all(&[&frame[..], &head].concat()).await.unwrap();
    let mut answered = Vec::new();
    within(client.read_to_end(&mut answered)).await.unwrap();
    assert!(answered.windows(4).any(|bytes| bytes == b"done"), "{answered:?}");
    assert!(served.await.unwrap(), "it has ended by itself");
}

#[tokio::test]
async fn framing_is_watched_over_memory_too() {
    let (_trigger, drain) = DrainTrigger::new();
    let (mut client, stream) = duplex(1024);
    tokio::spawn(Server::default().serve_stream(
        stream,
        WithoutFastPath(service_fn(answer)),
        drain,
    ));
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_connection_too_many_is_closed() {
    let server = Server::default().connections_max(1);
    let (_trigger, drain) = DrainTrigger::new();
    let (_first, stream) = duplex(1024);
    let _served = tokio::spawn(server.serve_stream(
        stream,
        WithoutFastPath(service_fn(answer)),
        drain.clone(),
    ));
    let (mut second, stream) = duplex(1024);
    within(server.serve_stream(stream, WithoutFastPath(service_fn(answer)), drain)).await;
    assert_eq!(within(second.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(server.connections(), 1);
}
