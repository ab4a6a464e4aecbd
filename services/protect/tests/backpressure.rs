//! A peer that does not read makes the other one wait: what `protect` holds meanwhile is bounded. These
//! tests have a process of their own, whose memory they measure.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

#[path = "it/support/mod.rs"]
mod support;

use std::fs;

use support::{front, read_until, streaming_front, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn a_client_that_does_not_read_makes_the_upstream_wait() {
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let front = front(listener.local_addr().unwrap()).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let (mut upstream, _) = within(listener.accept()).await.unwrap();
    read_until(&mut upstream, "\r\n\r\n").await;
    const LENGTH: usize = 256 << 20;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
    upstream.write_all(head.as_bytes()).await.unwrap();
    let part = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while let Ok(written) =
        tokio::time::timeout(std::time::Duration::from_millis(300), upstream.write(&part)).await
    {
        sent += written.unwrap();
    }
    // The kernel's buffers of four sockets, at most 6 MiB each here; ours are 64 KiB.
    assert!(sent < 32 << 20, "{sent} bytes went nowhere");
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.completed, accounts.inside()), (1, 0), "a slow client holds no place");

    let writer = tokio::spawn(async move {
        while sent < LENGTH {
            let rest = part.len().min(LENGTH - sent);
            sent += upstream.write(&part[..rest]).await.unwrap();
        }
    });
    read_until(&mut client, "\r\n\r\n").await;
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    while received < LENGTH {
        received += within(client.read(&mut buffer)).await.unwrap();
    }
    within(writer).await.unwrap();
    assert!(resident_mib() < 128, "{} MiB resident", resident_mib());
}

/// The most memory that this process has ever had: beside this test only the other one of the file.
fn resident_mib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

#[tokio::test]
async fn an_upload_that_the_upstream_does_not_read_makes_the_client_wait() {
    const LENGTH: usize = 64 << 20;
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let front = streaming_front(listener.local_addr().unwrap()).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LENGTH}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut upstream, _) = within(listener.accept()).await.unwrap();
    let part = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while let Ok(written) =
        tokio::time::timeout(std::time::Duration::from_millis(300), client.write(&part)).await
    {
        sent += written.unwrap();
    }
    assert!(sent < 32 << 20, "{sent} bytes went nowhere");

    // Once it reads, everything arrives.
    let reader = tokio::spawn(async move {
        read_until(&mut upstream, "\r\n\r\n").await;
        let mut buffer = vec![0; 1 << 20];
        let mut received = 0;
        while received < LENGTH {
            received += within(upstream.read(&mut buffer)).await.unwrap();
        }
        upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").await.unwrap();
    });
    while sent < LENGTH {
        let rest = part.len().min(LENGTH - sent);
        sent += within(client.write(&part[..rest])).await.unwrap();
    }
    assert!(read_until(&mut client, "done").await.starts_with("HTTP/1.1 200"));
    reader.await.unwrap();
}
