//! Server names that OpenSSL asks for, and sessions that it resumes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{PATIENCE, any_port, within};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use tamarisk_control::Target;
use tamarisk_server::tls::{Handshakes, Identity, Tls};
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

/// Groups of which the server does not know the first, so that it asks for a second hello.
const RETRY: [&str; 3] = ["-tls1_3", "-groups", "P-521:X25519"];

/// A server with certificates for `first.test` and `second.test`.
struct Running {
    address: SocketAddr,
    server: Server,
    folder: PathBuf,
    _drain: DrainTrigger,
}

impl Running {
    async fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tamarisk-server-name-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let identities = [identity(&folder, "first").await, identity(&folder, "second").await];
        let tls = Tls::open(identities.to_vec()).unwrap();
        let target = Target::p90(PATIENCE).unwrap();
        let handshakes = Handshakes::new(tls, NonZeroUsize::MIN, target).unwrap();
        let server = Server::default().tls(handshakes);
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trigger, drain) = DrainTrigger::new();
        let serving = server.clone();
        tokio::spawn(async move {
            let answer = |_: Request<ClientBody>| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
            };
            serving.serve(listener, |_| WithoutFastPath(service_fn(answer)), drain).await
        });
        Self { address, server, folder, _drain: trigger }
    }

    fn session(&self) -> String {
        self.folder.join("session").to_str().unwrap().to_owned()
    }

    /// What OpenSSL tells of a request with the server name `name`.
    async fn ask(&self, name: &str, arguments: &[&str]) -> String {
        ask(self.address, name, arguments).await
    }

    fn failed(&self) -> u64 {
        self.server.rejected().handshakes_failed
    }

    /// Waits for so many failed handshakes: a client may be gone before the server has its alert.
    async fn has_failed(&self, handshakes: u64) {
        let failed = async {
            while self.failed() < handshakes {
                tokio::task::yield_now().await;
            }
        };
        within(failed).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A new certificate for `{name}.test`.
async fn identity(folder: &Path, name: &str) -> Identity {
    let [certificate, key] = ["pem", "key"].map(|kind| folder.join(format!("{name}.{kind}")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-newkey", "ec", "-subj", &format!("/CN={name}")])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", &format!("subjectAltName=DNS:{name}.test"), "-out"])
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .stderr(Stdio::null())
        .status();
    assert!(made.await.unwrap().success());
    Identity { certificate, key }
}

async fn ask(address: SocketAddr, name: &str, arguments: &[&str]) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-ign_eof", "-msg", "-connect", &address.to_string()])
        .args(["-servername", name])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client.stdin.as_mut().unwrap().write_all(request).await.unwrap();
    let output = within(client.wait_with_output()).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_answered(told: &str) -> bool {
    told.contains("HTTP/1.1 200 ") && told.contains("done")
}

/// Of the server's certificate, without the spaces that some versions of OpenSSL put in.
fn subject(told: &str) -> String {
    let line = told.lines().find(|line| line.starts_with("subject=")).unwrap_or_default();
    line.replace(' ', "")
}

fn hellos(told: &str) -> usize {
    told.matches(", ClientHello").count()
}

#[tokio::test]
async fn the_certificate_is_that_of_the_name() {
    let running = Running::start().await;
    for version in [&["-tls1_2"][..], &["-tls1_3"], &RETRY] {
        for (name, expected) in [
            ("second.test", "second"),
            ("SECOND.test", "second"),
            ("second.test.", "second"),
            ("unknown.test", "first"),
            ("web_1", "first"),
            ("127.0.0.1", "first"),
            ("::1", "first"),
        ] {
            let told = running.ask(name, version).await;
            assert!(is_answered(&told), "{version:?} {name}: {told}");
            assert_eq!(subject(&told), format!("subject=CN={expected}"), "{name}: {told}");
        }
    }
    assert_eq!(running.failed(), 0);
}

#[tokio::test]
async fn a_name_with_a_port_ends_the_handshake_with_an_alert_and_is_counted() {
    let running = Running::start().await;
    for (count, version) in (1..).zip(["-tls1_2", "-tls1_3"]) {
        let told = running.ask("second.test:8443", &[version]).await;
        assert!(told.contains("fatal illegal_parameter"), "{version}: {told}");
        running.has_failed(count).await;
    }
    let told = running.ask("second.test", &[]).await;
    assert!(is_answered(&told), "{told}");
    assert_eq!(running.failed(), 2);
}

#[tokio::test]
async fn a_client_may_be_asked_for_a_second_hello() {
    let running = Running::start().await;
    let told = running.ask("second.test", &RETRY).await;
    assert_eq!(hellos(&told), 2, "{told}");
    assert!(is_answered(&told), "{told}");
    assert_eq!(subject(&told), "subject=CN=second", "{told}");
}

#[tokio::test]
async fn sessions_are_resumed() {
    let running = Running::start().await;
    let session = running.session();
    for arguments in [&["-tls1_3"][..], &["-tls1_2"], &["-tls1_2", "-no_ticket"], &RETRY] {
        let [first, second] =
            ["-sess_out", "-sess_in"].map(|what| [arguments, &[what, &session]].concat());
        let told = running.ask("second.test", &first).await;
        assert!(told.contains("\nNew, TLSv1") && is_answered(&told), "{first:?}: {told}");
        let told = running.ask("second.test", &second).await;
        assert!(told.contains("\nReused, TLSv1") && is_answered(&told), "{second:?}: {told}");
    }
    assert_eq!(running.failed(), 0);
}
