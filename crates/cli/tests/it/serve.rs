//! `tamarisk serve` with a file.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::said::Said;

/// A folder with a `site.toml` and a page.
fn site(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("public")).unwrap();
    fs::write(folder.join("public/index.html"), "hello").unwrap();
    fs::write(folder.join("site.toml"), text).unwrap();
    folder.join("site.toml")
}

fn serve(file: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamarisk")).arg("serve").arg(file).args(args).output().unwrap()
}

#[test]
fn a_file_is_checked_without_serving() {
    let text = "listen = \"127.0.0.1:1\"\n[[host]]\nroot = \"public\"\n";
    let file = site("serve-check", text);
    let checked = serve(&file, &["--check"]);
    assert!(checked.status.success());
    assert_eq!(checked.stdout, b"Configuration valid: 1 host, 1 route.\n");

    fs::write(&file, text.replace("root", "rot")).unwrap();
    let checked = serve(&file, &["--check"]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    for part in ["unknown key \"rot\"", "site.toml:3:1]", "did you mean \"root\"?"] {
        assert!(said.contains(part), "{part} in {said}");
    }

    let both = serve(&file, &["--check", "--cache", "1GiB"]);
    assert_eq!(both.status.code(), Some(2));
    let said = String::from_utf8(both.stderr).unwrap();
    assert!(said.contains("--cache applies to a folder only: set `cache` in "), "{said}");
}

#[test]
fn a_folder_may_be_listed_and_its_requests_written_to_standard_output() {
    let folder = site("serve-folder", "").with_file_name("");
    let mut process = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
        .args(["serve", "--cores", "1", "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"])
        .args(["--listing", "--log", "-", "--log-format", "json"])
        .arg(&folder)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = Said::by(process.stderr.take().unwrap());
    let address = said.address();
    said.after("Status on http://127.0.0.1:");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("<a href=\"public/\">") && answer.contains("site.toml"), "{answer}");
    let log = Said::by(process.stdout.take().unwrap());
    let line: serde_json::Value = serde_json::from_str(&log.line()).unwrap();
    assert_eq!((&line["target"], &line["status"]), (&"/".into(), &200.into()));
    let sent = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(sent.unwrap().success() && process.wait().unwrap().success());
}

#[test]
fn sighup_opens_the_log_again() {
    let text = "listen = \"127.0.0.1:0\"\ncores = 1\nlog = { file = \"access.log\" }\n\
        [[host]]\nroot = \"public\"\n";
    let file = site("serve-log", text);
    let log = file.with_file_name("access.log");
    let mut process = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
        .arg("serve")
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = Said::by(process.stderr.take().unwrap());
    let address = said.address();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
    };
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    get("/?first");
    fs::rename(&log, log.with_extension("old")).unwrap();
    signal("-HUP");
    assert_eq!(said.after(" INFO "), "Access log reopened.");
    get("/?second");
    signal("-TERM");
    said.up_to("Drained: all requests");
    assert!(process.wait().unwrap().success());
    let (old, new) = (log.with_extension("old"), log);
    let read = |file: &Path| fs::read_to_string(file).unwrap();
    assert!(read(&old).contains("\"GET /?first HTTP/1.1\" 200 5 "), "{}", read(&old));
    assert!(read(&new).contains("\"GET /?second HTTP/1.1\" 200 5 "), "{}", read(&new));
    assert_eq!((read(&old).lines().count(), read(&new).lines().count()), (1, 1));
}
