//! What `tamarisk protect` says while it runs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::said::{Said, address};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

struct Protect {
    process: Child,
    said: Said,
    address: SocketAddr,
}

impl Protect {
    fn start(upstream: SocketAddr, args: &[&str]) -> Self {
        let upstream = upstream.to_string();
        Self::run(&[&[upstream.as_str(), "--listen", "127.0.0.1:0", "--cores", "1"], args].concat())
    }

    fn run(args: &[&str]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_tamarisk")).arg("protect").args(args))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = Said::by(process.stderr.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut protect = Self { process, said, address };
        protect.address = protect.said.address().parse().unwrap();
        protect
    }

    /// The next line with `part` in it.
    fn says(&self, part: &str) -> String {
        self.said.up_to(part).lines().last().unwrap().to_owned()
    }

    fn get(&self, fields: &str) -> String {
        get(self.address, fields)
    }

    /// Ends it as a service manager does, and what it says until it has drained.
    fn end(&self) -> String {
        let sent = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
        self.said.up_to("Drained: ")
    }
}

impl Drop for Protect {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn get(address: SocketAddr, fields: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Answers each connection's first request.
fn serve(listener: TcpListener) {
    serve_after(Duration::ZERO, listener);
}

/// The same, after so long.
fn serve_after(time: Duration, listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            thread::sleep(time);
            let _ = stream.write_all(OK);
        }
    });
}

/// A line without its time, and with the values in it that vary replaced.
fn plain(line: &str, values: &[(&str, &str)]) -> String {
    let (time, rest) = line.split_at(24);
    assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{line}");
    values.iter().fold(rest.to_owned(), |line, (value, name)| line.replace(value, name))
}

/// Sends a body that is too long to be kept in memory; the answer.
fn post_long(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 70000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[b'x'; 70_000]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_folder_that_request_bodies_cannot_be_written_to_is_told_once_with_the_reason_and_the_cure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap().to_string();
    serve(listener);
    let folder = std::env::temp_dir().join(format!("tamarisk-no-folder-{}", std::process::id()));
    let protect = Protect::spawn(
        Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["protect", &upstream, "--listen", "127.0.0.1:0", "--cores", "1"])
            .env("TMPDIR", &folder),
    );
    for _ in 0..3 {
        let answer = post_long(protect.address);
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("disk"), "{answer}");
    }
    // Short ones need no folder.
    assert!(protect.get("").starts_with("HTTP/1.1 200"));
    let said = protect.end();
    let told: Vec<_> = said.lines().filter(|line| line.contains("Request bodies")).collect();
    let folder = folder.display().to_string();
    let told: Vec<_> = told.iter().map(|line| plain(line, &[(&folder, "FOLDER")])).collect();
    assert_eq!(
        told,
        ["  WARN Request bodies cannot be written to \"FOLDER\": No such file or directory (os \
          error 2). Make that folder writable, or set TMPDIR to another one."]
    );
}

#[test]
fn an_upstream_that_is_lost_and_comes_back_is_told_once_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    drop(listener);
    let protect = Protect::start(upstream, &[]);
    for _ in 0..5 {
        assert!(protect.get("").starts_with("HTTP/1.1 502"));
    }
    let address = upstream.to_string();
    let values = [(address.as_str(), "UPSTREAM")];
    assert_eq!(
        plain(&protect.says("cannot be reached"), &values),
        "  WARN UPSTREAM cannot be reached (connection refused); requests get 502."
    );
    let line = plain(&protect.says("fail"), &values);
    assert!(line.starts_with("  WARN Requests to UPSTREAM fail: 5 of 5 in the last "), "{line}");
    assert!(line.ends_with("; the last one: cannot connect to UPSTREAM."), "{line}");

    serve(TcpListener::bind(upstream).unwrap());
    assert!(protect.get("").ends_with("ok"));
    let line = protect.said.line();
    let line = plain(&line, &values);
    assert!(line.starts_with("  INFO UPSTREAM can be reached again after "), "{line}");
    assert!(line.ends_with(" s; 5 attempts to connect failed."), "{line}");
}

#[test]
fn an_upstream_that_refuses_now_and_then_does_not_flood_the_log() {
    let mut listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let protect = Protect::start(upstream, &[]);
    for _ in 0..10 {
        drop(listener);
        assert!(protect.get("").starts_with("HTTP/1.1 502"));
        listener = TcpListener::bind(upstream).unwrap();
        let address = protect.address;
        let asking = thread::spawn(move || get(address, ""));
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(OK).unwrap();
        assert!(asking.join().unwrap().ends_with("ok"));
    }
    let said = protect.end();
    let told = |part| said.lines().filter(|line| line.contains(part)).count();
    // Ten times each, if each refusal was told. The first pair and the next beginning are; then it
    // would have to be calm for ten seconds.
    assert!((1..=4).contains(&told("cannot be reached")), "{said}");
    assert!((1..=4).contains(&told("can be reached again")), "{said}");
}

