//! A site over TLS, asked by curl and OpenSSL.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tamarisk_control::Target;
use tamarisk_haboob::tls::{Identity, Tls, TlsError, Warning};
use tamarisk_haboob::{Options, Running, SiteOptions, config, start};
use tamarisk_server::guard::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Has the same files as they are now.
fn reload(tls: &Tls) -> Result<(), TlsError> {
    tls.take_over(&Tls::open(tls.identities())?);
    Ok(())
}

/// A folder that goes when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tamarisk-tls-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("public")).unwrap();
        fs::write(folder.join("public/a.txt"), "hello").unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A new certificate for `names`, and its key.
    fn identity(&self, file: &str, algorithm: &[&str], names: &str) -> Identity {
        let certificate = self.0.join(format!("{file}.pem"));
        let key = self.0.join(format!("{file}-key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2", "-newkey"])
            .args(algorithm)
            .args(["-subj", &format!("/CN={file}"), "-addext", &format!("subjectAltName={names}")])
            .arg("-out")
            .arg(&certificate)
            .arg("-keyout")
            .arg(&key)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        Identity { certificate, key }
    }

    fn ecdsa(&self, file: &str, names: &str) -> Identity {
        self.identity(file, &["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], names)
    }

    async fn serve(&self, tls: &Tls) -> Running {
        self.serve_within(tls, Limits::default()).await
    }

    async fn serve_within(&self, tls: &Tls, limits: Limits) -> Running {
        let target = Target::p90(Duration::from_secs(1)).unwrap();
        let site = SiteOptions::new(self.0.join("public"), target);
        let mut options = Options::new("127.0.0.1:0".parse().unwrap(), site);
        options.front.tls = Some(tls.clone());
        options.front.server = options.front.server.limits(limits);
        // A busy machine is no reason to reject here.
        options.front.handshake_target = Target::p90(Duration::from_secs(10)).unwrap();
        start(options).await.unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `curl` for `https://{name}/a.txt` at the port of `running`, and what it was told.
fn curl(
    running: &Running,
    name: &str,
    trusted: &Path,
    arguments: &[&str],
) -> Result<String, String> {
    let port = running.local_addr().port();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "20"])
        .args(["--resolve", &format!("{name}:{port}:127.0.0.1"), "--cacert"])
        .arg(trusted)
        .args(arguments)
        .arg(format!("https://{name}:{port}/a.txt"))
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// What `openssl s_client` says of a connection on which it asks for nothing.
fn s_client(running: &Running, arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &running.local_addr().to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same with a request, so that it stays until tickets have come; if it is answered, the
/// server has to say that this was all.
fn s_client_asking(running: &Running, arguments: &[&str]) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-ign_eof", "-connect", &running.local_addr().to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = b"GET /a.txt HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";
    client.stdin.as_mut().unwrap().write_all(request).unwrap();
    let output = client.wait_with_output().unwrap();
    let [told, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(!told.contains("hello") || !errors.contains("unexpected eof"), "{errors}");
    told
}

#[tokio::test]
async fn clients_of_either_version_and_protocol_are_served() {
    let folder = Folder::new();
    let identity = folder.ecdsa("a", "DNS:a.test");
    let tls = Tls::open(vec![identity.clone()]).unwrap();
    let running = folder.serve(&tls).await;
    let verbose = ["--write-out", " %{http_version} %{ssl_verify_result}"];
    for (arguments, version) in [
        (&["--http1.1"][..], "1.1"),
        (&["--http2"], "2"),
        (&["--http1.1", "--tls-max", "1.2"], "1.1"),
        (&["--http2", "--tls-max", "1.2"], "2"),
        (&["--http2", "--tlsv1.3"], "2"),
    ] {
        let arguments = [arguments, &verbose].concat();
        let answer = curl(&running, "a.test", &identity.certificate, &arguments);
        assert_eq!(answer, Ok(format!("hello {version} 0")), "{arguments:?}");
    }
    assert!(curl(&running, "a.test", &identity.certificate, &["--tls-max", "1.1"]).is_err());
    let handshakes = running.handshakes().unwrap().total();
    assert_eq!(handshakes.completed, handshakes.offered, "all were counted: {handshakes:?}");
    assert!(handshakes.completed >= 5);
}

#[tokio::test]
async fn a_client_gets_the_certificate_for_the_name_that_it_asks_for() {
    let folder = Folder::new();
    let identities = vec![
        folder.ecdsa("first", "DNS:first.test"),
        folder.ecdsa("second", "DNS:second.test,DNS:*.second.test"),
        folder.identity("rsa", &["rsa:2048"], "DNS:second.test,DNS:rsa.test"),
    ];
    let tls = Tls::open(identities.clone()).unwrap();
    let running = folder.serve(&tls).await;
    for (name, expected) in [
        ("first.test", "first"),
        ("second.test", "second"),
        ("SECOND.test", "second"),
        ("deep.second.test", "second"),
        ("too.deep.second.test", "first"),
        ("rsa.test", "rsa"),
        ("unknown.test", "first"),
    ] {
        let said = s_client(&running, &["-servername", name]);
        assert!(said.contains(&format!("subject=CN = {expected}\n")), "{name}: {said}");
    }
    let said = s_client(&running, &["-noservername"]);
    assert!(said.contains("subject=CN = first\n"), "{said}");
    let old = ["-servername", "second.test", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"];
    let said = s_client(&running, &old);
    assert!(said.contains("subject=CN = rsa\n"), "the one that it can verify: {said}");
    for (identity, name) in [(0, "first.test"), (1, "deep.second.test"), (2, "rsa.test")] {
        let answer = curl(&running, name, &identities[identity].certificate, &[]);
        assert_eq!(answer.as_deref(), Ok("hello"), "{name}");
    }
}

#[tokio::test]
async fn sessions_are_resumed_also_after_a_reload() {
    let folder = Folder::new();
    let tls = Tls::open(vec![folder.ecdsa("a", "DNS:a.test")]).unwrap();
    let running = folder.serve(&tls).await;
    let session = folder.file("session");
    for version in ["-tls1_3", "-tls1_2"] {
        let first = s_client_asking(&running, &[version, "-sess_out", &session]);
        assert!(first.contains("\nNew, TLSv1") && first.contains("hello"), "{version}: {first}");
        reload(&tls).unwrap();
        let second = s_client_asking(&running, &[version, "-sess_in", &session]);
        assert!(second.contains("\nReused, TLSv1") && second.contains("hello"), "{second}");
    }
    let no_ticket = ["-tls1_2", "-no_ticket"];
    s_client_asking(&running, &[&no_ticket[..], &["-sess_out", &session]].concat());
    let second = s_client_asking(&running, &[&no_ticket[..], &["-sess_in", &session]].concat());
    assert!(second.contains("\nReused, TLSv1.2"), "by its number: {second}");
}

#[tokio::test]
async fn a_reload_is_for_new_handshakes_alone() {
    let folder = Folder::new();
    let identity = folder.ecdsa("a", "DNS:a.test");
    let before = folder.file("before.pem");
    fs::copy(&identity.certificate, &before).unwrap();
    let tls = Tls::open(vec![identity.clone()]).unwrap();
    let running = folder.serve(&tls).await;

    let mut client = tokio::process::Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &running.local_addr().to_string()])
        .args(["-alpn", "http/1.1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut asking, mut answers) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
    let mut ask = async || {
        asking.write_all(b"GET /a.txt HTTP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            let reading = answers.read_buf(&mut answer);
            let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
            assert_ne!(read.unwrap().unwrap(), 0, "it is open");
        }
    };
    ask().await;
    folder.ecdsa("a", "DNS:a.test");
    assert_eq!(curl(&running, "a.test", Path::new(&before), &[]).as_deref(), Ok("hello"));
    reload(&tls).unwrap();
    ask().await;
    assert_eq!(curl(&running, "a.test", &identity.certificate, &[]).as_deref(), Ok("hello"));
    let rejected = curl(&running, "a.test", Path::new(&before), &[]).unwrap_err();
    assert!(rejected.contains("certificate"), "{rejected}");

    fs::write(&identity.key, "nonsense").unwrap();
    assert!(matches!(reload(&tls), Err(TlsError::NoKey { .. })));
    assert_eq!(curl(&running, "a.test", &identity.certificate, &[]).as_deref(), Ok("hello"));
    ask().await;
}

#[tokio::test]
async fn certificates_of_other_files_are_taken_over() {
    let folder = Folder::new();
    let tls = Tls::open(vec![folder.ecdsa("a", "DNS:a.test")]).unwrap();
    let running = folder.serve(&tls).await;
    let both = vec![folder.ecdsa("a", "DNS:a.test"), folder.ecdsa("b", "DNS:b.test")];
    let trusted = both[1].certificate.clone();
    assert!(curl(&running, "b.test", &trusted, &[]).is_err());
    let target = Target::p90(Duration::from_secs(1)).unwrap();
    let site = SiteOptions::new(folder.0.join("public"), target);
    let mut options = Options::new("127.0.0.1:0".parse().unwrap(), site);
    options.front.tls = Some(Tls::open(both).unwrap());
    options.front.server = options.front.server.limits(Limits::default());
    assert_eq!(running.reload(&options).unwrap().changed, ["tls"]);
    assert_eq!(curl(&running, "b.test", &trusted, &[]).as_deref(), Ok("hello"));
    options.front.tls = None;
    let needs_restart = running.reload(&options).unwrap().needs_restart;
    assert_eq!(needs_restart, ["tls (removed)"]);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let folder = Folder::new();
    let good = folder.ecdsa("good", "DNS:good.test");
    let other = folder.ecdsa("other", "DNS:other.test");
    let path = |name: &str| folder.0.join(name);
    fs::write(path("empty"), "").unwrap();
    let garbled = "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
    fs::write(path("garbled"), garbled).unwrap();
    let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(path("hollow"), hollow).unwrap();
    fs::write(path("long"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    fs::write(path("strange"), key).unwrap();
    let error = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Tls::open(vec![good.clone(), Identity { certificate, key }]).unwrap_err().to_string()
    };
    let name = |name: &str| folder.file(name);
    let (good_certificate, good_key) = (good.certificate.as_path(), good.key.as_path());
    assert_eq!(error(&path("no"), good_key), format!("cannot read {}", name("no")));
    assert_eq!(error(good_certificate, &path("no")), format!("cannot read {}", name("no")));
    for (certificate, expected) in [
        ("empty", "NAME contains no PEM certificate"),
        ("garbled", "NAME is not valid PEM"),
        ("hollow", "the certificate in NAME is unusable"),
        ("long", "NAME is larger than 1 MiB"),
    ] {
        let error = error(&path(certificate), good_key);
        assert!(error.starts_with(&expected.replace("NAME", &name(certificate))), "{error}");
    }
    for (key, expected) in [
        ("empty", "NAME contains no unencrypted PEM private key"),
        ("good.pem", "NAME contains no unencrypted PEM private key"),
        ("strange", "the key in NAME is unusable"),
    ] {
        let error = error(good_certificate, &path(key));
        assert!(error.starts_with(&expected.replace("NAME", &name(key))), "{error}");
    }
    let mismatch = "the key in OTHER does not match the first certificate in GOOD"
        .replace("OTHER", other.key.to_str().unwrap())
        .replace("GOOD", good_certificate.to_str().unwrap());
    assert_eq!(error(good_certificate, &other.key), mismatch);
    assert!(matches!(Tls::open(Vec::new()), Err(TlsError::None)));
}

#[test]
fn a_key_that_everyone_can_read_is_warned_of() {
    let folder = Folder::new();
    let identity = folder.ecdsa("a", "DNS:a.test");
    let tls = Tls::open(vec![identity.clone()]).unwrap();
    assert_eq!(tls.warnings(), []);
    fs::set_permissions(&identity.key, fs::Permissions::from_mode(0o644)).unwrap();
    reload(&tls).unwrap();
    assert_eq!(tls.warnings(), [Warning::WorldReadable { file: identity.key }]);
    let nameless = folder.ecdsa("nameless", "IP:127.0.0.1");
    let tls = Tls::open(vec![nameless.clone()]).unwrap();
    assert_eq!(tls.warnings(), [Warning::Nameless { file: nameless.certificate }]);
}

#[tokio::test]
async fn what_is_malformed_is_rejected_behind_tls_as_well() {
    let folder = Folder::new();
    let tls = Tls::open(vec![folder.ecdsa("a", "DNS:a.test")]).unwrap();
    let running = folder.serve(&tls).await;
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &running.local_addr().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Two lengths: one request for one reader, two for another.
    let smuggled = b"POST /a.txt HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\
        content-length: 30\r\n\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\n";
    client.stdin.as_mut().unwrap().write_all(smuggled).unwrap();
    let output = client.wait_with_output().unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");

    // No TLS at all: an alert, and the end.
    let mut plain = TcpStream::connect(running.local_addr()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let reading = plain.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap();
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
}

#[tokio::test]
async fn who_has_agreed_on_a_protocol_is_answered_in_no_other() {
    let folder = Folder::new();
    let tls = Tls::open(vec![folder.ecdsa("a", "DNS:a.test")]).unwrap();
    let running = folder.serve(&tls).await;
    let told = s_client_asking(&running, &["-alpn", "http/1.1"]);
    assert!(told.contains("ALPN protocol: http/1.1") && told.contains("hello"), "{told}");
    let told = s_client_asking(&running, &["-alpn", "h2"]);
    assert!(told.contains("ALPN protocol: h2") && !told.contains("HTTP/1.1 "), "{told}");
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_given_up() {
    let folder = Folder::new();
    let tls = Tls::open(vec![folder.ecdsa("a", "DNS:a.test")]).unwrap();
    let limits = Limits::default().head_time(Duration::from_millis(100));
    let running = folder.serve_within(&tls, limits).await;
    // Nothing; a record's head; the first bytes of a hello that is longer.
    for begun in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"] {
        let mut client = TcpStream::connect(running.local_addr()).await.unwrap();
        client.write_all(begun).await.unwrap();
        let mut answer = Vec::new();
        let reading = client.read_to_end(&mut answer);
        let read = tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap();
        assert!(read.is_err() || answer.is_empty(), "closed without a word: {answer:?}");
    }
    let offered = running.handshakes().unwrap().total().offered;
    assert_eq!(offered, 0, "nobody has said hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_names_certificates_and_services_behind_are_told_of_tls() {
    let folder = Folder::new();
    let identity = folder.ecdsa("site", "DNS:site.example");
    let behind = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = format!(
        "listen = \"127.0.0.1:0\"\n[[tls]]\ncertificate = \"site.pem\"\nkey = \"site-key.pem\"\n\
         [[host]]\n[[host.route]]\npath = \"/\"\nproxy = \"http://{}\"\n",
        behind.local_addr().unwrap()
    );
    let file = folder.0.join("site.toml");
    fs::write(&file, &site).unwrap();
    let mut options = config::load(&file).unwrap();
    options.front.handshake_target = Target::p90(Duration::from_secs(10)).unwrap();
    let running = start(options).await.unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = behind.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        String::from_utf8(head).unwrap()
    });
    assert_eq!(curl(&running, "site.example", &identity.certificate, &[]).unwrap(), "ok");
    let head = asked.await.unwrap();
    assert!(head.contains("\r\nx-forwarded-proto: https\r\n"), "{head}");

    fs::write(&file, site.replace("site-key", "none")).unwrap();
    let mistake = config::load(&file).err().unwrap().to_string();
    assert!(mistake.contains("none.pem"), "{mistake}");
}
