//! Clients who keep their connections, and what those cost meanwhile.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{PATIENCE, any_port, within};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::Service;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tamarisk_control::Target;
use tamarisk_server::guard::Limits;
use tamarisk_server::tls::{Handshakes, Identity, Tls};
use tamarisk_server::{
    ClientBody, DrainTrigger, FastPath, FastResponse, PlainRequest, PreparedBody, PreparedResponse,
    Reply, Server,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// More than the buffers of two sockets hold.
const LONG: usize = 32 << 20;

/// A request that is never answered, and not at an end.
const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfour";

const MOMENT: Duration = Duration::from_millis(50);

/// Has prepared responses to all but those to `/later`, `/never` and `/upload`, which never comes, and
/// panics at `/panic`. An answer is the target, that of `/long` followed by [`LONG`] bytes.
struct Speaker;

impl FastPath for Speaker {
    fn fast_response(&self, asked: &PlainRequest<'_>, reply: Reply<'_, '_>) -> FastResponse {
        let mut body = asked.target().as_bytes().to_vec();
        match asked.target() {
            "/later" => return FastResponse::Unavailable,
            "/never" => return FastResponse::NeverAvailable,
            "/panic" => panic!("as it was asked to"),
            "/long" => body.resize(body.len() + LONG, b'x'),
            _ => {}
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", body.len());
        FastResponse::Answered(reply.send(PreparedResponse {
            head: head.as_bytes(),
            fields: b"",
            body: PreparedBody::Bytes(&Bytes::from(body)),
            is_rejection: false,
            account: None,
        }))
    }
}

impl Service<Request<ClientBody>> for Speaker {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() == "/upload" {
                pending::<()>().await;
            }
            yield_now().await;
            Ok(Response::new(Full::from(request.uri().path().to_owned())))
        })
    }
}

struct Running {
    address: SocketAddr,
    server: Server,
    drain: DrainTrigger,
    served: JoinHandle<usize>,
    /// How many tasks there are without any client.
    tasks: usize,
}

async fn start(server: Server) -> Running {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (drain, drained) = DrainTrigger::new();
    let serving = server.clone();
    let served = tokio::spawn(async move { serving.serve(listener, |_| Speaker, drained).await });
    let tasks = Handle::current().metrics().num_alive_tasks();
    Running { address, server, drain, served, tasks }
}

impl Running {
    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until no client has a task.
    async fn may_idle(&self) {
        let resting = async {
            while Handle::current().metrics().num_alive_tasks() > self.tasks {
                yield_now().await;
            }
        };
        within(resting).await;
    }

    async fn connections(&self, count: usize) {
        let reached = async {
            while self.server.connections() != count {
                yield_now().await;
            }
        };
        within(reached).await;
    }
}

fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n")
}

/// The next answer: its head, and how long its body is.
async fn answer(socket: &mut (impl AsyncRead + Unpin)) -> (String, Vec<u8>) {
    let reading = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        socket.read_exact(&mut body).await.unwrap();
        (head, body)
    };
    within(reading).await
}

/// Asks for each target, and waits for its answer.
async fn ask(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), targets: &[&str]) {
    for target in targets {
        socket.write_all(request(target).as_bytes()).await.unwrap();
        // Over TLS what was written may not be sent yet.
        socket.flush().await.unwrap();
        let (_, body) = answer(socket).await;
        assert!(body.starts_with(target.as_bytes()), "{target}");
        assert_eq!(body.len(), target.len() + if *target == "/long" { LONG } else { 0 });
    }
}

#[tokio::test]
async fn whoever_asks_for_nothing_costs_no_task_whatever_came_before() {
    let running = start(Server::default()).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(running.client().await);
    }
    for targets in [&["/a", "/b"][..], &["/later"], &["/long", "/a"], &["/a", "/later", "/long"]] {
        for client in &mut clients {
            ask(client, targets).await;
        }
        running.may_idle().await;
        assert_eq!(running.server.connections(), 20);
    }
    drop(clients);
    running.connections(0).await;
}

#[tokio::test]
async fn as_many_as_like_may_speak_at_once() {
    let running = start(Server::default()).await;
    let mut clients = Vec::new();
    // More than are told of at once, and a multiple of it.
    for _ in 0..192 {
        let mut client = running.client().await;
        ask(&mut client, &["/first"]).await;
        clients.push(client);
    }
    running.may_idle().await;
    for round in 0..3 {
        // None of them is read meanwhile.
        for client in &clients {
            let asked = request(&format!("/{round}"));
            assert_eq!(client.try_write(asked.as_bytes()).unwrap(), asked.len());
        }
        for client in &mut clients {
            assert_eq!(answer(client).await.1, format!("/{round}").as_bytes());
        }
    }
}

