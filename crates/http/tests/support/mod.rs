//! What the tests against real sockets share.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod frames;

use std::fs;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Concurrency, Decision, Finished, Reading, Target, Timestamp,
};
use tamarisk_http::ErrorPages;
use tamarisk_http::classify::{Route, Routes};
use tamarisk_http::protect::{self, Options, Running};
use tamarisk_http::proxy::{Budget, Proxy, RequestBuffering, Scheme, Site, Upstream};
use tamarisk_http::server::{DrainTrigger, Server};
use tamarisk_stage::Gate;
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

/// Options for one core in front of `upstream`, with a promise that no test strains.
pub(crate) fn options(upstream: SocketAddr) -> Options {
    let origin = format!("http://{upstream}").parse().unwrap();
    let target = Target::p90(Duration::from_secs(10)).unwrap();
    let mut options = Options::single(any_port(), origin, target);
    options.cores = NonZeroUsize::MIN;
    options
}

pub(crate) async fn front(upstream: SocketAddr) -> Running {
    protect::start(options(upstream)).await.unwrap()
}

/// The same, where request bodies are passed on as they come.
pub(crate) async fn streaming_front(upstream: SocketAddr) -> Running {
    let mut options = options(upstream);
    options.upstreams[0].request_buffering = RequestBuffering::Off;
    protect::start(options).await.unwrap()
}

/// Admits everyone, one at a time.
pub(crate) struct OneByOne;

impl AdmissionLaw for OneByOne {
    fn name(&self) -> &'static str {
        "one-by-one"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished, _: &Backlog<'_>) {}

    fn on_tick(&mut self, _: Timestamp, _: &Backlog<'_>) {}

    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::ONE)
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

/// A proxy with a gate of one's own, on the test's runtime.
pub(crate) async fn proxy(upstream: SocketAddr, gate: &Gate) -> (SocketAddr, DrainTrigger) {
    let origin = format!("http://{upstream}").parse().unwrap();
    proxy_to(Upstream::new(&origin, gate.clone()), Budget::default()).await
}

/// The same, where request bodies are passed on as they come.
pub(crate) async fn streaming_proxy(
    upstream: SocketAddr,
    gate: &Gate,
) -> (SocketAddr, DrainTrigger) {
    let origin = format!("http://{upstream}").parse().unwrap();
    let upstream = Upstream::new(&origin, gate.clone()).request_buffering(RequestBuffering::Off);
    proxy_to(upstream, Budget::default()).await
}

/// A proxy for one upstream, on the test's runtime.
pub(crate) async fn proxy_to(upstream: Upstream, budget: Budget) -> (SocketAddr, DrainTrigger) {
    let site = Site {
        routes: Routes::new(vec![Route::everything(0)]),
        upstreams: vec![Arc::new(upstream)],
        trusted: Vec::new(),
        scheme: Scheme::Http,
        budget,
        error_pages: ErrorPages::default(),
        rejections: tamarisk_http::status::Rejections::default(),
        log: None,
    };
    let proxy = Proxy::start(&site);
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (trigger, drain) = DrainTrigger::new();
    tokio::spawn(async move {
        Server::default().serve(listener, |peer| proxy.connect(peer), drain).await
    });
    (address, trigger)
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

/// Debian's nginx on a free port, with a configuration of its own.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    directory: PathBuf,
}

impl Nginx {
    /// Starts it with these directives in its `server` block.
    pub(crate) fn start(directives: &str) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        for _ in 0..10 {
            let name = format!(
                "tamarisk-nginx-{}-{}",
                std::process::id(),
                STARTED.fetch_add(1, Ordering::SeqCst)
            );
            let directory = std::env::temp_dir().join(name);
            fs::create_dir_all(directory.join("www")).unwrap();
            let address = StdListener::bind(any_port()).unwrap().local_addr().unwrap();
            let nginx = Self { address, directory };
            fs::write(nginx.configuration(), nginx.text(directives)).unwrap();
            // It returns once it listens, and fails if another took the port meanwhile.
            if nginx.command().status().expect("Debian's nginx is installed").success() {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    /// Where its files are served from, if its directives say so (`root www;`).
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.directory.join("www").join(name), content).unwrap();
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("nginx.conf")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&self.directory).arg("-c").arg(self.configuration());
        command.arg("-e").arg(self.directory.join("error.log"));
        command
    }

    fn text(&self, directives: &str) -> String {
        let user = if fs::metadata("/proc/self").is_ok_and(|me| {
            use std::os::unix::fs::MetadataExt;
            me.uid() == 0
        }) {
            "user root;"
        } else {
            ""
        };
        let directory = self.directory.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {directory}/{kind};"))
            .concat();
        format!(
            "{user} worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log;
             events {{ worker_connections 512; }}
             http {{ access_log off; {temporary}
                 server {{ listen {}; {directives} }} }}",
            self.address
        )
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.command().args(["-s", "stop"]).status();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
