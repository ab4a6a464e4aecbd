//! What `tamarisk serve` and `tamarisk protect` make of their addresses at the start.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::support::process::Site;
use crate::support::said::Said;
use crate::support::{STUCK, connection};

/// Nobody answers there, and nobody is asked.
const UPSTREAM: &str = "http://127.0.0.1:9";

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The command ends at once with exit code 1, and says this.
fn rejected(args: &[&str], expected: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_tamarisk")).args(args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.contains(expected), "{args:?}: {said}");
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// That `/a.txt` is answered there.
fn is_served(address: SocketAddr) {
    connection(address, true, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
}

#[test]
fn a_second_process_on_the_same_address_is_an_error() {
    let first = Site::start("second-serve", |_| {});
    let address = first.serves();
    let (listen, folder) = (address.to_string(), first.folder.join("public"));
    let expected = format!("cannot listen on {listen}");
    rejected(&["protect", UPSTREAM, "--listen", &listen], &expected);
    rejected(&["serve", folder.to_str().unwrap(), "--listen", &listen], &expected);
    rejected(&["protect", UPSTREAM, "--listen", "127.0.0.1:0", "--status", &listen], &expected);
    is_served(address);
    let first = Site::protect("second-protect", UPSTREAM, &[]);
    let listen = first.serves().to_string();
    rejected(&["protect", UPSTREAM, "--listen", &listen], &format!("cannot listen on {listen}"));
}

#[test]
fn clients_and_status_need_different_addresses() {
    let address = format!("127.0.0.1:{}", free_port());
    let expected = format!("the status port ({address}) is where clients are served ({address})");
    rejected(&["protect", UPSTREAM, "--listen", &address, "--status", &address], &expected);
    let folder = std::env::temp_dir();
    let folder = folder.to_str().unwrap();
    rejected(&["serve", folder, "--listen", &address, "--status", &address], &expected);
}

#[test]
fn an_upstream_whose_host_has_no_address_is_an_error() {
    let args = ["protect", "http://no-such-host.invalid:80", "--listen", "127.0.0.1:0"];
    rejected(&args, "cannot resolve \"no-such-host.invalid\"");
}

#[test]
fn a_percentile_of_one_hundred_is_an_error() {
    let name = format!("tamarisk-p100-{}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let text =
        format!("listen = \"127.0.0.1:0\"\np100 = \"1s\"\n[upstreams.app]\nurl = \"{UPSTREAM}\"\n");
    fs::write(&file, text).unwrap();
    rejected(&["protect", "--config", file.to_str().unwrap()], "\"p100\"");
    fs::remove_file(file).unwrap();
}

#[test]
fn a_check_reads_the_token() {
    let folder = std::env::temp_dir().join(format!("tamarisk-no-token-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file.toml");
    let path = file.to_str().unwrap();
    let front = "listen = '127.0.0.1:0'\nstatus = '127.0.0.1:0'\np90 = '1s'\n\
                 status_token = { file = 'token' }\n";
    let expected = format!("cannot read the token in {}", folder.join("token").display());
    let upstream = format!("[upstreams.app]\nurl = '{UPSTREAM}'\n");
    let checks = [
        (["protect", "--check", "--config", path], upstream.as_str()),
        (["serve", "--check", path, "--verbose"], "[[host]]\nroot = '.'\n"),
    ];
    for (args, rest) in checks {
        fs::write(&file, [front, rest].concat()).unwrap();
        rejected(&args, &expected);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_port_alone_and_localhost_are_addresses() {
    for (name, listen) in [("port", ":0"), ("localhost", "localhost:0")] {
        let site = Site::run(name, "Serving ", |folder, command| {
            command.args(["serve", "--listen", listen]).arg(folder.join("public"));
        });
        let port = site.serves().port();
        is_served(SocketAddr::from(([127, 0, 0, 1], port)));
        for upstream in [format!(":{port}"), format!("localhost:{port}")] {
            is_served(Site::protect("upstream", &upstream, &[]).serves());
        }
    }
}

#[test]
fn the_token_from_a_file_changes_the_target_of_the_default_stage() {
    let site = Site::run("token", "Protecting ", |folder, command| {
        let file = folder.join("token");
        fs::write(&file, TOKEN).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        command.args(["protect", UPSTREAM, "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"]);
        command.arg("--status-token-file").arg(file);
    });
    let status = site.says("Status on http://");
    let status: SocketAddr = status.trim_end_matches('/').parse().unwrap();
    let change = |token: &str| {
        let body = r#"{"upstream": {"default": {"p90": "100ms"}}}"#;
        let head = format!("authorization: Bearer {token}\r\ncontent-length: {}", body.len());
        let fields = format!("host: {status}\r\nconnection: close\r\n{head}");
        exchange(status, &format!("PATCH /targets HTTP/1.1\r\n{fields}\r\n\r\n{body}"))
    };
    let rejected = change("another one, which is as long as it");
    assert!(rejected.starts_with("HTTP/1.1 401 "), "{rejected}");
    let changed = change(TOKEN);
    assert!(
        changed.starts_with("HTTP/1.1 200 ") && changed.contains(r#""p90":"0.1s""#),
        "{changed}"
    );
    assert_eq!(site.says("\"upstream\" changed over the status port: p90 1 s → "), "p90 100 ms.");
}

#[test]
fn a_token_that_others_can_read_is_warned_of() {
    let site = Site::run("readable-token", "Protecting ", |folder, command| {
        let file = folder.join("token");
        fs::write(&file, TOKEN).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        command.args(["protect", UPSTREAM, "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"]);
        command.arg("--status-token-file").arg(file);
    });
    let file = site.folder.join("token");
    let said = site.says("Other users can read the token in ");
    assert_eq!(said, format!("{0}: run `chmod 600 {0}`.", file.display()));
}

#[test]
fn the_status_answers_to_hosts_of_the_file_and_of_the_command_line() {
    let site = Site::run("status-host", "Protecting ", |folder, command| {
        let front = "listen = '127.0.0.1:0'\nstatus = '127.0.0.1:0'\np90 = '1s'\n";
        let hosts = "status_hosts = ['file.example']\n";
        let upstream = format!("[upstreams.app]\nurl = '{UPSTREAM}'\n");
        fs::write(folder.join("file.toml"), [front, hosts, &upstream].concat()).unwrap();
        command.args(["protect", "--config"]).arg(folder.join("file.toml"));
        command.args(["--status-host", "one.example", "--status-host", "two.example"]);
    });
    let status: SocketAddr = site.says("Status on http://").trim_end_matches('/').parse().unwrap();
    for (host, expected) in [
        ("file.example", "200"),
        ("one.example", "200"),
        ("two.example:9090", "200"),
        ("three.example", "421"),
    ] {
        let fields = format!("host: {host}\r\nconnection: close");
        let answer = exchange(status, &format!("GET /health HTTP/1.1\r\n{fields}\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{host}: {answer}");
    }
}

/// `protect`, started by a shell that sets this limit of open files; `limits` stand in its file.
fn limited(folder: &Path, ulimit: &str, limits: &str) -> Command {
    let front = "listen = '127.0.0.1:0'\ncores = 2\np90 = '1s'\n";
    let upstream = format!("[upstreams.app]\nurl = '{UPSTREAM}'\n");
    let file = folder.join("file.toml");
    fs::write(&file, [front, limits, &upstream].concat()).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit {ulimit}; exec \"$0\" \"$@\""));
    command.arg(env!("CARGO_BIN_EXE_tamarisk")).args(["protect", "--config"]).arg(file);
    command.stderr(Stdio::piped()).process_group(0);
    command
}

#[test]
fn as_many_files_may_be_open_as_the_system_allows() {
    let site = Site::run("soft-limit", "Protecting ", |folder, command| {
        *command = limited(folder, "-Sn 256", "");
    });
    site.serves();
    let limits = fs::read_to_string(format!("/proc/{}/limits", site.process)).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let [soft, hard, _] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
    let expected = hard.parse().map_or(1 << 20, |hard: u64| hard.min(1 << 20));
    assert_eq!(soft.parse::<u64>(), Ok(expected), "{line}");
}

#[test]
fn a_low_limit_of_open_files_is_warned_of() {
    let site = Site::run("hard-limit", "Protecting ", |folder, command| {
        *command = limited(folder, "-n 256", "");
    });
    let said = site.says("At most ");
    // But for 64 files, each may need another one to the upstream.
    let expected = "80 connections are possible with 256 open files and ";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn a_stated_number_of_connections_is_not_warned_of() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stated-limit");
    fs::create_dir_all(&folder).unwrap();
    let mut command = limited(&folder, "-n 256", "limits = { connections = 20 }\n");
    let mut process = command.spawn().unwrap();
    let said = Said::by(process.stderr.take().unwrap());
    said.up_to(" at http://");
    let sent = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let said = said.up_to("Drained: ");
    assert!(process.wait().unwrap().success());
    assert!(!said.contains("connections are possible"), "{said}");
}
