//! Connections over something else than a socket.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use support::{PATIENCE, within};
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

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
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let service = WithoutFastPath(service_fn(answer));
    assert!(within(server.serve_stream(stream, service, drain)).await, "nothing of it was lost");
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
