//! The status port of a service.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use tamarisk_axum::{Service, answers};
use tamarisk_stage::{Context, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// The whole answer of the port at `address` to a GET.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn the_port_shows_the_stages_until_the_service_has_drained() {
    let stage = Stage::builder("shout")
        .handler(async |text: String, _: Context| {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(text.to_uppercase())
        })
        .unwrap();
    let [front, status] = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let [address, shown_at] = [&front, &status].map(|listener| listener.local_addr().unwrap());
    let router = Router::new().route("/", post(answers(&stage)));
    let (stop, stopped) = oneshot::channel::<()>();
    let service = Service::new().stage(&stage).status_on(status);
    let serving = tokio::spawn(service.serve_until(front, router, async {
        let _ = stopped.await;
    }));
    assert!(get(shown_at, "/health").await.ends_with("ok\n"));
    assert!(get(shown_at, "/status").await.contains(r#""name":"shout""#));
    assert!(get(shown_at, "/metrics").await.contains("tamarisk_"));

    // While a request is under way the port says that the service drains.
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
    while stage.observe().total().running == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.send(()).unwrap();
    let mut health = get(shown_at, "/health").await;
    while !health.starts_with("HTTP/1.1 503") {
        assert!(!serving.is_finished(), "{health}");
        health = get(shown_at, "/health").await;
    }
    assert!(health.ends_with("draining\n"), "{health}");
    serving.await.unwrap().unwrap();
    while TcpStream::connect(shown_at).await.is_ok() {
        // It is closed soon.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
