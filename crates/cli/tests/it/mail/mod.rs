//! `tamarisk mail`: the first start, the next one, users, and the end.

mod import;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::said::{STUCK, Said};
use rustix::process::{Pid, Signal, kill_process};

/// A process that serves mail, and what it has said.
struct Mail {
    process: Child,
    said: String,
    log: Said,
}

impl Mail {
    /// Serves the mail of a folder.
    fn start(folder: &Path) -> Self {
        Self::start_by(folder, &[])
    }

    fn start_with(arguments: &[&OsStr]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        command.args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let said = Said::by(process.stdout.take().unwrap()).up_to("Log in at ");
        let log = Said::by(process.stderr.take().unwrap());
        Self { process, said, log }
    }

    /// The word behind these.
    fn word(&self, before: &str) -> &str {
        let (_, rest) = self.said.split_once(before).expect("the words before");
        rest.split_whitespace().next().unwrap()
    }

    /// Serves the mail of a folder with more options.
    fn start_by(folder: &Path, more: &[&str]) -> Self {
        let mut arguments: Vec<&OsStr> =
            ["mail", "--listen", "127.0.0.1:0", "--folder"].map(OsStr::new).to_vec();
        arguments.push(folder.as_ref());
        arguments.extend(more.iter().map(OsStr::new));
        Self::start_with(&arguments)
    }

    fn send(&self, request: &str) -> String {
        answer(self.word("Log in at http://").trim_end_matches('/'), request)
    }

    /// Whether somebody can log in so.
    fn logs_in(&self, name: &str, password: &str) -> bool {
        self.logs_in_by(name, password, "")
    }