#[tokio::test]
async fn who_has_waited_for_the_longest_gives_way_to_who_comes() {
    let running = start(Server::default().connections_max(2)).await;
    let mut busy = running.client().await;
    busy.write_all(UPLOAD).await.unwrap();
    running.connections(1).await;
    for _ in 0..3 {
        let mut waiting = running.client().await;
        ask(&mut waiting, &["/a"]).await;
        ask(&mut running.client().await, &["/b"]).await;
        assert_eq!(within(waiting.read(&mut [0])).await.unwrap(), 0, "it is closed");
        running.connections(1).await;
    }
    assert_eq!(running.server.rejected().turned_away, 0);
    // Who is busy gives way to nobody.
    let mut other = running.client().await;
    other.write_all(UPLOAD).await.unwrap();
    running.connections(2).await;
    let mut rejected = String::new();
    let mut third = running.client().await;
    third.write_all(request("/a").as_bytes()).await.unwrap();
    within(third.read_to_string(&mut rejected)).await.unwrap();
    assert!(rejected.starts_with("HTTP/1.1 503 "), "{rejected}");
    assert_eq!(running.server.rejected().turned_away, 1);
}

#[tokio::test]
async fn of_two_who_wait_the_later_one_stays() {
    let running = start(Server::default().connections_max(2)).await;
    let [mut first, mut second] = [running.client().await, running.client().await];
    ask(&mut first, &["/a"]).await;
    ask(&mut second, &["/a"]).await;
    // It is the first one that has been heard last.
    ask(&mut first, &["/b"]).await;
    ask(&mut running.client().await, &["/c"]).await;
    assert_eq!(within(second.read(&mut [0])).await.unwrap(), 0, "it is closed");
    ask(&mut first, &["/d"]).await;
}

