//! `tamarisk mail import`, as its user runs it.
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tamarisk_arashi::import::sample;
use tamarisk_arashi::store::{
    Account, AccountClass, Database, Folder, FolderKind, MESSAGE_BYTES_MAX, Order, Store, Untimed,
};

/// A database with one user, in a folder that goes away with the test.
struct Place {
    folder: PathBuf,
    url: String,
    store: Store,
    account: Account,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("mail-import-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let url = format!("sqlite:{}", folder.join("mail.db").display());
        let mut store = Database::at(&url).unwrap().connect().unwrap();
        let class = AccountClass::Bronze;
        let account = store.create_account(&Untimed, "alice", "a password", class).unwrap();
        Self { folder, url, store, account }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join("files").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
        command.args(["mail", "import", "--database", &self.url]).args(arguments);
        command.arg(self.folder.join("files"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn folder_of(&mut self, is: impl Fn(&Folder) -> bool) -> Folder {
        let folders = self.store.folders(&Untimed, self.account.id).unwrap();
        folders.into_iter().find(is).expect("there is such a folder")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const SEPARATOR: &str = "From x Tue Jul  1 10:52:37 2003\n";

#[test]
fn imports_what_is_mail_and_says_what_is_not() {
    let mut place = Place::new("kinds");
    place.write("a.mbox", format!("{SEPARATOR}Subject: one\n\n>From\n\n{SEPARATOR}Subject: two\n"));
    place.write("b.eml", "Subject: three\r\nDate: nonsense\r\n\r\ntext\r\n");
    place.write("c/cur/1.host:2,S", "Subject: read\n\n");
    place.write("c/new/2.host", "Subject: new\n\n");
    place.write("d.eml", vec![b'x'; MESSAGE_BYTES_MAX + 1]);
    let run = place.run(&["--user", "alice", "--json", "-"]);
    assert!(run.status.success(), "{run:?}");
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(summary["imported"], 5);
    assert_eq!(
        (&summary["damaged"]["count"], &summary["skipped"]["count"]),
        (&1.into(), &1.into())
    );
    let damaged = &summary["damaged"]["first"][0];
    assert!(damaged["place"].as_str().unwrap().ends_with("b.eml"), "{summary}");
    assert!(damaged["reason"].as_str().unwrap().contains("nonsense"), "{summary}");
    let inbox = place.folder_of(|folder| folder.kind == FolderKind::Inbox);
    assert_eq!((inbox.messages, inbox.unread), (5, 4));
    let user = place.account.id;
    let list = place.store.list(&Untimed, user, inbox.id, Order::default(), 0, 10, true).unwrap();
    let mut subjects: Vec<_> =
        list.messages.iter().map(|one| (&*one.subject, one.is_unread)).collect();
    subjects.sort_unstable();
    let expected = [("new", true), ("one", true), ("read", false), ("three", true), ("two", true)];
    assert_eq!(subjects, expected);

    let run = place.run(&["--user", "alice", "--folder", "Lists"]);
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(text.contains("imported 5 messages into \"Lists\" of alice\n"), "{text}");
    assert!(text.contains("skipped: 1\n") && text.contains("d.eml: 15728641 bytes"), "{text}");
    assert_eq!(place.folder_of(|folder| folder.name == "Lists").messages, 5);
}

#[test]
fn says_what_is_missing() {
    let place = Place::new("missing");
    place.write("a.eml", "Subject: a\n\n");
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let run = place.run(arguments);
        let text = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(code), "{text}");
        assert!(text.contains(expected), "{text}");
    };
    check(&["--user", "bob"], 1, "no user \"bob\"");
    check(&["--user", "alice", "/no/such/file"], 1, "cannot read /no/such/file: No such file");
    check(&["--user", "alice", "--folder", "a\nb"], 1, "folder name must be");
    check(&[], 2, "--user <NAME>");
    let misspelt = place.folder.join("misspelt.db");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
    command.args(["mail", "import", "--user", "alice", "--database"]);
    command.arg(format!("sqlite:{}", misspelt.display())).arg(place.folder.join("files"));
    let run = command.output().unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(text.contains("there is no mail at") && !misspelt.exists(), "{text}");
}

#[test]
fn ctrl_c_ends_between_batches_and_says_what_is_in() {
    let mut place = Place::new("interrupted");
    let mut mbox = Vec::new();
    for mail in sample::messages(1, 30_000) {
        mbox.extend_from_slice(SEPARATOR.as_bytes());
        mbox.extend_from_slice(&mail);
        mbox.extend_from_slice(b"\r\n\r\n");
    }
    place.write("large.mbox", mbox);
    let mut command = place.command(&["--user", "alice", "--json", "-"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while place.folder_of(|folder| folder.kind == FolderKind::Inbox).messages == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is imported");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130));
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(summary["is_interrupted"], true);
    let inbox = place.folder_of(|folder| folder.kind == FolderKind::Inbox);
    assert_eq!(summary["imported"], inbox.messages);
    assert!(inbox.messages < 30_000);
}

/// A limit of file sizes stands in for a full disk.
#[test]
fn a_full_disk_ends_an_import_that_says_what_is_in() {
    let mut place = Place::new("full");
    let mut mbox = Vec::new();
    for _ in 0..20 {
        mbox.extend_from_slice(SEPARATOR.as_bytes());
        mbox.extend_from_slice(b"Subject: long\r\n\r\n");
        mbox.extend_from_slice(&b"text text text text text text text\r\n".repeat(100_000));
        mbox.extend_from_slice(b"\r\n");
    }
    place.write("long.mbox", mbox);
    let command = place.command(&["--user", "alice", "--json", "-"]);
    let mut limited = Command::new("sh");
    // Blocks have 512 bytes or, in bash, 1024.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 50000; exec \"$@\"", "sh"]);
    let run = limited.arg(command.get_program()).args(command.get_args()).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{said}");
    let inbox = place.folder_of(|folder| folder.kind == FolderKind::Inbox);
    assert!((1..20).contains(&inbox.messages), "{}", inbox.messages);
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(summary["imported"], inbox.messages);
    let expected = format!("{} messages were imported before the database failed", inbox.messages);
    assert!(said.contains(&expected), "{said}");
}
