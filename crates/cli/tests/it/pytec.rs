//! `tamarisk pytec`, with the sample site.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::support::process::Site;

fn sample() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/pytec");
    folder.to_str().unwrap().to_owned()
}

fn send(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
}

#[test]
fn the_sample_site_is_served_and_drained() {
    let site = Site::run("pytec", "Serving ", |folder, command| {
        let options = ["--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"];
        // The guest book is kept among temporary files.
        command.args(["pytec", &sample()]).args(options).env("TMPDIR", folder);
    });
    let address = site.serves();
    assert!(get(address, "/").contains("<h1>A site in PyTeC</h1>"));
    assert!(get(address, "/style.css").contains("content-type: text/css"));
    assert!(get(address, "/primes?below=100").contains("<h1>25 primes below 100</h1>"));
    assert!(get(address, "/digits?count=5").contains("<pre>31415</pre>"));
    let broken = get(address, "/broken");
    assert!(broken.contains("broken.pytec:5: ZeroDivisionError: division by zero"), "{broken}");
    let form = "name=%3CAnn%3E&text=Hello";
    let head = "content-type: application/x-www-form-urlencoded\r\nhost: a\r\nconnection: close";
    let length = form.len();
    let signed = send(
        address,
        &format!("POST /guestbook HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{form}"),
    );
    assert!(
        signed.starts_with("HTTP/1.1 303 ") && signed.contains("location: /guestbook"),
        "{signed}"
    );
    assert!(get(address, "/guestbook").contains("<b>&lt;Ann&gt;</b>"));
    for path in ["/guestbook.pytec", "/header.pyh", "/lib/guests.py", "/pytec.toml"] {
        assert!(get(address, path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    site.signal("-USR2");
    site.says("SIGUSR2 is ignored: restart the service instead.");
    assert!(get(address, "/style.css").contains("content-type: text/css"), "it serves on");
    site.signal("-TERM");
    site.says("Drained: all requests were completed.");
}

#[test]
fn a_check_finds_errors_and_serves_nothing() {
    let check = |folder: &str| {
        let run = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["pytec", folder, "--check"])
            .output();
        let run = run.unwrap();
        let said = [run.stdout, run.stderr].concat();
        (run.status.code(), String::from_utf8(said).unwrap())
    };
    assert_eq!(check(&sample()), (Some(0), "No errors in 5 pages.\n".to_owned()));

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pytec-check");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.pytec"), "\n<%pytec x = %>").unwrap();
    let (code, said) = check(folder.to_str().unwrap());
    assert_eq!(code, Some(1));
    assert_eq!(said, "a.pytec:2: SyntaxError: invalid syntax\n1 error in 1 page.\n");
}
