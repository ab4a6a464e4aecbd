//! Responses counted by status code, on every path that sends one.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;

use crate::support::{any_port, curl, exchange, within};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::Service;
use tamarisk_server::{
    ClientBody, DrainTrigger, FastPath, FastResponse, PlainRequest, PreparedBody, PreparedResponse,
    Reply, Server,
};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

/// Answers with the status that the path names: `/now/…` from memory, all others through hyper.
struct Speaker;

impl FastPath for Speaker {
    fn fast_response(&self, asked: &PlainRequest<'_>, reply: Reply<'_, '_>) -> FastResponse {
        let Some(code) = asked.target().strip_prefix("/now/") else {
            return FastResponse::Unavailable;
        };
        let head = format!("HTTP/1.1 {code} X\r\ncontent-length: 0\r\n");
        FastResponse::Answered(reply.send(PreparedResponse {
            head: head.as_bytes(),
            fields: b"",
            body: PreparedBody::Nothing,
            is_rejection: false,
            account: None,
        }))
    }
}

impl Service<Request<ClientBody>> for Speaker {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        let code = request.uri().path().trim_start_matches('/').parse::<u16>().unwrap();
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        ready(Ok(answer))
    }
}

struct Running {
    address: SocketAddr,
    server: Server,
    _drain: DrainTrigger,
}

async fn start(server: Server) -> Running {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (drain, drained) = DrainTrigger::new();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, |_| Speaker, drained).await });
    Running { address, server, _drain: drain }
}

impl Running {
    async fn check(&self, expected: &[(u16, u64)]) {
        let seen = self.server.responses().read();
        let seen: Vec<_> = seen.into_iter().map(|(code, count)| (code.as_u16(), count)).collect();
        assert_eq!(seen, expected);
    }

    /// Sends a request, and reads to the end of the connection.
    async fn ask(&self, target: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        exchange(self.address, &request).await
    }
}

#[tokio::test]
async fn http1_from_memory_and_through_hyper() {
    let running = start(Server::default()).await;
    for target in ["/now/200", "/now/404", "/now/200", "/204", "/503"] {
        let code = &target[target.len() - 3..];
        assert!(running.ask(target).await.starts_with(&format!("HTTP/1.1 {code} ")));
    }
    running.check(&[(200, 2), (204, 1), (404, 1), (503, 1)]).await;
}

#[tokio::test]
async fn http1_upgrades_rejected_or_granted() {
    let running = start(Server::default()).await;
    let request =
        "GET /426 HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: x\r\n\r\n";
    assert!(exchange(running.address, request).await.starts_with("HTTP/1.1 426 "));
    running.check(&[(426, 1)]).await;
}

#[tokio::test]
async fn http1_requests_that_the_guard_rejects() {
    let running = start(Server::default()).await;
    assert!(
        exchange(running.address, "GET /200 HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400")
    );
    // Closed without a response.
    assert_eq!(exchange(running.address, "EHLO me\r\n").await, "");
    running.check(&[(400, 1)]).await;
}

#[tokio::test]
async fn http2_answered_and_rejected() {
    let running = start(Server::default()).await;
    let prior = ["--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}"];
    let ask = async |arguments: &[&str]| curl(&[&prior[..], arguments].concat()).await;
    let url = |target: &str| format!("http://{}{target}", running.address);
    assert_eq!(ask(&[&url("/200")]).await, "200");
    // The rest of the request is awaited before the answer goes out.
    assert_eq!(ask(&["-d", "body", &url("/403")]).await, "403");
    assert_eq!(ask(&["-X", "POST", "--request-target", "*", &url("/200")]).await, "400");
    running.check(&[(200, 1), (400, 1), (403, 1)]).await;
}

#[tokio::test]
async fn clients_for_whom_there_is_no_connection_left() {
    let running = start(Server::default().connections_max(0)).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let mut answer = String::new();
    within(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    running.check(&[(503, 1)]).await;
}
