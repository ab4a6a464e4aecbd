//! Certificates of `tamarisk serve` and `tamarisk protect`; SIGHUP makes them read those again.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::support::said::{STUCK, Said};

const SITE: &str = r#"
    listen = "127.0.0.1:0"
    [[tls]]
    certificate = "a.pem"
    key = "a.key"
    [[host]]
    root = "."
"#;

const PROTECT: &str = r#"
    listen = "127.0.0.1:0"
    p90 = "1s"
    [[tls]]
    certificate = "a.pem"
    key = "a.key"
    [upstreams.app]
    url = "http://127.0.0.1:9"
"#;

const FILES: [&str; 4] = ["--tls-cert", "a.pem", "--tls-key", "a.key"];

/// A server for a folder that has its own certificate in it, until the test ends.
struct Site {
    folder: PathBuf,
    process: Child,
    said: Said,
    address: String,
}

impl Site {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let name = format!("tamarisk-hup-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("site.toml"), SITE).unwrap();
        fs::write(folder.join("protect.toml"), PROTECT).unwrap();
        certificate(&folder, "30");
        let mut process = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(arguments)
            .args(["--cores", "1"])
            .current_dir(&folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Said::by(process.stderr.take().unwrap());
        let address = said.address();
        Self { folder, process, said, address }
    }

    fn hang_up(&self) {
        let sent = Command::new("kill").args(["-HUP", &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// The fingerprint of the certificate that clients get.
    fn shows(&self) -> String {
        let client = Command::new("openssl")
            .args(["s_client", "-connect", &self.address])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = self.folder.join("shown.pem");
        fs::write(&shown, client.stdout).unwrap();
        fingerprint(&shown)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes a new certificate and its key in place of the old ones, for so many days.
fn certificate(folder: &Path, days: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-subj", "/CN=a", "-addext", "subjectAltName=DNS:a.test"])
        .args(["-out", "a.pem", "-keyout", "a.key", "-days", days])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

/// Signs the certificate anew, for a time that has passed.
fn expire(folder: &Path) {
    let made = Command::new("openssl")
        .args(["x509", "-in", "a.pem", "-signkey", "a.key", "-days", "-1", "-out", "expired.pem"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    fs::rename(folder.join("expired.pem"), folder.join("a.pem")).unwrap();
}

fn fingerprint(file: &Path) -> String {
    let output = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sighup_takes_new_certificates_and_keeps_the_old_ones_if_they_are_bad() {
    let arguments = ["serve", ".", "--listen", "127.0.0.1:0"];
    let arguments = [&arguments[..], &FILES].concat();
    check_sighup(
        Site::start("arguments", &arguments),
        "cannot set up TLS: a.pem contains no PEM certificate",
    );
}

#[test]
fn so_it_does_with_the_certificates_that_a_file_names() {
    check_sighup(
        Site::start("file", &["serve", "site.toml"]),
        "the file is invalid: a.pem contains no PEM certificate",
    );
}

#[test]
fn so_does_protect() {
    let arguments = ["protect", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"];
    check_sighup(
        Site::start("protect-arguments", &[&arguments[..], &FILES].concat()),
        "cannot set up TLS: a.pem contains no PEM certificate",
    );
    let arguments = ["protect", "--config", "protect.toml"];
    check_sighup(
        Site::start("protect-file", &arguments),
        "the file is invalid: a.pem contains no PEM certificate",
    );
}

#[test]
fn a_protected_service_is_told_of_tls_whatever_the_protocol() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", service.local_addr().unwrap());
    let arguments = ["protect", &url, "--listen", "127.0.0.1:0"];
    let site = Site::start("protect-told", &[&arguments[..], &FILES].concat());
    let port = site.address.rsplit_once(':').unwrap().1;
    for (version, expected) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let curl = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--cacert", "a.pem", version])
            .args(["--resolve", &format!("a.test:{port}:127.0.0.1")])
            .args(["--header", "x-forwarded-proto: http", "--write-out", " %{http_version}"])
            .arg(format!("https://a.test:{port}/"))
            .current_dir(&site.folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut connection = service.accept().unwrap().0;
        connection.set_read_timeout(Some(STUCK)).unwrap();
        let mut head = String::new();
        let mut lines = BufReader::new(connection.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(lines.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
        connection.write_all(answer).unwrap();
        let told = curl.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8(told).unwrap(), format!("ok {expected}"));
        assert!(head.contains("\r\nx-forwarded-proto: https\r\n"), "{head}");
        assert!(head.contains(";proto=https"), "{head}");
        assert!(!head.contains("x-forwarded-proto: http\r\n"), "{head}");
    }
}

fn check_sighup(site: Site, rejected: &str) {
    let file = site.folder.join("a.pem");
    let first = fingerprint(&file);
    assert_eq!(site.shows(), first);
    certificate(&site.folder, "3");
    assert_eq!(site.shows(), first, "until it is told");
    site.hang_up();
    site.said.after("Certificates reloaded.");
    site.said.after("The certificate in a.pem expires on ");
    let second = fingerprint(&file);
    assert_ne!(second, first);
    assert_eq!(site.shows(), second);

    fs::write(&file, "nonsense").unwrap();
    site.hang_up();
    assert_eq!(site.said.after("Configuration not reloaded: "), rejected);
    assert_eq!(site.shows(), second);
}

#[test]
fn an_expired_certificate_is_told() {
    let arguments = ["serve", ".", "--listen", "127.0.0.1:0"];
    let site = Site::start("expired", &[&arguments[..], &FILES].concat());
    expire(&site.folder);
    site.hang_up();
    site.said.after("Certificates reloaded.");
    let rest = site.said.after("The certificate in a.pem expired on ");
    assert!(rest.ends_with(": clients reject it."), "{rest}");
}

#[test]
fn handshakes_that_fail_are_counted() {
    let arguments = ["serve", ".", "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"];
    let site = Site::start("failed-handshake", &[&arguments[..], &FILES].concat());
    let status = format!("{}status", site.said.after("Status on "));
    let failed = || {
        let shown = Command::new("curl").args(["--silent", "--max-time", "60", &status]).output();
        let shown: serde_json::Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
        shown["counters"]["handshakes_failed"].as_u64().unwrap()
    };
    assert_eq!(failed(), 0);
    let mut client = TcpStream::connect(&site.address).unwrap();
    client.set_read_timeout(Some(STUCK)).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    // It may be reset.
    let _ = client.read_to_end(&mut Vec::new());
    let start = Instant::now();
    while failed() == 0 {
        assert!(start.elapsed() < STUCK, "the server has noticed nothing");
    }
    assert_eq!(failed(), 1);
}

#[test]
fn a_certificate_without_its_key_is_a_mistake() {
    for (arguments, said) in [
        (&["--tls-cert", "a.pem"][..], "every --tls-cert needs a --tls-key"),
        (&["--tls-cert", "/no", "--tls-key", "/no"], "cannot set up TLS: cannot read /no: No such"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["serve", ".", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(said), "{error}");
    }
}
