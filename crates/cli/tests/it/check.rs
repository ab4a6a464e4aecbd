//! What `--check` and the start have against a configuration: the same, and all of it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(folder.join("public")).unwrap();
    folder
}

fn tamarisk(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamarisk")).args(args).output().unwrap()
}

/// What the command says on standard error, which ends with exit code 1.
fn rejected(args: &[&str]) -> String {
    let output = tamarisk(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    said
}

/// Each line of the file that has a mistake says which in a comment.
fn shows_all(command: &[&str], name: &str, text: &str) {
    let file = folder(&format!("all-of-{name}")).join(name);
    fs::write(&file, text).unwrap();
    let args = [command, &[file.to_str().unwrap()]].concat();
    let lines = text.lines().zip(1..);
    let expected: Vec<_> =
        lines.filter_map(|(line, number)| Some((line.split_once(" # ")?.1, number))).collect();
    for check in [&["--check"][..], &[]] {
        let args = [&args, check].concat();
        let said = rejected(&args);
        // Long messages are wrapped.
        let words = said.replace('│', " ");
        let in_a_line = words.split_whitespace().collect::<Vec<_>>().join(" ");
        for (message, number) in &expected {
            assert!(in_a_line.contains(message), "{message:?} of {args:?}:\n{said}");
            let place = format!("{name}:{number}:");
            assert!(said.contains(&place), "{place} of {args:?}:\n{said}");
        }
        assert_eq!(said.matches(&format!("{name}:")).count(), expected.len(), "{said}");

        let said = rejected(&[&args[..], &["--message-format", "json"]].concat());
        let said: Vec<_> = said.lines().filter(|line| line.contains("\"ERROR\"")).collect();
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for ((_, number), line) in expected.iter().zip(said) {
            assert!(line.contains(&format!("{name}:{number}: ")), "{line}");
        }
    }
}

#[test]
fn each_mistake_in_a_file_of_protect_is_shown_at_its_line() {
    let text = "\
listen = '127.0.0.1:4080'
status = '127.0.0.1:4080' # the status port (127.0.0.1:4080) is where clients are served
colour = 'red' # unknown key \"colour\"
p90 = '1 fortnight' # `1 fortnight` needs a unit
log = { file = 'none/access.log' } # cannot write
profile = { file = 'none/profile.jsonl' } # cannot write
errors = { 503 = 'none.html' } # cannot read the error page
[[tls]] # cannot read
certificate = 'none.pem'
key = 'none.pem'
[limits]
head = '1B' # is out of range
body = 'much' # \"much\" is invalid
[upstreams.app]
url = 'ftp://127.0.0.1:3000' # does not begin with http://
connect_time = '0s' # the time must be longer than 0s
[upstreams.other]
url = 'http://127.0.0.1:3001'
admission = 'no-law' # unknown admission law \"no-law\"
[stage.nothing] # unknown upstream \"nothing\"
[classes.paying]
any = [{ colour = 'red' }] # unknown key \"colour\"
weight = 1000 # out of range
[[routes]]
name = 'a route' # \"a route\" is invalid
upstream = 'nobody' # unknown upstream \"nobody\"
[[routes]]
name = 'other'
upstream = 'other'
classes = ['free', 'paying'] # unknown class \"free\"
";
    shows_all(&["protect", "--config"], "protect.toml", text);
}

#[test]
fn each_mistake_in_a_file_of_a_site_is_shown_at_its_line() {
    let text = "\
listen = '127.0.0.1:4080'
cache = 'large' # \"large\" is invalid
file_threads = 0 # number of threads out of range
log = { file = 'none/access.log' } # cannot write
[classes.paying] # this class matches no request
priority = 1
[[host]]
names = ['a.example']
root = 'none' # cannot open
index = ['a/b'] # \"a/b\" is invalid
[[host]]
names = ['b.example', '..'] # \"..\" is invalid
[[host.route]]
path = '/api'
proxy = 'http://127.0.0.1:3000'
classes = ['paying', 'free'] # unknown class \"free\"
colour = 'red' # unknown key \"colour\"
[[host.route]]
path = '/old'
redirect = 'new' # \"new\" is invalid
";
    shows_all(&["serve"], "site.toml", text);
}

#[cfg(feature = "services")]
#[test]
fn each_mistake_in_a_file_of_webmail_is_shown_at_its_line() {
    let text = "\
colour = 'red' # unknown key \"colour\"
[mail]
folder = 'mail'
page_size = 5 # 5 is out of range
p90 = '0s' # the time must be longer than 0s
admission = 'no-law' # unknown admission law \"no-law\"
";
    let file = folder("all-of-mail").join("mail.toml");
    fs::write(&file, text).unwrap();
    let said = rejected(&["serve", "--check", file.to_str().unwrap()]);
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| line.contains(" # ")) {
        assert!(said.contains(line.split_once(" # ").unwrap().1), "{line}:\n{said}");
        assert!(said.contains(&format!("mail.toml:{number}:")), "{line}:\n{said}");
    }
    fs::write(&file, "listen = ':4080'\nstatus = ':4080'\n[mail]\n").unwrap();
    refused(&["serve", file.to_str().unwrap()], &["choose another port"]);
}

