//! `tamarisk serve` under clients that are slow on purpose, as slowhttptest plays them: it goes on
//! answering the others, and rids itself of the slow ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::site::Site;

/// Slow connections at once.
const SLOW: &str = "200";

/// Nothing that a well-behaved client asks for takes longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(20);
const LIMITS: &str = "head_time = \"2s\"\nstall_time = \"2s\"\nidle_time = \"2s\"";

/// More than the sockets of both sides hold.
const PAGE: usize = 16 << 20;

#[test]
fn slow_heads_are_cut_off() {
    withstands("slow-heads", "/", &["-H", "-i", "1", "-x", "8"]);
}

#[test]
fn slow_bodies_are_cut_off() {
    withstands("slow-bodies", "/app", &["-B", "-i", "1", "-x", "8", "-s", "8192"]);
}

#[test]
fn slow_readers_are_cut_off() {
    // At half a kilobyte a second it also notices that it has been cut off.
    withstands("slow-readers", "/", &["-X", "-n", "1", "-z", "512", "-w", "512", "-y", "1024"]);
}

/// slowhttptest attacks `path` with `attack`, and comes to an end before its time because every
/// one of its connections has been closed; to nobody else is anything denied meanwhile.
fn withstands(name: &str, path: &str, attack: &[&str]) {
    let app = silent_app();
    let route = format!("[[host.route]]\npath = \"/app\"\nproxy = \"http://{app}\"");
    let settings = format!("[limits]\n{LIMITS}\n[[host]]\nroot = \"public\"\n{route}\n");
    let site = Site::start(name, &vec![b'x'; PAGE], &settings);
    let mut attacker = Command::new("slowhttptest")
        .args(attack)
        .args(["-c", SLOW, "-r", SLOW, "-l", "30", "-p", "2", "-v", "1"])
        .args(["-u", &format!("http://{}{path}", site.address)])
        .stdout(Stdio::piped())
        .spawn()
        .expect("slowhttptest is needed: apt-get install slowhttptest");
    let mut answers = 0;
    while attacker.try_wait().unwrap().is_none() {
        is_answered(&site);
        answers += 1;
    }
    let mut said = String::new();
    attacker.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("No open connections left"), "{said}");
    assert!(said.contains("YES") && !said.contains("NO\u{1b}"), "{said}");
    assert!(answers > 10, "{answers}");
}

/// A service that takes what comes, and never answers.
fn silent_app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    address
}

fn is_answered(site: &Site) {
    let start = Instant::now();
    let mut client = TcpStream::connect(&site.address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}
