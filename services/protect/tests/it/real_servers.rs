//! The proxy between programs that others wrote: nginx, curl, tungstenite, hyper.

use std::fs;

use crate::support::{self, Nginx, axum, curl, front, read_until, within};
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn files_of_nginx_arrive_whole_by_either_protocol() {
    let nginx = Nginx::start("root www; gzip on; gzip_types *; gzip_min_length 1;");
    let file: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    nginx.write("file.bin", &file);
    nginx.write("page.txt", "a page\n".repeat(1000).as_bytes());
    let front = front(nginx.address).await;
    let url = |path: &str| format!("http://{}/{path}", front.local_addr());

    for protocol in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
        let target =
            std::env::temp_dir().join(format!("tamarisk{protocol}-{}", std::process::id()));
        let output = target.to_str().unwrap();
        curl(&[protocol, "-o", output, &url("file.bin")]).await;
        assert!(fs::read(&target).unwrap() == file, "{protocol}");
        fs::remove_file(&target).unwrap();

        let page = curl(&[protocol, "--compressed", &url("page.txt")]).await;
        assert_eq!(page, "a page\n".repeat(1000), "{protocol}");
        let range = curl(&[protocol, "-i", "-r", "2-5", &url("page.txt")]).await;
        assert!(range.contains(" 206") && range.ends_with("page"), "{protocol}: {range}");
        let head = curl(&[protocol, "-I", &url("page.txt")]).await;
        assert!(head.to_lowercase().contains("content-length: 7000"), "{protocol}: {head}");
        let missing = curl(&[protocol, "-o", "/dev/null", "-w", "%{http_code}", &url("no")]).await;
        assert_eq!(missing, "404", "{protocol}");
    }
}

#[tokio::test]
async fn curl_uploads_by_either_protocol_and_framing() {
    let router = Router::new()
        .route("/", post(|body: Bytes| async move { format!("{} {}", body.len(), body[123]) }))
        .layer(DefaultBodyLimit::disable());
    let front = front(axum(router).await).await;
    let source = std::env::temp_dir().join(format!("tamarisk-upload-{}", std::process::id()));
    fs::write(&source, vec![7; 5_000_000]).unwrap();
    let url = format!("http://{}/", front.local_addr());
    let data = format!("@{}", source.display());
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let plain = curl(&[protocol, "-X", "POST", "--data-binary", &data, &url]).await;
        assert_eq!(plain, "5000000 7", "{protocol}");
        let chunked = "Transfer-Encoding: chunked";
        let streamed =
            curl(&[protocol, "-X", "POST", "-H", chunked, "--data-binary", &data, &url]).await;
        assert_eq!(streamed, "5000000 7", "{protocol}");
        let expected = "Expect: 100-continue";
        let asked =
            curl(&[protocol, "-X", "POST", "-H", expected, "--data-binary", &data, &url]).await;
        assert_eq!(asked, "5000000 7", "{protocol}");
    }
    fs::remove_file(&source).unwrap();
}

#[tokio::test]
async fn many_streams_share_one_http2_connection() {
    let nginx = Nginx::start("location / { return 200 $request_uri; }");
    let front = front(nginx.address).await;
    let socket = TcpStream::connect(front.local_addr()).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .unwrap();
    tokio::spawn(connection);
    let asked = (0..50).map(|number| {
        let mut sender = sender.clone();
        async move {
            let request = http::Request::builder()
                .uri(format!("http://a.example/{number}"))
                .header("cookie", "a=1")
                .header("cookie", "b=2")
                .body(Empty::<Bytes>::new())
                .unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, format!("/{number}"));
        }
    });
    within(futures_util::future::join_all(asked)).await;
    assert_eq!(front.gates()[0].observe().total().completed, 50);
}

#[tokio::test]
async fn cookies_that_http2_cut_apart_are_one_line_again() {
    let nginx = Nginx::start("location / { return 200 \"$http_cookie $http_host $http_via\"; }");
    let front = front(nginx.address).await;
    let url = format!("http://{}/", front.local_addr());
    let seen =
        curl(&["--http2-prior-knowledge", "-H", "Cookie: a=1", "-H", "Cookie: b=2", &url]).await;
    let expected = format!("a=1; b=2 {} 2 tamarisk-", front.local_addr());
    assert!(seen.starts_with(&expected), "{seen}");
}

/// An upstream that speaks WebSocket and sends every text back.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = tokio_tungstenite::accept_async(socket).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() && socket.send(message).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_websocket_passes_both_ways_and_holds_no_place_in_the_gate() {
    let front = front(echo().await).await;
    let url = format!("ws://{}/chat", front.local_addr());
    let stream = TcpStream::connect(front.local_addr()).await.unwrap();
    let (mut socket, answer) = within(tokio_tungstenite::client_async(&url, stream)).await.unwrap();
    assert_eq!(answer.status(), 101);
    for text in ["one", &"x".repeat(300_000)] {
        socket.send(Message::text(text)).await.unwrap();
        let echoed = within(socket.next()).await.unwrap().unwrap();
        assert_eq!(echoed.into_text().unwrap(), text);
    }
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.completed, accounts.inside()), (1, 0));
    assert_eq!(front.connections(), 1, "a tunnel is a connection like any other");
    within(socket.close(None)).await.unwrap();
    while within(socket.next()).await.is_some_and(|message| message.is_ok()) {}
    drop(socket);
    assert_eq!(within(front.shutdown(support::PATIENCE)).await, 0);
}

#[tokio::test]
async fn a_denied_upgrade_leaves_an_ordinary_connection() {
    let nginx = Nginx::start("location / { return 200 \"denied\"; }");
    let front = front(nginx.address).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    // The second request is sent before the first is answered, and waits for that.
    client.write_all(format!("{ask}{ask}").as_bytes()).await.unwrap();
    for _ in 0..2 {
        let answer = read_until(&mut client, "denied").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    client.write_all(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n").await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_tunnel_is_cut_when_the_time_to_drain_is_over() {
    let front = front(echo().await).await;
    let url = format!("ws://{}/chat", front.local_addr());
    let stream = TcpStream::connect(front.local_addr()).await.unwrap();
    let (mut socket, _) = within(tokio_tungstenite::client_async(&url, stream)).await.unwrap();
    let cut = within(front.shutdown(std::time::Duration::from_millis(50))).await;
    assert_eq!(cut, 1);
    assert!(within(socket.next()).await.is_none_or(|message| message.is_err()));
}