#[tokio::test]
async fn requests_come_as_they_like() {
    let running = start(Server::default()).await;
    let mut client = running.client().await;
    ask(&mut client, &["/first"]).await;
    assert_eq!(request("/many!").len(), 32);
    for pieces in [
        // More than is read at once, which is 4096 bytes; a head in pieces, and one behind another.
        vec![request("/many!").repeat(1024)],
        vec!["GET /in".to_owned(), "-pieces HTTP/1.1\r\nhost:".to_owned(), " a\r\n\r\n".to_owned()],
        vec![format!("{}GET /ha", request("/whole")), "lf HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()],
        vec![request("/later").repeat(3) + &request("/now")],
    ] {
        for piece in &pieces {
            client.write_all(piece.as_bytes()).await.unwrap();
            sleep(MOMENT).await;
        }
        let asked = pieces.concat();
        for target in asked.split("GET ").skip(1).map(|rest| rest.split(' ').next().unwrap()) {
            assert_eq!(answer(&mut client).await.1, target.as_bytes());
        }
        running.may_idle().await;
    }
}

#[tokio::test]
async fn whoever_has_said_all_is_answered_and_closed() {
    let running = start(Server::default()).await;
    for targets in [&[][..], &["/first"]] {
        for pause in [Duration::ZERO, MOMENT] {
            let mut client = running.client().await;
            ask(&mut client, targets).await;
            client.write_all(request("/last").as_bytes()).await.unwrap();
            if !pause.is_zero() {
                sleep(pause).await;
            }
            client.shutdown().await.unwrap();
            assert_eq!(answer(&mut client).await.1, b"/last");
            assert_eq!(within(client.read(&mut [0; 8])).await.unwrap(), 0);
        }
    }
    running.connections(0).await;
}

#[tokio::test]
async fn a_connection_is_closed_when_it_has_waited_for_too_long_and_not_before() {
    // Half of it is what a busy machine may take too long.
    const IDLE: Duration = Duration::from_millis(1500);
    let running = start(Server::default().idle_time(IDLE)).await;
    let mut patient = running.client().await;
    ask(&mut patient, &["/a"]).await;
    let mut active = running.client().await;
    for targets in [&["/a"][..], &["/later"], &["/a"], &["/long"], &["/a"]] {
        sleep(IDLE / 2).await;
        ask(&mut active, targets).await;
    }
    closes_after(IDLE, active).await;
    assert_eq!(patient.try_read(&mut [0; 8]).unwrap(), 0);
    // Others take their places, whose time has just begun.
    for target in ["/a", "/later", "/never"] {
        let mut next = running.client().await;
        ask(&mut next, &[target]).await;
        sleep(IDLE * 3 / 4).await;
        ask(&mut next, &[target]).await;
        closes_after(IDLE, next).await;
    }
    running.connections(0).await;
}

async fn closes_after(time: Duration, mut client: TcpStream) {
    let start = Instant::now();
    assert_eq!(within(client.read(&mut [0; 8])).await.unwrap(), 0);
    let waited = start.elapsed();
    // The client may look late, when the connection has waited for a while.
    assert!(waited > time / 2 && waited < time + PATIENCE, "{waited:?}");
}

#[tokio::test]
async fn who_has_begun_to_ask_must_go_on() {
    let limits = Limits::default().head_time(6 * MOMENT);
    let running = start(Server::default().limits(limits)).await;
    let mut client = running.client().await;
    ask(&mut client, &["/a"]).await;
    client.write_all(b"GET /ha").await.unwrap();
    let (head, _) = answer(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
}

#[tokio::test]
async fn who_waits_when_a_drain_starts_is_answered_once_more() {
    let running = start(Server::default()).await;
    let (mut asks, mut silent) = (running.client().await, running.client().await);
    for client in [&mut asks, &mut silent] {
        ask(client, &["/a", "/later", "/a"]).await;
    }
    running.may_idle().await;
    running.drain.drain(Duration::from_secs(2));
    sleep(MOMENT).await;
    asks.write_all(request("/last").as_bytes()).await.unwrap();
    let (head, body) = answer(&mut asks).await;
    assert!(head.contains("connection: close\r\n"), "{head}");
    assert_eq!(body, b"/last");
    assert_eq!(within(silent.read(&mut [0; 8])).await.unwrap(), 0);
    assert_eq!(within(running.served).await.unwrap(), 0, "cut off");
}

#[tokio::test]
async fn who_leaves_an_upload_is_noticed_also_after_a_rest() {
    let running = start(Server::default()).await;
    for targets in [&["/a"][..], &["/later", "/a"]] {
        let mut client = running.client().await;
        ask(&mut client, targets).await;
        running.may_idle().await;
        client.write_all(UPLOAD).await.unwrap();
        sleep(MOMENT).await;
        assert_eq!(running.server.connections(), 1);
        drop(client);
        running.connections(0).await;
    }
}

#[tokio::test]
async fn a_service_that_panics_ends_one_connection() {
    let running = start(Server::default()).await;
    let (mut first, mut second) = (running.client().await, running.client().await);
    for client in [&mut first, &mut second] {
        ask(client, &["/a"]).await;
    }
    first.write_all(request("/panic").as_bytes()).await.unwrap();
    assert_eq!(within(first.read(&mut [0; 8])).await.unwrap(), 0);
    ask(&mut second, &["/a"]).await;
    running.connections(1).await;
}

/// A server over TLS, and how to connect to it.
async fn start_tls(server: Server) -> (Running, TlsConnector) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("tamarisk-waiting-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let [certificate, key] = ["certificate", "key"].map(|name| folder.join(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-newkey", "ec", "-subj", "/CN=a"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", "subjectAltName=DNS:a", "-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let tls = Tls::open(vec![Identity { certificate, key }]).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let target = Target::p90(Duration::from_secs(10)).unwrap();
    let handshakes = Handshakes::new(tls, NonZeroUsize::MIN, target).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (start(server.tls(handshakes)).await, TlsConnector::from(Arc::new(config)))
}

async fn tls_client(running: &Running, connector: &TlsConnector) -> TlsStream<TcpStream> {
    let name = ServerName::try_from("a").unwrap();
    connector.connect(name, running.client().await).await.unwrap()
}

#[tokio::test]
async fn over_tls_as_well() {
    let (running, connector) = start_tls(Server::default()).await;
    let mut client = tls_client(&running, &connector).await;
    for _ in 0..3 {
        ask(&mut client, &["/a", "/later", "/long", "/a"]).await;
        running.may_idle().await;
    }
    // In one record.
    client.write_all((request("/b") + &request("/c")).as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    for target in ["/b", "/c"] {
        assert_eq!(answer(&mut client).await.1, target.as_bytes());
    }
    client.shutdown().await.unwrap();
    running.connections(0).await;
}

#[tokio::test]
async fn who_has_shaken_hands_when_a_drain_starts_is_answered() {
    let (running, connector) = start_tls(Server::default()).await;
    let mut client = tls_client(&running, &connector).await;
    running.drain.drain(Duration::from_secs(20));
    // Longer than an idle connection is kept.
    sleep(Duration::from_millis(2500)).await;
    client.write_all(request("/last").as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let (head, body) = answer(&mut client).await;
    assert!(head.contains("connection: close\r\n"), "{head}");
    assert_eq!(body, b"/last");
    assert_eq!(within(running.served).await.unwrap(), 0, "cut off");
}

#[tokio::test]
async fn what_is_said_over_tls_without_a_request_gains_no_time() {
    let (running, connector) = start_tls(Server::default().idle_time(6 * MOMENT)).await;
    let mut client = tls_client(&running, &connector).await;
    ask(&mut client, &["/a"]).await;
    let start = Instant::now();
    while running.server.connections() > 0 {
        assert!(start.elapsed() < PATIENCE, "it is still open");
        let _ = client.get_mut().1.refresh_traffic_keys();
        let _ = client.flush().await;
        sleep(MOMENT).await;
    }
}
