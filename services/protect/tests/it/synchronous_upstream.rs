//! A service with a few workers that each serve one request at a time (gunicorn), and clients that
//! send their requests slowly.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Gunicorn, PATIENCE, exchange, options, proxy_to};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tamarisk_proxy::{Budget, RequestBuffering, Upstream};
use tamarisk_stage::{Gate, StageBuilder};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Reads the body, if there is one, works for 20 ms, and answers.
const SERVICE: &str = "
import time

def application(environ, start_response):
    body = environ['wsgi.input'].read()
    time.sleep(0.02)
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', '3')])
    return [b'ok.']
";

/// Two processes of four threads.
const WORKERS: u32 = 8;

/// More than there are workers.
const SLOW_CLIENTS: usize = 12;

/// A body of 6 KB/s, which does not end while a test runs.
fn slow_body() -> impl stream::Stream<Item = Result<Frame<Bytes>, Infallible>> {
    stream::unfold((), async |()| {
        sleep(Duration::from_millis(100)).await;
        Some((Ok(Frame::data(Bytes::from_static(&[b'x'; 600]))), ()))
    })
}

/// Clients who send such bodies over HTTP/2 and say that they are gRPC, each over a connection of
/// its own.
fn slow_clients(address: SocketAddr) -> Vec<tokio::task::JoinHandle<()>> {
    (0..SLOW_CLIENTS).map(|_| tokio::spawn(slow_client(address))).collect()
}

async fn slow_client(address: SocketAddr) {
    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{address}/upload"));
    let request = request.header("content-type", "application/grpc");
    let request = request.body(Box::pin(StreamBody::new(slow_body()))).unwrap();
    let answered = client.send_request(request).await;
    panic!("a body without an end was answered: {answered:?}");
}

async fn until(gate: &Gate, running: u64, queued: u64) {
    let seen = timeout(PATIENCE, async {
        while {
            let total = gate.observe().total();
            (total.running, total.queued) != (running, queued)
        } {
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(seen.await.is_ok(), "{:?}", gate.observe().total());
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn slow_bodies_take_no_worker_of_a_synchronous_service() {
    let gunicorn = Gunicorn::start(SERVICE).await;
    let front = tamarisk_protect::start(options(gunicorn.address)).await.unwrap();
    let address = front.local_addr();
    let slow = slow_clients(address);
    // Some of each body has come.
    sleep(Duration::from_secs(1)).await;
    let good = (0..40).map(async |_| exchange(address, GET).await);
    for answer in join_all(good).await {
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok."), "{answer}");
    }
    assert!(slow.iter().all(|client| !client.is_finished()));
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.offered, accounts.completed), (40, 40), "{accounts:?}");
}

#[tokio::test]
async fn what_is_passed_on_as_it_comes_counts_as_in_flight_while_its_client_is_waited_for() {
    let gunicorn = Gunicorn::start(SERVICE).await;
    let gate = StageBuilder::new("gunicorn").workers(WORKERS).gate().unwrap();
    let origin = format!("http://{}", gunicorn.address).parse().unwrap();
    let upstream = Upstream::new(&origin, gate.clone()).request_buffering(RequestBuffering::Off);
    let (address, _drain) = proxy_to(upstream, Budget::default()).await;
    let slow = slow_clients(address);
    let (workers, others) = (u64::from(WORKERS), SLOW_CLIENTS as u64 - u64::from(WORKERS));
    until(&gate, workers, others).await;
    // All workers are taken: who has little time is told so, and does not wait at the service.
    let hurried =
        "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout: 300ms\r\nConnection: close\r\n\r\n";
    let answer = exchange(address, hurried).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    until(&gate, workers, others).await;
    // Clients who leave give the workers back.
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    let answer = exchange(address, GET).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    until(&gate, 0, 0).await;
    assert!(gate.observe().total().balance());
}
