//! One client with many connections beside another one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Folder, STUCK};
use tamarisk::axum::Service;
use tamarisk_pytec::Site;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::sleep;

/// How long the page takes, without the processor.
const SERVICE: Duration = Duration::from_millis(200);
const GREEDY: usize = 20;
/// A greedy client asks again after this when it is rejected.
const RETRY: Duration = Duration::from_millis(20);
/// In which processes are started, and the law finds out who asks for how much.
const WARM_UP: Duration = Duration::from_secs(8);
const REQUESTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(150);

/// The status of the page, asked for from this address.
async fn status(server: SocketAddr, from: IpAddr) -> String {
    let asked = async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from, 0)).unwrap();
        let mut stream = socket.connect(server).await.unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    tokio::time::timeout(STUCK, asked).await.expect("an answer comes")
}

/// How many requests of a client are answered that asks one after the other.
async fn answered(server: SocketAddr, from: IpAddr) -> usize {
    let mut answered = 0;
    for _ in 0..REQUESTS {
        sleep(PAUSE).await;
        answered += usize::from(status(server, from).await == "200");
    }
    answered
}

#[tokio::test]
async fn a_client_with_many_connections_takes_nothing_from_another_one() {
    let source = format!("<%pytec import time; time.sleep({}) %>x", SERVICE.as_secs_f64());
    let folder = Folder::with(&[("a.pytec", &source)]);
    let mut options = folder.options();
    options.processes = 4;
    options.p90 = 5 * SERVICE;
    let site = Site::open(options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let service = Service::new().stage(&site);
    let serving =
        tokio::spawn(service.serve_until(listener, site.router(), std::future::pending()));
    let [modest, greedy] = [[127, 0, 0, 2], [127, 0, 0, 3]].map(IpAddr::from);

    let is_over = Arc::new(AtomicBool::new(false));
    let connections: Vec<_> = (0..GREEDY)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    if status(server, greedy).await != "200" {
                        sleep(RETRY).await;
                    }
                }
            })
        })
        .collect();
    sleep(WARM_UP).await;
    let beside = answered(server, modest).await;
    let total = site.page("/a").unwrap().observe().total();
    is_over.store(true, Ordering::Relaxed);
    for connection in connections {
        connection.await.unwrap();
    }
    let alone = answered(server, modest).await;
    serving.abort();
    assert!(total.rejected > 0, "the greedy client asks for more than there is: {total:?}");
    // How close it comes is the law's, and tested there: without shares it would be one in twenty.
    assert!(4 * beside >= 3 * alone, "{beside} answered beside it, {alone} alone: {total:?}");
}
