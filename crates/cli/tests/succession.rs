//! `tamarisk serve` hands over to a new process under load, and takes sockets from systemd.

#![allow(clippy::unwrap_used, reason = "in a test, what does not hold should fail loudly")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use command_fds::{CommandFdExt, FdMapping};
use support::{Ended, Load, STUCK, connection};

/// A site, and the processes that serve it one after the other.
struct Site {
    folder: PathBuf,
    first: Child,
    /// All their standard errors.
    said: Receiver<String>,
    process: u32,
}

impl Site {
    fn start(name: &str, change: impl FnOnce(&mut Command)) -> Self {
        let folder = std::env::temp_dir().join(format!("tamarisk-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("public")).unwrap();
        fs::write(folder.join("public/a.txt"), "hello").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).arg(folder.join("public"));
        command.stderr(Stdio::piped());
        command.process_group(0);
        change(&mut command);
        let mut first = command.spawn().unwrap();
        let (lines, said) = channel();
        let stderr = BufReader::new(first.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|l| lines.send(l)));
        let process = first.id();
        Self { folder, first, said, process }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// What follows each of `starts` in the next lines that begin so.
    fn says_all<const N: usize>(&self, starts: [&str; N]) -> [String; N] {
        let (mut found, mut lines) = ([const { None }; N], Vec::new());
        while found.iter().any(Option::is_none) {
            let said = self.said.recv_timeout(STUCK);
            let line = said.unwrap_or_else(|_| panic!("{starts:?} are not all in {lines:#?}"));
            for (start, found) in starts.iter().zip(&mut found) {
                *found = found
                    .take()
                    .or_else(|| line.split_once(start).map(|(_, rest)| rest.to_owned()));
            }
            lines.push(line);
        }
        found.map(Option::unwrap)
    }

    fn says(&self, start: &str) -> String {
        let [rest] = self.says_all([start]);
        rest
    }

    /// Where it serves.
    fn serves(&self) -> SocketAddr {
        self.says("Serving on http://").parse().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // All of them: those that came later are in the group of the first one.
        let group = format!("-{}", self.first.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.first.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn ten_restarts_under_load_fail_no_request() {
    let mut site = Site::start("restart", |_| {});
    let address = site.serves();
    let load = Load::start(address);
    for _ in 0..10 {
        load.wait_for(200);
        site.signal("-USR2");
        // Two processes speak, in no order.
        let [successor, serving, drained] =
            site.says_all(["Started process ", "Serving on http://", "Drained: "]);
        assert_eq!(serving, address.to_string(), "the same sockets");
        assert_eq!(drained, "every request under way was finished.");
        site.process = successor.split(',').next().unwrap().parse().unwrap();
    }
    load.wait_for(200);
    let Ended { answered, failures, .. } = load.end();
    assert!(failures.is_empty(), "of {answered}: {failures:?}");
    site.signal("-TERM");
    site.says("Drained: ");
}

#[test]
fn a_successor_that_cannot_serve_takes_nothing_over() {
    let site = Site::start("successor", |_| {});
    let address = site.serves();
    fs::rename(site.folder.join("public"), site.folder.join("moved")).unwrap();
    site.signal("-USR2");
    let failed = site.says("Process ");
    assert!(
        failed.ends_with("has not taken over (exit status: 1): this one serves on."),
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
    let mut state = [0; 100];
    let length = manager.recv(&mut state).unwrap();
    let expected = format!("READY=1\nMAINPID={}", site.process);
    assert_eq!(std::str::from_utf8(&state[..length]).unwrap(), expected);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    for _ in 0..5 {
        for address in addresses {
            connection(address, true, &stop, &answered).unwrap();
        }
    }
    assert_eq!(answered.load(Ordering::Relaxed), 10);
    site.signal("-TERM");
    site.says("Drained: ");
    assert!(site.first.wait().unwrap().success());
    fs::remove_file(told).unwrap();
}
