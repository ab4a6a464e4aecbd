//! `tamarisk serve` speaks HTTP/2 as h2spec has it, in clear text and over TLS.

use std::path::PathBuf;
use std::process::Command;

use crate::support::site::Site;

/// What depends on timing, and who else is at work, must come out right each time.
const RUNS: usize = 10;

/// The cases of h2spec 2.2.1.
const CASES: u32 = 145;

const HOST: &str = "[[host]]\nroot = \"public\"\n";

const HOW_TO_INSTALL: &str = "h2spec is needed, in the path or where Go installs it: \
    go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

#[test]
fn http2_in_clear_text_is_what_h2spec_expects() {
    let site = Site::start("conformance-clear", &[b'x'; 1024], HOST);
    (0..RUNS).for_each(|_| is_conformant(&site, &[]));
}

#[test]
fn http2_over_tls_is_what_h2spec_expects() {
    let tls = "[[tls]]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n";
    let site = Site::start("conformance-tls", &[b'x'; 1024], &[tls, HOST].concat());
    (0..RUNS).for_each(|_| is_conformant(&site, &["--tls", "--insecure"]));
}

fn is_conformant(site: &Site, options: &[&str]) {
    let output = Command::new(h2spec())
        .args(["--host", "127.0.0.1", "--port", site.port()])
        .args(options)
        .output()
        .expect(HOW_TO_INSTALL);
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{CASES} tests, {CASES} passed, 0 skipped, 0 failed");
    assert!(said.contains(&all), "{}", said.split("Failures:").last().unwrap());
}

fn h2spec() -> PathBuf {
    let installed = std::env::home_dir().map(|home| home.join("go/bin/h2spec"));
    installed.filter(|path| path.exists()).unwrap_or_else(|| "h2spec".into())
}
