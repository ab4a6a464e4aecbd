//! What `tamarisk protect` holds in memory for clients who send a little of a body, and wait.

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
    enough_open_files();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let site = Site::protect("memory-of-clients", &url, &["--status", "127.0.0.1:0"]);
    let [status, address] = site.says_all(["Status on http://", site.greeting]);
    let status: SocketAddr = status.trim_end_matches('/').parse().unwrap();
    let address: SocketAddr = said::address(&address).parse().unwrap();
    // What it needs for its first clients is not for each of them.
    let first = clients(address, 100);
    wait_for(status, 100);
    let before = resident(site.process);
    let all = clients(address, CLIENTS);
    wait_for(status, 100 + CLIENTS);
    let taken = resident(site.process).saturating_sub(before);
    let received = CLIENTS * request().len();
    let each = taken / CLIENTS;
    assert!(
        taken <= 20 * received,
        "{taken} bytes of memory for {received} received: {each} for a client"
    );
    drop((first, all));
}

/// So many clients who have sent a byte of their bodies.
fn clients(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let request = request();
    let connect = |_| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&request).unwrap();
        client
    };
    (0..count).map(connect).collect()
}

/// Until so many are connected, and nothing is left to do for them.
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
