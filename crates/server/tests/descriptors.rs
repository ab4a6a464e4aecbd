//! A process without a descriptor left; alone in its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "it/support/mod.rs"]
mod support;

use std::convert::Infallible;
use std::fs::File;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use rustix::process::{Resource, Rlimit, setrlimit};
use support::{PATIENCE, any_port, exchange, within};
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn without_a_descriptor_left_clients_are_told_so() {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (trigger, drain) = DrainTrigger::new();
    let served = tokio::spawn(async move {
        let answer = |_: Request<ClientBody>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
        };
        Server::default().serve(listener, |_| WithoutFastPath(service_fn(answer)), drain).await
    });
    assert!(exchange(address, REQUEST).await.ends_with("done"));

    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    for _ in 0..3 {
        // One descriptor, and this side of the connection takes it.
        drop(files.pop());
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut answer = String::new();
        within(client.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        drop(client);
        files.push(File::open("/dev/null").unwrap());
    }
    files.clear();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.ends_with("done"), "there is room again: {answer}");
    trigger.drain(PATIENCE);
    within(served).await.unwrap();
}