#[test]
fn an_overload_is_told_in_one_line_when_it_begins_and_in_one_when_it_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-at-a-time.toml");
    let text = format!(
        "listen = '127.0.0.1:0'\ncores = 1\np90 = '1s'\n[upstreams.upstream]\n\
         url = 'http://{upstream}'\nworkers = 1\nadmission = {{ law = 'threshold', queued_count = 0 }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let protect = Protect::run(&["--config", file.to_str().unwrap(), "--message-format", "json"]);
    let address = protect.address;
    let first = thread::spawn(move || get(address, ""));
    // While the upstream works at the first request, there is no place for another one.
    let (mut held, _) = listener.accept().unwrap();
    let _ = held.read(&mut [0; 4096]);
    for _ in 0..5 {
        assert!(protect.get("").starts_with("HTTP/1.1 503"));
    }
    let read = |part| serde_json::from_str::<serde_json::Value>(&protect.says(part)).unwrap();
    let begins = read("Overload of");
    assert_eq!((&begins["level"], &begins["stage"]), (&"WARN".into(), &"upstream".into()));
    assert_eq!((&begins["count"], &begins["requests"]), (&5.into(), &5.into()));
    let message = begins["message"].as_str().unwrap();
    let start = format!("Overload of {upstream}: 5 of 5 requests got 503 in the last ");
    assert!(message.starts_with(&start), "{message}");
    assert!(message.ends_with(" (queue full 5); no other was answered."), "{message}");
    held.write_all(OK).unwrap();
    assert!(first.join().unwrap().ends_with("ok"));
    let line = protect.said.line();
    let ends: serde_json::Value = serde_json::from_str(&line).unwrap();
    let message = ends["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("Overload of {upstream} ended after ")), "{message}");
    assert!(message.ends_with(": 5 of 6 requests got 503."), "{message}");
}

#[test]
fn requests_are_not_told_unless_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    serve(listener);
    let protect = Protect::start(upstream, &["--verbose"]);
    assert!(protect.get("x-request-timeout: 0\r\n").starts_with("HTTP/1.1 503"));
    let line = protect.says("DEBUG GET / of 127.0.0.1 to ");
    let expected = format!("{upstream} rejected: predicted_late (request ");
    assert!(line.contains(&expected), "{line}");

    let quiet = Protect::start(upstream, &[]);
    assert!(quiet.get("x-request-timeout: 0\r\n").starts_with("HTTP/1.1 503"));
    let said = quiet.end();
    assert!(!said.contains("DEBUG"), "{said}");
}

#[test]
fn a_failure_of_the_service_is_told_if_asked_and_five_are_without() {
    const FAILED: &[u8] =
        b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\nconnection: close\r\n\r\noops";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(FAILED);
        }
    });
    let protect = Protect::start(upstream, &["--verbose"]);
    assert!(protect.get("").starts_with("HTTP/1.1 500"));
    let line = protect.says("DEBUG GET / of 127.0.0.1 to ");
    assert!(line.contains(&format!("{upstream} failed: answered 500 after ")), "{line}");
    for _ in 0..4 {
        assert!(protect.get("").starts_with("HTTP/1.1 500"));
    }
    let said = protect.said.up_to("WARN");
    let warned: Vec<_> = said.lines().filter(|line| line.contains("WARN")).collect();
    let [line] = warned[..] else { panic!("{said}") };
    let start = format!("Requests to {upstream} fail: 5 of 5 in the last ");
    assert!(line.contains(&start) && line.ends_with("; the last one: answered 500."), "{line}");
}

#[test]
fn an_upstream_that_speaks_http2_alone_is_told_by_that_name() {
    // A frame of no settings, and GOAWAY.
    const HTTP2: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(HTTP2);
        }
    });
    let protect = Protect::start(upstream, &[]);
    for _ in 0..5 {
        let answer = protect.get("");
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("(http2, "), "{answer}");
    }
    let line = protect.says("fail: 5 of 5 ");
    let why = "; the last one: it answered in HTTP/2; upstreams are spoken to in HTTP/1.1.";
    assert!(line.ends_with(why), "{line}");
}

