//! What `tamarisk protect` holds in memory for clients who send little or nothing, and wait.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::STUCK;
use crate::support::process::Site;
use crate::support::said;

/// Clients at once; with them the memory that the process has anyway is small.
const CLIENTS: usize = 2000;

/// Bytes of memory for a client who says nothing: its socket, its task and its timers, measured as
/// 3.8 KB. A buffer for what may come would not fit in.
const SILENT_BYTES_MAX: usize = 6 * 1024;

/// The same for a short head whose body does not come, measured as 7.6 KB.
const SHORT_HEAD_BYTES_MAX: usize = 9000;

/// A head, as browsers send it, and the first byte of a body.
fn request() -> Vec<u8> {
    let mut head =
        b"POST /form HTTP/1.1\r\nhost: example.org\r\ncontent-length: 60000\r\n".to_vec();
    for (name, length) in [("accept", 80), ("user-agent", 120), ("cookie", 400)] {
        head.extend(format!("{name}: {}\r\n", "x".repeat(length)).bytes());
    }
    head.extend(b"\r\nx");
    head
}

#[test]
fn a_byte_of_a_body_does_not_take_memory_for_what_may_come() {
    let (each, received) = (memory_of_each("body", &request()), request().len());
    assert!(each <= 20 * received, "{each} bytes of memory for {received} received");
}

#[test]
fn a_client_who_says_nothing_takes_little_memory() {
    let each = memory_of_each("silent", b"");
    assert!(each <= SILENT_BYTES_MAX, "{each} bytes of memory");
}

#[test]
fn a_short_head_whose_body_does_not_come_takes_little_memory() {
    let head = b"POST /form HTTP/1.1\r\nhost: a\r\ncontent-length: 60000\r\n\r\n";
    let each = memory_of_each("short-head", head);
    assert!(each <= SHORT_HEAD_BYTES_MAX, "{each} bytes of memory for {} received", head.len());
}

/// The memory that each of many clients takes who have sent this, and wait.
fn memory_of_each(name: &str, sent: &[u8]) -> usize {
    enough_open_files();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let name = format!("memory-of-clients-{name}");
    let site = Site::protect(&name, &url, &["--status", "127.0.0.1:0"]);
    let [status, address] = site.says_all(["Status on http://", site.greeting]);
    let status: SocketAddr = status.trim_end_matches('/').parse().unwrap();
    let address: SocketAddr = said::address(&address).parse().unwrap();
    // What it needs for its first clients is not for each of them.
    let first = clients(address, sent, 100);
    wait_for(status, 100);
    let before = resident(site.process);
    let all = clients(address, sent, CLIENTS);
    wait_for(status, 100 + CLIENTS);
    let taken = resident(site.process).saturating_sub(before);
    drop((first, all));
    taken / CLIENTS
}

/// Clients that have sent this.
fn clients(address: SocketAddr, sent: &[u8], count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(sent).unwrap();
        client
    };
    (0..count).map(connect).collect()
}

/// Waits until this number of clients is connected, and nothing is left to do for them.
fn wait_for(status: SocketAddr, connections: usize) {
    let line = format!("tamarisk_connections {connections}");
    let start = Instant::now();
    while !metrics(status).lines().any(|found| found == line) {
        assert!(start.elapsed() < STUCK, "not {line}: {}", metrics(status));
        thread::sleep(Duration::from_millis(20));
    }
    // Their bodies' first bytes came with their heads: each has had its turn before this answer.
    metrics(status);
}

fn metrics(status: SocketAddr) -> String {
    let mut stream = TcpStream::connect(status).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Bytes of memory that a process has.
fn resident(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

fn enough_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