    /// The same with more header fields, each with its end of the line.
    fn logs_in_by(&self, name: &str, password: &str, fields: &str) -> bool {
        let between = |text: &str, before: &str, after: &str| {
            let (_, rest) = text.split_once(before).unwrap();
            rest.split(after).next().unwrap().to_owned()
        };
        let form = self.send("GET /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let cookie = between(&form, "set-cookie: ", ";");
        let csrf = between(&form, "name=\"csrf\" value=\"", "\"");
        let body = format!("csrf={csrf}&name={name}&password={password}");
        let length = body.len();
        let answer = self.send(&format!(
            "POST /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: {cookie}\r\n{fields}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        answer.starts_with("HTTP/1.1 303")
    }

    /// Ends it as a service manager does, and it says that it ended well.
    fn end(mut self) {
        let process = Pid::from_child(&self.process);
        kill_process(process, Signal::TERM).unwrap();
        self.log.up_to("Drained: all requests were completed.");
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Mail {
    /// What a test that failed has left.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn answer(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Runs a subcommand of `tamarisk mail`, with this line as standard input.
fn with_line(folder: &Path, arguments: &[&str], line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
    command.arg("mail").args(arguments).arg("--folder").arg(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    process.wait_with_output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tamarisk-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn the_first_start_makes_a_user_and_the_next_one_knows_it() {
    let folder = folder("mail");
    let mail = Mail::start(&folder);
    let password = mail.word("with the password ").to_owned();
    assert!(mail.logs_in("owner", &password), "{}", mail.said);
    assert!(!mail.logs_in("owner", "another password"));
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    mail.end();

    let added = with_line(&folder, &["user", "ada", "--gold"], "a long password\n");
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    for (arguments, line, expected) in [
        (["user", "ada"], "a long password\n", "user name is taken"),
        (["user", "bob"], "short\n", "password must be 8 to 1024 bytes"),
        (["user", "bob"], "", "password must be 8 to 1024 bytes"),
        (["user", "a b"], "a long password\n", "user name must be"),
        (["password", "ada"], "short\n", "password must be 8 to 1024 bytes"),
        (["password", "bob"], "a long password\n", "no user of this database has the name `bob`"),
    ] {
        let rejected = with_line(&folder, &arguments, line);
        let said = String::from_utf8_lossy(&rejected.stderr).into_owned();
        assert!(!rejected.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }

    let misspelt = folder.join("misspelt");
    let rejected = with_line(&misspelt, &["password", "owner"], "a long password\n");
    let said = String::from_utf8_lossy(&rejected.stderr).into_owned();
    assert!(said.contains("there is no mail at") && !misspelt.exists(), "{said}");

    let mail = Mail::start(&folder);
    assert!(!mail.said.contains("password"), "{}", mail.said);
    assert!(mail.logs_in("owner", &password) && mail.logs_in("ada", "a+long+password"));
    let changed = with_line(&folder, &["password", "owner"], "another password\n");
    assert!(changed.status.success(), "{}", String::from_utf8_lossy(&changed.stderr));
    assert!(mail.logs_in("owner", "another+password") && !mail.logs_in("owner", &password));

    let says = |arguments: &[&str]| {
        let output = with_line(&folder, arguments, "");
        let said = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    assert_eq!(says(&["users"]), (true, "gold    ada\ngold    owner\n".into()));
    assert!(says(&["users", "--json"]).1.contains("{\"class\":\"gold\",\"name\":\"owner\"}\n"));
    let (is_removed, said) = says(&["remove", "ada"]);
    assert!(!is_removed && said.contains("add --yes if that is meant"), "{said}");
    assert!(mail.logs_in("ada", "a+long+password"));
    assert_eq!(says(&["remove", "ada", "--yes"]), (true, "User `ada` removed.\n".into()));
    assert!(!mail.logs_in("ada", "a+long+password"));
    let (is_removed, said) = says(&["remove", "ada", "--yes"]);
    assert!(!is_removed && said.contains("no user of this database has the name `ada`"), "{said}");
    mail.end();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_proxy_that_is_not_trusted_is_warned_of_and_a_trusted_one_is_not() {
    let folder = folder("mail-proxy");
    let by_proxy = |more: &[&str]| {
        let mail = Mail::start_by(&folder, more);
        assert!(!mail.logs_in_by("owner", "wrong horse", "X-Forwarded-For: 192.0.2.1\r\n"));
        assert!(!mail.logs_in_by("owner", "wrong horse", "X-Forwarded-For: 192.0.2.1\r\n"));
        kill_process(Pid::from_child(&mail.process), Signal::TERM).unwrap();
        mail.log.rest()
    };
    let said = by_proxy(&[]);
    assert_eq!(said.matches("add --trusted-proxy 127.0.0.1").count(), 1, "{said}");
    for trusted in ["127.0.0.1", "127.0.0.0/8"] {
        let said = by_proxy(&["--trusted-proxy", "192.0.2.0/24", "--trusted-proxy", trusted]);
        assert!(!said.contains("--trusted-proxy"), "{said}");
    }
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_file_serves_mail_and_neither_sighup_nor_sigusr2_ends_it() {
    let folder = folder("mail-file");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mail.toml");
    fs::write(
        &file,
        "listen = \"127.0.0.1:0\"\nstatus = \"127.0.0.1:0\"\nmail = { folder = \"data\", targets = { search = \"2s\" } }\n",
    )
    .unwrap();
    let mail = Mail::start_with(&["serve".as_ref(), file.as_ref()]);
    let password = mail.word("with the password ").to_owned();
    assert!(folder.join("data/mail.db").is_file(), "it lies beside the file");
    let status = mail.word("Status page: http://").trim_end_matches('/');
    let stages =
        answer(status, "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(stages.contains("\"log-in\""), "{stages}");
    kill_process(Pid::from_child(&mail.process), Signal::HUP).unwrap();
    assert!(mail.logs_in("owner", &password), "{}", mail.said);
    kill_process(Pid::from_child(&mail.process), Signal::USR2).unwrap();
    mail.log.up_to("SIGUSR2 is ignored: restart the service instead.");
    assert!(mail.logs_in("owner", &password), "{}", mail.said);
    mail.end();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mistakes_in_a_file_of_mail_are_shown_where_they_are() {
    let folder = folder("mail-mistakes");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mail.toml");
    let run = |text: &str, arguments: &[&str]| {
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        let output = command.arg("serve").arg(&file).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(run("[mail]\n", &["--check"]).0);
    assert!(!folder.join("mail").exists(), "a check makes nothing");
    for (text, arguments, expected) in [
        ("[mail]\npage_sise = 20\n", &[][..], "did you mean \"page_size\"?"),
        ("[mail]\ntargets = { browse = \"1s\" }\n", &[], "unknown kind of requests \"browse\""),
        ("[mail]\ndatabase = \"oracle:mail\"\n", &[], "unknown scheme `oracle`"),
        ("[mail]\ndatabase = \"sqlite:mail.db\"\n", &[], "SQLite is not a server"),
        ("[mail]\nfolder = \"a\"\ndatabase = \"mysql://a@b/c\"\n", &[], "keep one of them"),
        ("[mail]\npage_size = 9\n", &[], "9 is out of range"),
        ("[mail]\ndigest_page = \"none\"\n", &["--check"], "none: No such file"),
        ("[mail]\n", &["--cache", "1MiB"], "--cache does not apply to webmail"),
        ("[mail]\n", &["--cores", "1"], "--cores does not apply to webmail"),
        ("[mail]\n", &["--drain", "60s"], "--drain does not apply to webmail"),
        ("[mail]\n", &["--status-host", "a"], "--status-host does not apply to webmail"),
        ("[mail]\n", &["--tls-p90", "1s"], "--tls-p90 does not apply to webmail"),
    ] {
        let (is_served, said) = run(text, arguments);
        assert!(!is_served && said.contains(expected), "{text}: {said}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_served_is_said() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        let output = command.arg("mail").args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = folder("no-mail");
    let place = ["--folder", folder.to_str().unwrap()];
    let said = run(&["--database", "oracle:mail"]);
    assert!(said.contains("unknown scheme `oracle`"), "{said}");
    let said = run(&[&["--p90", "browse=1s"][..], &place].concat());
    assert!(said.contains("unknown kind of requests `browse`"), "{said}");
    let said = run(&[&["--page-size", "5"][..], &place].concat());
    assert!(said.contains("page size must be 10 to 100, not 5"), "{said}");
    let said = run(&[&["--law", "nonsense"][..], &place].concat());
    assert!(said.contains("nonsense"), "{said}");
    let _ = fs::remove_dir_all(&folder);
}
