//! What the tests against real sockets share.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod frames;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it takes too long")
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Serves an axum router on a free port for the rest of the test.
pub(crate) async fn axum(router: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// An upstream of bare bytes: keeps what each connection sent, and answers
/// every `until` that it reads with `answer`.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    pub(crate) heard: Arc<Mutex<Vec<u8>>>,
    pub(crate) connections: Arc<AtomicU32>,
}

impl Recorder {
    pub(crate) async fn start(until: &'static str, answer: &'static str) -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicU32::new(0));
        let recorder =
            Self { address, heard: Arc::clone(&heard), connections: Arc::clone(&connections) };
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let heard = Arc::clone(&heard);
                tokio::spawn(async move {
                    let mut since_answer = Vec::new();
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = socket.read(&mut bytes).await {
                        heard.lock().await.extend_from_slice(&bytes[..count]);
                        since_answer.extend_from_slice(&bytes[..count]);
                        if since_answer
                            .windows(until.len())
                            .any(|window| window == until.as_bytes())
                        {
                            since_answer.clear();
                            if socket.write_all(answer.as_bytes()).await.is_err() {
                                break;
                            }
                        }
                    }
                });
            }
        });
        recorder
    }

    /// One that answers every head without a body.
    pub(crate) async fn ok() -> Self {
        Self::start("\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
    }

    pub(crate) async fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().await).into_owned()
    }
}

/// Sends bytes and reads until the other end closes.
pub(crate) async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    within(async {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(bytes.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    })
    .await
}

/// Reads from a socket until `end` has come; what was read.
pub(crate) async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    within(async {
        let mut read = Vec::new();
        while !read.windows(end.len()).any(|window| window == end.as_bytes()) {
            let byte = socket.read_u8().await.unwrap_or_else(|error| {
                panic!("{error} before {end:?}, after {:?}", String::from_utf8_lossy(&read))
            });
            read.push(byte);
        }
        String::from_utf8_lossy(&read).into_owned()
    })
    .await
}

/// Runs curl; what it printed.
pub(crate) async fn curl(arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20"]).args(arguments);
    let output = command.output().await.expect("curl runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "curl {arguments:?}: {output:?}");
    printed
}
