//! Clients that ask a site for `/a.txt`, which is `hello`.

#![allow(dead_code, unreachable_pub, reason = "no file of tests needs all of it")]

pub mod process;
pub mod said;
pub mod site;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

pub use said::STUCK;

/// Clients over HTTP/1, besides one over HTTP/2.
const CLIENTS: u32 = 12;

/// Of these and the one over HTTP/2, those that stay connected.
pub const KEPT: u64 = 10;

/// What clients have come to.
pub struct Ended {
    pub answered: u64,
    /// Connections that were to be kept.
    pub kept: u64,
    /// What went wrong.
    pub failures: Vec<String>,
}

/// Clients that ask without a pause.
pub struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    kept: Arc<AtomicU64>,
    failures: Arc<Mutex<Vec<String>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(address: SocketAddr) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let kept = Arc::<AtomicU64>::default();
        let failures = Arc::<Mutex<Vec<String>>>::default();
        let client = |number: u32| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            let (kept, failures) = (Arc::clone(&kept), Arc::clone(&failures));
            // Every fourth client connects for each of its requests.
            let once = number.is_multiple_of(4);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    kept.fetch_add(u64::from(!once), Ordering::Relaxed);
                    let asked = connection(address, once, &stop, &answered);
                    if let Err(error) = asked {
                        failures.lock().unwrap().push(error.to_string());
                    }
                }
            })
        };
        let mut clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let (ended, count, errors) = (stop.clone(), answered.clone(), failures.clone());
        let connections = kept.clone();
        clients.push(thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                while !ended.load(Ordering::Relaxed) {
                    connections.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = http2_connection(address, &ended, &count).await {
                        errors.lock().unwrap().push(format!("over HTTP/2: {error}"));
                    }
                }
            });
        }));
        Self { stop, answered, kept, failures, clients }
    }

    /// Until so many more requests are answered.
    pub fn wait_for(&self, more: u64) {
        let enough = self.answered.load(Ordering::Relaxed) + more;
        while self.answered.load(Ordering::Relaxed) < enough {
            thread::yield_now();
        }
    }

    pub fn end(self) -> Ended {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        let failures = self.failures.lock().unwrap().clone();
        let [answered, kept] =
            [&self.answered, &self.kept].map(|count| count.load(Ordering::Relaxed));
        Ended { answered, kept, failures }
    }
}

/// Asks on one connection until an answer says that it closes.
pub fn connection(
    address: SocketAddr,
    once: bool,
    stop: &AtomicBool,
    answered: &AtomicU64,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(STUCK))?;
    let closing = if once { "connection: close\r\n" } else { "" };
    let request = format!("GET /a.txt HTTP/1.1\r\nhost: test\r\n{closing}\r\n");
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nhello") {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes)?;
            if read == 0 {
                return Err(std::io::Error::other(format!("closed after {} bytes", answer.len())));
            }
            answer.extend(&bytes[..read]);
        }
        let head = String::from_utf8(answer).unwrap();
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(std::io::Error::other(head));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        if head.contains("connection: close\r\n") {
            break;
        }
    }
    Ok(())
}

/// The same over HTTP/2, until the connection says that it takes no more.
async fn http2_connection(
    address: SocketAddr,
    stop: &AtomicBool,
    answered: &AtomicU64,
) -> Result<(), Box<dyn std::error::Error>> {
    let socket = TokioIo::new(tokio::net::TcpStream::connect(address).await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), socket).await?;
    tokio::spawn(connection);
    while !stop.load(Ordering::Relaxed) && sender.ready().await.is_ok() {
        let request = Request::get(format!("http://{address}/a.txt")).body(Empty::<Bytes>::new())?;
        match sender.send_request(request).await {
            Ok(answer) => {
                assert_eq!(answer.status(), 200);
                assert_eq!(answer.into_body().collect().await?.to_bytes(), "hello");
                answered.fetch_add(1, Ordering::Relaxed);
            }
            // It was not sent: the connection has just said that it closes.
            Err(error) if error.is_canceled() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
