//! `tamarisk serve` and `tamarisk protect` hand over to a new process under load, and take sockets
//! from systemd.

use std::fs;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::process::Site;
use crate::support::{Ended, Load, STUCK, connection, said};
use command_fds::{CommandFdExt, FdMapping};
use tamarisk_trace::Reader;

#[test]
fn ten_restarts_under_load_fail_no_request() {
    check_restarts(Site::start("restart", |_| {}), 10);
}

#[test]
fn nor_do_restarts_of_a_proxy() {
    let behind = Site::start("restart-behind", |_| {});
    let url = format!("http://{}", behind.serves());
    check_restarts(Site::protect("restart-proxy", &url, &["--p90", "60s"]), 5);
}

fn check_restarts(mut site: Site, count: usize) {
    let address = site.serves();
    let load = Load::start(address);
    for _ in 0..count {
        load.wait_for(200);
        site.signal("-USR2");
        // Two processes speak, in no order.
        let [successor, serving, drained] =
            site.says_all(["Restart: started process ", site.greeting, "Drained: "]);
        assert_eq!(said::address(&serving), address.to_string(), "the same sockets");
        assert_eq!(drained, "all requests were completed.");
        site.process = successor.split(',').next().unwrap().parse().unwrap();
    }
    load.wait_for(200);
    let Ended { answered, failures, .. } = load.end();
    assert!(failures.is_empty(), "of {answered}: {failures:?}");
    site.signal("-TERM");
    site.says("Drained: ");
}

#[test]
fn a_service_is_healthy_while_its_predecessor_drains() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    // One that is free, for both processes.
    let status = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = status.to_string();
    let mut site =
        Site::protect("restart-health", &url, &["--p90", "60s", "--status", port.as_str()]);
    let mut slow = TcpStream::connect(site.serves()).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    let (mut held, _) = upstream.accept().unwrap();
    site.signal("-USR2");
    let [successor, _, _] =
        site.says_all(["Restart: started process ", site.greeting, "Draining for up to "]);
    site.process = successor.split(',').next().unwrap().parse().unwrap();
    // Who connects in the moment in which the predecessor leaves the port is reset, and asks again.
    let answers: Vec<String> = (0..100).filter_map(|_| health(status).ok()).take(50).collect();
    assert_eq!(answers.len(), 50);
    let unhealthy: Vec<_> = answers.iter().filter(|it| !it.starts_with("HTTP/1.1 200 ")).collect();
    assert!(unhealthy.is_empty(), "{unhealthy:?}");
    held.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nslow").unwrap();
    let mut answer = String::new();
    slow.set_read_timeout(Some(STUCK)).unwrap();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nslow"), "{answer}");
    assert_eq!(site.says("Drained: "), "all requests were completed.");
    site.signal("-TERM");
    site.says("Drained: ");
}

