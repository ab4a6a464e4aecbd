//! `tamarisk protect` where the system gives no more threads.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::geteuid;

use crate::support::STUCK;
use crate::support::said::Said;

/// `nobody` of most systems: the limit does not hold for root.
const OTHER_USER: u32 = 65534;

/// More than stays in memory.
const BODY_BYTES: usize = 200_000;

#[test]
fn a_long_body_for_which_there_is_no_thread_is_rejected_with_a_reason_and_counted() {
    let protect = Protect::start();
    protect.may_have_threads(Some(1));
    let answer = protect.asks(&upload());
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("(threads, "), "{answer}");
    let said = protect.said.up_to("Request bodies cannot be written");
    assert!(said.contains("the system gives no thread. Raise the limit on threads"), "{said}");
    // It is no panic, and the others are served.
    assert!(protect.asks(GET).ends_with("ok"), "a request without a body");
    let metrics = protect.metrics();
    for line in ["tamarisk_panics_total 0", "tamarisk_responses_total{code=\"503\"} 1"] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    protect.may_have_threads(None);
    assert!(protect.asks(&upload()).ends_with("ok"), "there are threads again");
}

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn upload() -> String {
    let head = format!("host: a\r\nconnection: close\r\ncontent-length: {BODY_BYTES}\r\n");
    format!("POST / HTTP/1.1\r\n{head}\r\n{}", "x".repeat(BODY_BYTES))
}

struct Protect {
    process: Child,
    address: SocketAddr,
    status: SocketAddr,
    said: Said,
    folder: PathBuf,
}

impl Protect {
    /// As another user, if this one is root.
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("tamarisk-threads-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // The other user may not get to where it was built.
        let program = folder.join("tamarisk");
        fs::copy(env!("CARGO_BIN_EXE_tamarisk"), &program).unwrap();
        for file in [&folder, &program] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let url = format!("http://{}", upstream());
        let mut command = Command::new(&program);
        command
            .args(["protect", &url, "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"])
            .current_dir("/")
            .stderr(Stdio::piped());
        let mut process = as_other_user(&mut command).spawn().unwrap();
        let said = Said::by(process.stderr.take().unwrap());
        let address = said.address().parse().unwrap();
        let status = said.after("Status on http://").trim_end_matches('/').parse().unwrap();
        Self { process, address, status, said, folder }
    }

    /// Bounds the threads of its user; `None`: as many as the system allows.
    fn may_have_threads(&self, count: Option<u64>) {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.process.id())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max processes")).unwrap();
        let hard = line.split_whitespace().nth(1).unwrap();
        let soft = count.map_or_else(|| hard.to_owned(), |count| count.to_string());
        let mut command = Command::new("prlimit");
        command.args(["--pid", &self.process.id().to_string(), &format!("--nproc={soft}:{hard}")]);
        // Not even root may change the limits of others everywhere.
        assert!(as_other_user(&mut command).status().unwrap().success());
    }

    fn asks(&self, request: &str) -> String {
        ask(self.address, request)
    }

    fn metrics(&self) -> String {
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        ask(self.status, request)
    }
}

impl Drop for Protect {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn as_other_user(command: &mut Command) -> &mut Command {
    if geteuid().is_root() { command.uid(OTHER_USER).gid(OTHER_USER) } else { command }
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    // It may be answered, and closed, before all is sent.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// A service that reads a request whole and answers `ok`.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let (mut read, mut bytes) = (Vec::new(), [0; 65536]);
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    read.extend_from_slice(&bytes[..count]);
                    let wanted = if read.starts_with(b"POST") { BODY_BYTES } else { 0 };
                    let head = read.windows(4).position(|window| window == b"\r\n\r\n");
                    if head.is_some_and(|head| read.len() >= head + 4 + wanted) {
                        let answer =
                            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                        stream.write_all(answer.as_bytes()).unwrap();
                        break;
                    }
                }
            });
        }
    });
    address
}
