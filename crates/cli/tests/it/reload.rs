//! SIGHUP makes `tamarisk protect` read its file again.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::said::Said;

struct Protect {
    process: Child,
    said: Said,
}

impl Protect {
    fn start(file: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["protect", "--cores", "1", "--config"])
            .arg(file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Said::by(process.stderr.take().unwrap());
        Self { process, said }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Protect {
    fn drop(&mut self) {
        // It has ended already, unless the test has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn sighup_takes_over_targets_and_laws_and_a_mistake_changes_nothing() {
    let file = std::env::temp_dir().join(format!("tamarisk-reload-{}.toml", std::process::id()));
    let text = |target: &str, upstream: &str| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\np90 = \"{target}\"\n[upstreams.app]\nurl = \"{upstream}\"\n"
        );
        fs::write(&file, text).unwrap();
    };
    text("1s", "http://127.0.0.1:9");
    let mut protect = Protect::start(&file);
    protect.said.up_to(" at http://127.0.0.1:");

    text("200ms", "http://127.0.0.1:10");
    protect.signal("-HUP");
    let said = protect.said.up_to("Unchanged until a restart");
    assert!(said.contains("changed: \"app\": p90 1 s → p90 200 ms."), "{said}");
    let cure = format!("(`kill -USR2 {}` loses no request)", protect.process.id());
    let url = "url of \"app\": http://127.0.0.1:9 → http://127.0.0.1:10.";
    assert!(said.contains(&format!("Unchanged until a restart {cure}: {url}")), "{said}");

    // Only that one is left.
    protect.signal("-HUP");
    let said = protect.said.up_to("Configuration reloaded");
    let expected = "WARN Configuration reloaded, except for 1 change that needs a restart ";
    assert!(said.contains(&format!("{expected}{cure}: {url}")), "{said}");

    text("200ms", "http://127.0.0.1:9\"\nworkers = 4\nadmission = \"predict-gate-trim");
    protect.signal("-HUP");
    let said = protect.said.up_to("Configuration reloaded; changed: the laws");
    let changes = "(admission: work-limit → predict-gate-trim, workers: none → fixed).";
    assert!(said.trim_end().ends_with(changes), "{said}");

    let overflow = "overflow = \"http://127.0.0.1:11\"\nadmission = \"predict-gate-trim";
    text("200ms", &format!("http://127.0.0.1:9\"\nworkers = 5\n{overflow}"));
    protect.signal("-HUP");
    let said = protect.said.up_to("Configuration reloaded; changed: ");
    let changes = "changed: the overflow of \"app\": none → http://127.0.0.1:11, \
        the laws of \"app\" (workers_count of workers: 4 → 5).";
    assert!(said.trim_end().ends_with(changes), "{said}");

    text("soon", "http://127.0.0.1:9");
    protect.signal("-HUP");
    let said = protect.said.up_to("Configuration not reloaded");
    assert!(said.contains(":2:7]") && said.contains("a time such as"), "{said}");

    fs::remove_file(&file).unwrap();
    protect.signal("-HUP");
    let said = protect.said.up_to("Configuration not reloaded");
    let why = format!("not reloaded: cannot read {}: No such file", file.display());
    assert!(said.contains(&why), "{said}");

    protect.signal("-TERM");
    protect.said.up_to("Drained");
    assert!(protect.process.wait().unwrap().success());
}

#[test]
fn sighup_reopens_the_access_log_also_while_the_file_is_invalid() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reopened-log");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (file, log) = (folder.join("protect.toml"), folder.join("access.log"));
    let text = "listen = '127.0.0.1:0'\np90 = '1s'\nlog = { file = 'access.log' }\n\
                [upstreams.app]\nurl = 'http://127.0.0.1:9'\n";
    fs::write(&file, text).unwrap();
    let mut protect = Protect::start(&file);
    protect.said.up_to(" at http://127.0.0.1:");

    fs::rename(&log, folder.join("access.log.1")).unwrap();
    fs::write(&file, text.replace("1s", "soon")).unwrap();
    protect.signal("-HUP");
    protect.said.up_to("Access log reopened.");
    protect.said.up_to("Configuration not reloaded: the file is invalid");

    protect.signal("-TERM");
    protect.said.up_to("Drained");
    assert!(protect.process.wait().unwrap().success());
    assert!(log.exists(), "another one has begun");
}

#[test]
fn an_access_log_that_cannot_be_reopened_is_told_with_the_reason() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lost-log");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (file, log) = (folder.join("protect.toml"), folder.join("access.log"));
    let text = "listen = '127.0.0.1:0'\np90 = '1s'\nlog = { file = 'access.log' }\n\
                [upstreams.app]\nurl = 'http://127.0.0.1:9'\n";
    fs::write(&file, text).unwrap();
    let protect = Protect::start(&file);
    protect.said.up_to(" at http://127.0.0.1:");

    fs::rename(&log, folder.join("access.log.1")).unwrap();
    fs::create_dir(&log).unwrap();
    protect.signal("-HUP");
    let said = protect.said.up_to("Configuration reloaded; nothing changed.");
    let why = format!(
        "WARN Access log not reopened: cannot write the access log {}: Is a directory (os error \
         21). Lines are written to the file that was open before.",
        log.display()
    );
    assert!(said.contains(&why) && !said.contains("Access log reopened"), "{said}");

    fs::remove_dir(&log).unwrap();
    protect.signal("-HUP");
    protect.said.up_to("Access log reopened.");
}

#[test]
fn a_file_is_checked_without_protecting() {
    let file = std::env::temp_dir().join(format!("tamarisk-check-{}.toml", std::process::id()));
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .args(["protect", "--check", "--config"])
            .arg(&file)
            .output()
            .unwrap()
    };
    // Nobody may listen there.
    let text = "listen = '127.0.0.1:1'\np90 = '1s'\n[upstreams.app]\nurl = 'http://127.0.0.1:9'\n";
    let checked = check(text);
    assert!(checked.status.success());
    assert_eq!(checked.stdout, b"Configuration valid: 1 upstream.\n");

    let checked = check(&text.replace("p90", "p09x"));
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("unknown key \"p09x\""), "{said}");
    fs::remove_file(&file).unwrap();
}