/// What `/health` of the status port there answers on a connection of its own.
fn health(status: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(status)?;
    stream.set_read_timeout(Some(STUCK))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

#[test]
fn a_successor_that_cannot_serve_takes_nothing_over() {
    let site = Site::start("successor", |_| {});
    let address = site.serves();
    fs::rename(site.folder.join("public"), site.folder.join("moved")).unwrap();
    site.signal("-USR2");
    let failed = site.says("Restart failed: process ");
    assert!(
        failed.ends_with("did not take over (exit status: 1). This process continues to serve."),
        "{failed}"
    );
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    connection(address, true, &stop, &answered).unwrap();
    assert_eq!(answered.load(Ordering::Relaxed), 1);
    site.signal("-TERM");
    site.says("Drained: ");
}

#[test]
fn sockets_of_a_service_manager_are_served_and_it_is_told() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let name = format!("tamarisk-notify-{}", std::process::id());
    let told = std::env::temp_dir().join(name);
    let manager = UnixDatagram::bind(&told).unwrap();
    manager.set_read_timeout(Some(STUCK)).unwrap();
    let mut site = Site::start("activation", |command| {
        let mappings = (3..).zip(listeners).map(|(child_fd, listener)| {
            let parent_fd = listener.into();
            FdMapping { parent_fd, child_fd }
        });
        command
            .env("LISTEN_FDS", "2")
            .env("NOTIFY_SOCKET", &told)
            .fd_mappings(mappings.collect())
            .unwrap();
    });
    let is_told = || {
        let mut state = [0; 100];
        let length = manager.recv(&mut state).unwrap();
        String::from_utf8(state[..length].to_vec()).unwrap()
    };
    assert_eq!(is_told(), format!("READY=1\nMAINPID={}\n", site.process));
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    for _ in 0..5 {
        for address in addresses {
            connection(address, true, &stop, &answered).unwrap();
        }
    }
    assert_eq!(answered.load(Ordering::Relaxed), 10);
    site.signal("-HUP");
    assert!(is_told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(is_told(), "READY=1\n");
    site.signal("-USR2");
    let [successor, _, _] =
        site.says_all(["Restart: started process ", site.greeting, "Drained: "]);
    site.process = successor.split(',').next().unwrap().parse().unwrap();
    assert_eq!(is_told(), format!("READY=1\nMAINPID={}\n", site.process));
    manager.set_nonblocking(true).unwrap();
    let more = manager.recv(&mut [0; 100]).map_err(|error| error.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock), "the service goes on");
    manager.set_nonblocking(false).unwrap();
    site.signal("-TERM");
    assert_eq!(is_told(), "STOPPING=1\n");
    site.says("Drained: ");
    assert!(site.first.wait().unwrap().success());
    fs::remove_file(told).unwrap();
}

#[test]
fn a_proxy_without_a_file_survives_sighup() {
    let behind = Site::start("hangup-behind", |_| {});
    let url = format!("http://{}", behind.serves());
    let mut site = Site::protect("hangup", &url, &[]);
    let address = site.serves();
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    site.signal("-HUP");
    connection(address, true, &stop, &answered).unwrap();
    site.signal("-HUP");
    site.signal("-TERM");
    site.says("Drained: ");
    assert!(site.first.wait().unwrap().success());
    assert_eq!(answered.load(Ordering::Relaxed), 1);
}

#[test]
fn each_process_has_a_recording_of_its_own() {
    let behind = Site::start("record-behind", |_| {});
    let url = format!("http://{}", behind.serves());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("restart.trace");
    let mut site = Site::protect("record", &url, &["--record", file.to_str().unwrap()]);
    let address = site.serves();
    let ask = || {
        let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        connection(address, true, &stop, &answered).unwrap();
    };
    let started = "Recording to ";
    site.says(started);
    let first = fs::File::open(&file).unwrap();
    ask();
    site.signal("-USR2");
    let ended = "restart.trace: ";
    let [successor, _, first_ended] = site.says_all(["Restart: started process ", started, ended]);
    site.process = successor.split(',').next().unwrap().parse().unwrap();
    ask();
    site.signal("-TERM");
    let second_ended = site.says(ended);
    let second = fs::File::open(&file).unwrap();
    for (trace, said) in [(first, first_ended), (second, second_ended)] {
        let mut trace = Reader::new(BufReader::new(trace)).unwrap();
        let mut records = 0;
        while trace.next().unwrap().is_some() {
            records += 1;
        }
        assert!(said.starts_with(&format!("{records} records in ")), "{records}: {said}");
        assert!(records > 0 && trace.end().is_some());
    }
}

#[test]
fn a_process_with_sockets_of_a_service_manager_shares_no_status_port() {
    let first = Site::start("status-first", |command| {
        command.args(["--status", "127.0.0.1:0"]);
    });
    let status = first.says("Status on http://");
    let status = status.trim_end_matches('/');
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = Site::start("status-second", |command| {
        let mapping = FdMapping { parent_fd: listener.into(), child_fd: 3 };
        command.args(["--status", status]).env("LISTEN_FDS", "1");
        command.fd_mappings(vec![mapping]).unwrap();
    });
    second.says(&format!("cannot listen on {status}"));
}