/// The check and the start both say all of this, each in a line of its own.
fn refused(args: &[&str], expected: &[&str]) {
    for check in [&["--check"][..], &[]] {
        let args = [args, check].concat();
        let said = rejected(&args);
        let said: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(said.len(), expected.len(), "{args:?}: {said:#?}");
        for (line, part) in said.iter().zip(expected) {
            assert!(line.contains(part), "{part:?} of {args:?}: {said:#?}");
        }
    }
}

#[test]
fn a_check_refuses_what_the_start_refuses() {
    let folder = folder("refused");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let protect = "listen = '127.0.0.1:4080'\np90 = '1s'\n[upstreams.app]\nurl = ";
    let site = "listen = '127.0.0.1:4080'\n[[host]]\n[[host.route]]\npath = '/'\nproxy = ";
    let files = [("protect.toml", protect), ("site.toml", site)];
    let write = |url: &str, overflow: &str| {
        for (name, text) in files {
            fs::write(at(name), format!("{text}'{url}'\n{overflow}")).unwrap();
        }
        [
            vec!["protect".to_owned(), "--config".to_owned(), at("protect.toml")],
            vec!["serve".to_owned(), at("site.toml")],
        ]
    };
    let all_refused = |commands: [Vec<String>; 2], args: &[&str], expected: &[&str]| {
        for command in commands {
            let command: Vec<_> = command.iter().map(String::as_str).collect();
            refused(&[&command[..], args].concat(), expected);
        }
    };

    let app = "http://127.0.0.1:9";
    let itself = "where this process itself listens (127.0.0.1:4080)";
    all_refused(write("http://127.0.0.1:4080", ""), &[], &[itself]);
    all_refused(write("http://localhost:4080", ""), &[], &[itself]);
    all_refused(write(app, "overflow = 'http://127.0.0.1:4080'\n"), &[], &[itself]);
    let status = ["--status", "127.0.0.1:4090"];
    let is_status = "where this process itself listens (127.0.0.1:4090)";
    all_refused(write("http://127.0.0.1:4090", ""), &status, &[is_status]);
    let same = ["--status", "0.0.0.0:4080"];
    all_refused(write(app, ""), &same, &["choose another port"]);
    // An address for documentation [RFC 5737], which no machine has.
    let foreign = ["--listen", "192.0.2.1:4080"];
    all_refused(write(app, ""), &foreign, &["cannot listen on 192.0.2.1:4080"]);
    let profile = ["--profile", &at("none/profile.jsonl")];
    all_refused(write(app, ""), &profile, &["cannot write"]);
    let nowhere = write("http://no-such-host.invalid:80", "");
    all_refused(nowhere, &[], &["cannot resolve \"no-such-host.invalid\""]);

    // A folder in place of the file.
    fs::create_dir_all(at("access.log")).unwrap();
    for (name, text) in files {
        let text = format!("log = {{ file = 'access.log' }}\n{text}'http://localhost:4080'\n");
        fs::write(at(name), text).unwrap();
    }
    let same = ["--status", "127.0.0.1:4080"];
    let both = ["choose another port", itself, "cannot write the access log"];
    refused(&[&["protect", "--config", &at("protect.toml")], &same[..]].concat(), &both);
    refused(&[&["serve", &at("site.toml")], &same[..]].concat(), &both);

    let [protect, _] = write(app, "");
    let protect: Vec<_> = protect.iter().map(String::as_str).collect();
    let record = ["--record", &at("none/live.trace")];
    refused(&[&protect[..], &record].concat(), &["cannot record to"]);
}

#[test]
fn a_check_needs_no_free_port_and_leaves_a_recording_alone() {
    let folder = folder("taken");
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [listen, status] = taken.each_ref().map(|taken| taken.local_addr().unwrap());
    let front = format!("listen = '{listen}'\nstatus = '{status}'\nlog = {{ file = 'log' }}\n");
    let text = format!("{front}p90 = '1s'\n[upstreams.app]\nurl = 'http://127.0.0.1:9'\n");
    let [protect, site, trace] =
        ["protect.toml", "site.toml", "live.trace"].map(|name| folder.join(name));
    fs::write(&protect, text).unwrap();
    fs::write(&site, format!("{front}[[host]]\nroot = 'public'\n")).unwrap();
    fs::write(&trace, "a trace").unwrap();
    let (protect, site) = (protect.to_str().unwrap(), site.to_str().unwrap());
    let record = ["--record", trace.to_str().unwrap()];
    for args in [
        &[&["protect", "--check", "--config", protect], &record[..]].concat()[..],
        &["serve", "--check", site],
    ] {
        let output = tamarisk(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fs::read(&trace).unwrap(), b"a trace");
    let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().ends_with(".partial")));
}