#[test]
fn the_start_says_what_is_protected_where_and_how() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
    command.args(["protect", &upstream, "--listen", "127.0.0.1:0", "--p90", "200ms"]);
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let line = Said::by(process.stderr.take().unwrap()).up_to("Protecting");
    process.kill().unwrap();
    process.wait().unwrap();
    let address = address(&line);
    let values = [(upstream.as_str(), "UPSTREAM"), (address, "ADDRESS")];
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        plain(line.trim_end(), &values),
        format!(
            "  INFO Protecting http://UPSTREAM at http://ADDRESS: 90 % of answers within 200 ms \
             (work-limit, tamarisk {version})"
        )
    );
}

#[test]
fn a_target_that_is_out_of_reach_is_told_with_what_takes_longest() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    serve_after(Duration::from_millis(30), listener);
    let protect = Protect::start(upstream, &["--p90", "10ms"]);
    let (address, told) = (protect.address, Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&told);
    let client = thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            get(address, "");
        }
    });
    let line = protect.says("Target out of reach: ");
    told.store(true, Ordering::Relaxed);
    client.join().unwrap();
    let expected = "100 % of the requests to \"upstream\" are of a kind that takes longer than its \
                    target on average, even without a queue, such as \"GET /\" (";
    assert!(line.contains(expected), "{line}");
}

#[test]
fn lines_of_the_access_log_that_are_lost_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    serve(listener);
    // A disk that is always full.
    let protect = Protect::start(upstream, &["--log", "/dev/full"]);
    assert!(protect.get("").ends_with("ok"));
    assert_eq!(
        plain(&protect.says("Access log: "), &[]),
        "  WARN Access log: 1 line lost; the disk is full or cannot follow."
    );
}

#[test]
fn connections_that_are_turned_away_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-connection.toml");
    let text = format!(
        "listen = '127.0.0.1:0'\ncores = 1\np90 = '1s'\nlimits = {{ connections = 1 }}\n\
         [upstreams.upstream]\nurl = 'http://{upstream}'\n"
    );
    std::fs::write(&file, text).unwrap();
    let protect = Protect::run(&["--config", file.to_str().unwrap()]);
    let address = protect.address;
    let first = thread::spawn(move || get(address, ""));
    // While its request is under way, its connection gives way to no other one.
    let (mut held, _) = listener.accept().unwrap();
    let _ = held.read(&mut [0; 4096]);
    let mut turned_away = TcpStream::connect(protect.address).unwrap();
    turned_away.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // It is told without having asked.
    let mut head = [0; 12];
    turned_away.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 503");
    held.write_all(OK).unwrap();
    assert!(first.join().unwrap().ends_with("ok"));
    assert_eq!(
        plain(&protect.says("turned away"), &[]),
        "  WARN Connections are turned away: 1 so far; the limit of connections or of open files is \
         reached."
    );
}

/// What the command says that ends without serving, each line as JSON.
fn said_as_json(args: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
        .args(["protect", "--message-format", "json"])
        .args(args)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_error_at_the_start_is_json_too_and_names_what_it_is_about() {
    let upstream = "127.0.0.1:9";
    let said = said_as_json(&[upstream, "--listen", "127.0.0.1:0", "--log", "/no/such/access.log"]);
    let [error] = &said[..] else { panic!("{said:?}") };
    let message =
        "cannot write the access log /no/such/access.log: No such file or directory (os error 2)";
    assert_eq!((&error["level"], &error["message"]), (&"ERROR".into(), &message.into()));
}

#[test]
fn each_mistake_in_the_file_is_json_too_and_says_the_line_and_the_cure() {
    let file = std::env::temp_dir().join(format!("tamarisk-json-{}.toml", std::process::id()));
    std::fs::write(&file, "listen = \"127.0.0.1:0\"\np9O = \"1s\"\n").unwrap();
    let said = said_as_json(&["--config", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let [missing, unknown] = &said[..] else { panic!("{said:?}") };
    let message = missing["message"].as_str().unwrap();
    let place = format!("{}:1: \"upstreams\" is missing: needs ", file.display());
    assert!(message.starts_with(&place), "{message}");
    let message = unknown["message"].as_str().unwrap();
    let place = format!("{}:2: unknown key \"p9O\": expected one of: ", file.display());
    assert!(message.starts_with(&place), "{message}");
    assert!(message.ends_with("; did you mean \"p90\"?"), "{message}");
}

#[test]
fn a_file_that_cannot_be_read_is_json_too_and_says_why() {
    let said = said_as_json(&["--config", "/no/such/protect.toml"]);
    let [error] = &said[..] else { panic!("{said:?}") };
    let message = "cannot read /no/such/protect.toml: No such file or directory (os error 2)";
    assert_eq!(error["message"], message);
}
