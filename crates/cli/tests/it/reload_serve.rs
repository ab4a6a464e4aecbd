//! SIGHUP makes `tamarisk serve` read its file again.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::said::Said;
use crate::support::{Ended, KEPT, Load};

/// Serves `hello` and, whatever its number is, the rest that clients do not ask for.
const SITE: &str = r#"
    listen = "127.0.0.1:0"
    cores = 2
    [[host]]
    root = "public"
"#;

/// A server for the `site.toml` of a folder, until the test ends.
struct Site {
    folder: PathBuf,
    process: Child,
    said: Said,
    address: SocketAddr,
}

impl Site {
    fn start(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        for (file, content) in [("public/a.txt", "hello"), ("docs/b.txt", "docs")] {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        fs::write(folder.join("site.toml"), SITE).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["serve", "site.toml"])
            .current_dir(&folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Said::by(process.stderr.take().unwrap());
        let address = said.address().parse().unwrap();
        Self { folder, process, said, address }
    }

    /// Lets it read `text`, and what it says up to a line that begins with `end`.
    fn read_again(&self, text: &str, end: &str) -> String {
        fs::write(self.folder.join("site.toml"), text).unwrap();
        self.signal("-HUP");
        self.said.up_to(end)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// An answer to curl, with its head.
    fn get(&self, host: &str, path: &str) -> String {
        let output = Command::new("curl")
            .args(["--silent", "--include", "--max-time", "60", "--header"])
            .arg(format!("host: {host}"))
            .arg(format!("http://{}{path}", self.address))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn sighup_changes_what_is_served_and_fails_no_request_and_closes_no_connection() {
    let mut site = Site::start("reload-serve");
    let other = format!(
        "{SITE}cache_control = \"max-age=7\"\n[[host.route]]\npath = \"/docs\"\n\
         root = \"docs\"\np90 = \"2s\"\n[[host]]\nnames = [\"other.example\"]\nroot = \"docs\"\n"
    );
    let load = Load::start(site.address);
    for turn in 0..5 {
        load.wait_for(200);
        assert!(site.get("a", "/docs/b.txt").starts_with("HTTP/1.1 404 "), "{turn}");
        assert!(site.get("other.example", "/b.txt").starts_with("HTTP/1.1 404 "), "{turn}");
        let said = site.read_again(&other, "Configuration reloaded");
        let expected = "changed: the route \"/\" of \"default\" (cache_control: none → \
            \"max-age=7\"), the route \"/docs\" of \"default\" (new), \
            the host \"other.example\" (new).";
        assert!(said.contains(expected), "{said}");
        assert!(site.get("a", "/docs/b.txt").ends_with("\r\ndocs"), "{turn}");
        assert!(site.get("other.example", "/b.txt").ends_with("\r\ndocs"), "{turn}");
        let page = site.get("a", "/a.txt");
        assert!(page.contains("cache-control: max-age=7\r\n"), "{page}");

        load.wait_for(200);
        let said = site.read_again(&other.replace("root", "rot"), "Configuration not reloaded: ");
        assert!(said.contains("unknown key \"rot\"") && said.contains("[site.toml:5:5]"), "{said}");
        assert!(site.get("a", "/docs/b.txt").ends_with("\r\ndocs"), "as it was");
        let said = site.read_again(SITE, "Configuration reloaded");
        assert!(said.contains("(cache_control: \"max-age=7\" → none)"), "{said}");
        assert!(said.contains("the host \"other.example\" (removed)"), "{said}");
        assert!(!site.get("a", "/a.txt").contains("cache-control"));
    }
    load.wait_for(200);
    let Ended { answered, kept, failures } = load.end();
    assert!(failures.is_empty(), "of {answered}: {failures:?}");
    assert_eq!(kept, KEPT, "every client is still on its first connection");
    site.signal("-TERM");
    assert!(site.process.wait().unwrap().success());
}

#[test]
fn what_changes_is_told_from_what_to_what() {
    let site = Site::start("reload-values");
    let other = SITE.replace("= 2", "= 2\np90 = \"200ms\"\ncache = \"8MiB\"");
    let said = site.read_again(&other, "Configuration reloaded");
    let expected = "changed: the target: p90 1 s → p90 200 ms, cache: 64MiB → 8MiB.";
    assert!(said.contains(expected), "{said}");
    let said = site.read_again(SITE, "Configuration reloaded");
    let expected = "changed: the target: p90 200 ms → p90 1 s, cache: 8MiB → 64MiB.";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_new_service_whose_host_is_unknown_changes_nothing() {
    let site = Site::start("reload-unknown-host");
    let proxied = format!(
        "{SITE}cache_control = \"max-age=7\"\n[[host.route]]\npath = \"/api\"\n\
         proxy = \"http://nowhere.invalid:80\"\n"
    );
    let said = site.read_again(&proxied, "Configuration not reloaded");
    assert!(said.contains("nowhere.invalid"), "{said}");
    assert!(!site.get("a", "/a.txt").contains("cache-control"));
}

#[test]
fn what_needs_a_restart_is_named_and_stays() {
    let site = Site::start("reload-restart");
    let other = SITE.replace(":0\"", ":1\"").replace("= 2", "= 1\nstatus = \"127.0.0.1:0\"");
    let said = site.read_again(&other, "Configuration reloaded");
    // Another process would have the sockets of this one, and so its address.
    let expected = "Configuration reloaded, except for 3 changes that need a restart (stop and start the \
        service for another `listen`): listen: 127.0.0.1:0 → 127.0.0.1:1, status: none → \
        127.0.0.1:0, cores: 2 → 1.\n";
    assert!(said.ends_with(expected), "{said}");
    assert!(site.get("a", "/a.txt").ends_with("\r\nhello"));
}
