//! The `tamarisk` command as a user or a script meets it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};

fn tamarisk(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamarisk")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A service that answers `answer` to whatever arrives, until the test ends.
fn service(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                while stream.read(&mut head).is_ok_and(|n| n > 0) {
                    if stream.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A path for a file of this test run.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn load_chooses_from_a_file_of_urls() {
    let address = service(OK);
    let urls: String = (0..9).map(|page| format!("{page}1=http://{address}/{page}\n")).collect();
    let file = scratch("urls.txt");
    std::fs::write(&file, format!("# pages\n\n{urls}")).unwrap();
    let run = |file: &std::path::Path| {
        let file = file.to_str().unwrap();
        tamarisk(&["load", "--urls", file, "--duration", "100ms", "--quiet"])
    };
    let output = run(&file);
    assert!(output.status.success(), "{}", stderr(&output));
    let title = format!("http://{address}/0 and 8 others");
    assert!(stdout(&output).starts_with(&title), "{}", stdout(&output));

    std::fs::write(&file, "http://h/\nftp://h/\n").unwrap();
    let output = run(&file);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("urls.txt, line 2: `ftp://h/`"), "{}", stderr(&output));
}

#[test]
fn load_reports_in_text_json_csv_and_a_plot() {
    let url = format!("http://{}/", service(OK));
    let [json, csv, png] = ["load.json", "load.csv", "load.png"].map(scratch);
    let [json, csv, png] = [&json, &csv, &png].map(|path| path.to_str().unwrap());
    let output = tamarisk(&[
        "load",
        &url,
        "--users",
        "2",
        "--spike",
        "8@200ms..400ms",
        "--duration",
        "600ms",
        "--think",
        "5ms",
        "--target",
        "100ms",
        "--interval",
        "100ms",
        "--json",
        json,
        "--csv",
        csv,
        "--plot",
        png,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("0.2–0.4 s"), "{}", stdout(&output));

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["phases"].as_array().unwrap().len(), 3);
    assert_eq!(report["phases"][1]["level_from"], 8.0);
    assert!(report["total"]["completed"].as_u64().unwrap() > 0);
    assert_eq!(report["total"]["failed"], 0);
    let rows = std::fs::read_to_string(csv).unwrap().lines().count() - 1;
    assert_eq!(rows, report["series"].as_array().unwrap().len());
    assert!(rows >= 6);
    assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn json_has_the_standard_output_for_itself() {
    let url = format!("http://{}/", service(OK));
    let output = tamarisk(&["load", &url, "--rate", "100", "--duration", "200ms", "--json", "-"]);
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["level_unit"], "requests per second");
    assert!(stderr(&output).contains("offered ="), "{}", stderr(&output));
}

#[test]
fn a_service_that_answers_nothing_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let output = tamarisk(&["load", &url, "--duration", "100ms"]);
    assert_eq!(output.status.code(), Some(1));
    for said in ["connection refused", "start the service, or correct the address"] {
        assert!(stdout(&output).contains(said), "{}", stdout(&output));
    }
}

#[test]
fn what_is_not_understood_is_said_with_exit_code_2() {
    fn check(args: &[&str], expected: &str) {
        let output = tamarisk(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
    let url = "http://127.0.0.1:1/";
    check(&["load"], "URL");
    check(&["load", "https://127.0.0.1/"], "cleartext HTTP only");
    check(&["load", url, "--think", "20"], "`20` needs a unit");
    check(&["load", url, "--spike", "9@2s"], "write START..END");
    check(&["load", url, "--step", "9@3s", "--spike", "8@1s..5s"], "overlaps");
    check(&["load", url, "--users", "3", "--rate", "3"], "cannot be used with");
    check(&["load", url, "http://127.0.0.1:2/"], "different servers");
    check(&["load", url, "--json", "-", "--csv", "-"], "are both `-`");
    check(&["load", url, "--users", "0"], "the level is 0 all the time");
    check(&["load", url, "--rate", "0"], "the level is 0 all the time");
    check(&["load", url, "--spread", "2"], "from 0 to 1");
    check(&["load", url, "--target", "0s"], "not between 10µs and 24h");
    check(&["load", url, "--plot", "run.jpg"], "end in `.svg` or `.png`");
    let profile = ["protect", url, "--profile", "x", "--profile-interval", "0s"];
    check(&profile, "the time must be longer than 0s");
    check(&["protect", url, "--status-token-file", "x"], "--status-token-file needs --status");
    check(&["protect", url, "--status-host", "a.example"], "--status-host needs --status");
    check(&["protect", url, "--status-host", "a:1"], "expected a host name without a port");

    let file = scratch("no-status.toml");
    let path = file.to_str().unwrap();
    let rest = format!("listen = '127.0.0.1:0'\np90 = '1s'\n[upstreams.app]\nurl = '{url}'\n");
    for line in ["status_token = { file = 'token' }\n", "status_hosts = ['a.example']\n"] {
        std::fs::write(&file, line.to_owned() + &rest).unwrap();
        let (key, _) = line.split_once(' ').unwrap();
        let expected = format!("`{key}` needs `status`, or --status");
        check(&["protect", "--check", "--config", path], &expected);
    }
}

#[test]
fn a_password_in_a_url_is_not_repeated() {
    let url = "http://user:secret@127.0.0.1:1";
    let file = scratch("password.toml");
    let text = format!("listen = '127.0.0.1:0'\np90 = '1s'\n[upstreams.app]\nurl = '{url}'\n");
    std::fs::write(&file, text).unwrap();
    for args in [
        &["protect", url][..],
        &["protect", "127.0.0.1:1", "--overflow", url],
        &["protect", "--check", "--config", file.to_str().unwrap()],
    ] {
        let output = tamarisk(args);
        assert!(!output.status.success(), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("has no user and no password"), "{args:?}: {said}");
        assert!(!said.contains("secret") && stdout(&output).is_empty(), "{args:?}: {said}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_before_the_run() {
    std::fs::write(scratch("no-folder"), "").unwrap();
    let nowhere = scratch("no-folder/result.svg");
    for option in ["--json", "--csv", "--plot"] {
        let url = "http://127.0.0.1:1/";
        let output =
            tamarisk(&["load", url, "--duration", "1s", option, nowhere.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with("error: cannot write"), "{}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_early_and_still_reports() {
    let url = format!("http://{}/", service(OK));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
        .args(["load", &url, "--duration", "1h", "--think", "1ms", "--csv"])
        .arg(scratch("interrupted.csv"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first plain line of progress says that the run is under way.
    let mut first = [0];
    child.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(stdout(&output).contains("Ended early"), "{}", stdout(&output));
}

#[test]
fn help_completions_and_manual_cover_the_subcommands() {
    let help = tamarisk(&["load", "--help"]);
    assert!(stdout(&help).contains("--spike 1000@10s..40s"), "{}", stdout(&help));
    for shell in ["bash", "zsh", "fish"] {
        let script = tamarisk(&["completions", shell]);
        assert!(stdout(&script).contains("after-reject"), "{shell}");
    }
    assert!(stdout(&tamarisk(&["man"])).contains(".TH tamarisk 1"));
    let pages = scratch("man1");
    assert!(tamarisk(&["man", "--dir", pages.to_str().unwrap()]).status.success());
    assert!(pages.join("tamarisk-load.1").exists());
}

#[test]
fn demo_shows_a_service_that_survives_a_crowd_only_behind_tamarisk() {
    let out = scratch("demo");
    let output = tamarisk(&["demo", "--quick", "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let line = stdout(&output).lines().find(|line| line.contains("answered within")).unwrap();
    let columns: Vec<f64> =
        line.split_whitespace().rev().take(2).map(|n| n.parse().unwrap()).collect();
    let [protected, directly] = columns[..] else { panic!("{line}") };
    // About 390 against 10; machines that run other tests meanwhile are slower.
    assert!(protected > 5.0 * directly, "{}", stdout(&output));
    assert!(out.join("flash-crowd.svg").exists() && out.join("flash-crowd.png").exists());
}

const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_load_of_which_nothing_is_in_time_does_not_succeed() {
    let run = |answer: &'static [u8], target: &str| {
        let url = format!("http://{}/", service(answer));
        let args = ["load", &url, "--duration", "200ms", "--quiet", "--target", target];
        tamarisk(&args)
    };
    let in_time = run(OK, "60s");
    assert_eq!(in_time.status.code(), Some(0), "{}", stderr(&in_time));
    let late = run(OK, "10us");
    assert_eq!(late.status.code(), Some(1), "{}", stdout(&late));
    let said = "No request was answered within 10 µs.";
    assert!(stdout(&late).contains(said), "{}", stdout(&late));
    let rejected = run(BUSY, "60s");
    assert_eq!(rejected.status.code(), Some(1), "{}", stdout(&rejected));
    assert!(stdout(&rejected).contains("No request was answered."), "{}", stdout(&rejected));
}

#[test]
fn a_rate_may_have_its_unit_and_a_url_no_scheme() {
    let place = service(OK).to_string();
    for rate in ["50", "50/s"] {
        let output = tamarisk(&["load", &place, "--rate", rate, "--duration", "200ms", "--quiet"]);
        assert!(output.status.success(), "{rate}: {}", stderr(&output));
        assert!(stdout(&output).starts_with(&format!("http://{place}/ ")), "{}", stdout(&output));
    }
    let wrong = tamarisk(&["load", &place, "--rate", "50/min"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("write for example `500` or `500/s`"), "{}", stderr(&wrong));
}

#[test]
fn an_upstream_that_cannot_be_is_rejected_with_the_cure() {
    for (url, cure) in [
        (
            "https://api.example.org",
            "put a local TLS proxy such as stunnel between, or use http://",
        ),
        ("127.0.0.1", "\"127.0.0.1\" has no port: write 127.0.0.1:3000"),
        ("ftp://a", "write for example http://127.0.0.1:3000"),
    ] {
        let output = tamarisk(&["protect", url]);
        assert_eq!(output.status.code(), Some(2), "{url}");
        let said = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(cure), "{url}: {said}");
    }
}
