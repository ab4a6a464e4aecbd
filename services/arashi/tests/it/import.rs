//! Messages read from files, and sample mail.
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tamarisk_arashi::import::{Import, ImportEvent, ImportedMessage, sample};
use tamarisk_arashi::mail::Mail;
use tamarisk_arashi::store::MESSAGE_BYTES_MAX;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("arashi-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn import(path: &Path) -> (Vec<ImportedMessage>, Vec<(String, String)>) {
    let mut import = Import::open(&[path.to_owned()]).unwrap();
    let (mut messages, mut skipped) = (Vec::new(), Vec::new());
    for event in &mut import {
        match event {
            ImportEvent::Message(message) => messages.push(message),
            ImportEvent::Skipped { place, reason } => skipped.push((place, reason)),
        }
    }
    assert_eq!(import.read_bytes(), import.total_bytes(), "progress ends at its end");
    (messages, skipped)
}

fn subjects(messages: &[ImportedMessage]) -> Vec<String> {
    messages.iter().map(|message| Mail::parse(&message.raw).subject).collect()
}

#[test]
fn reads_an_mbox() {
    let folder = Folder::new("mbox");
    let path = folder.write(
        "archive",
        "From a@example.org Tue Jul  1 10:52:37 2003\nSubject: one\n\n>From here\n\n\
         From b@example.org Tue Jul  1 10:52:38 2003\nSubject: two\n\nno newline",
    );
    let (messages, skipped) = import(&path);
    assert_eq!(subjects(&messages), ["one", "two"]);
    assert_eq!(messages[0].raw, b"Subject: one\n\nFrom here\n");
    assert_eq!(messages[0].received_seconds, 1_057_056_757);
    assert!(messages[1].place.ends_with("archive, at byte 70"), "{}", messages[1].place);
    assert_eq!(skipped, []);
}

#[test]
fn reads_a_maildir_with_its_flags_and_subfolders() {
    let folder = Folder::new("maildir");
    for part in ["cur", "new", "tmp", ".Sent/cur", ".Sent/new"] {
        fs::create_dir_all(folder.0.join(part)).unwrap();
    }
    folder.write("cur/1.host:2,RS", "Subject: seen\n\nFrom a b 10:00\n");
    folder.write("cur/2.host:2,F", "Subject: flagged\n\n");
    folder.write("new/3.host", "From x 10:00\nSubject: new\n\n");
    folder.write("tmp/4.host", "Subject: being written\n\n");
    folder.write(".Sent/cur/5.host:2,S", "Subject: sent\n\n");
    folder.write("dovecot.index", "\0\0\0");
    let (messages, skipped) = import(&folder.0);
    let read: Vec<_> = messages.iter().map(|message| message.is_read).collect();
    assert_eq!(subjects(&messages), ["sent", "seen", "flagged", "new"]);
    assert_eq!(read, [true, true, false, false]);
    assert_eq!(skipped, []);
}

#[test]
fn reads_single_messages_and_folders_of_them() {
    let folder = Folder::new("single");
    let path = folder.write("b.eml", "Subject: b\r\n\r\ntext\r\n");
    folder.write("sub/a.eml", "Subject: a\r\n\r\n");
    folder.write("c.mbox", "From x Tue Jul  1 10:52:37 2003\nSubject: c\n\n");
    folder.write("d.eml", "");
    std::os::unix::fs::symlink(&folder.0, folder.0.join("circle")).unwrap();
    let (messages, _) = import(&path);
    assert_eq!(messages[0].raw, b"Subject: b\r\n\r\ntext\r\n");
    let (messages, skipped) = import(&folder.0);
    assert_eq!(subjects(&messages), ["b", "c", "", "a"]);
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(skipped[0].0.ends_with("circle") && skipped[0].1 == "neither a file nor a folder");
}

#[test]
fn skips_what_is_too_large_and_says_where() {
    let folder = Folder::new("large");
    let separator = "From x Tue Jul  1 10:52:37 2003\n";
    let mut mbox = format!("{separator}Subject: large\n\n").into_bytes();
    mbox.resize(MESSAGE_BYTES_MAX + 100, b'x');
    mbox.extend_from_slice(format!("\n\n{separator}Subject: after\n\n").as_bytes());
    folder.write("a.mbox", &mbox);
    folder.write("b.eml", &mbox[separator.len()..]);
    let (messages, skipped) = import(&folder.0);
    assert_eq!(subjects(&messages), ["after"]);
    assert_eq!(skipped.len(), 2);
    assert!(skipped[0].0.ends_with("a.mbox, at byte 0"), "{skipped:?}");
    assert!(skipped[1].1.ends_with("bytes; a message has at most 15728640"), "{skipped:?}");
}

#[test]
fn says_which_path_is_not_there() {
    let missing = PathBuf::from("/no/such/mail");
    let (path, error) =
        Import::open(std::slice::from_ref(&missing)).err().expect("it is not there");
    assert_eq!((path, error.kind()), (missing, std::io::ErrorKind::NotFound));
}

#[test]
fn sample_mail_is_the_same_for_the_same_seed_and_varied() {
    let all: Vec<_> = sample::messages(7, 500).collect();
    assert_eq!(all, sample::messages(7, 500).collect::<Vec<_>>());
    assert_ne!(all[0], sample::messages(8, 1).next().unwrap());
    let mails: Vec<_> = all.iter().map(|raw| Mail::parse(raw)).collect();
    for (mail, raw) in mails.iter().zip(&all) {
        let text = String::from_utf8_lossy(raw);
        assert_eq!(mail.defects, [""; 0], "{text}");
        assert!(!mail.from.is_empty() && !mail.to.is_empty() && !mail.subject.is_empty(), "{text}");
        assert!(mail.date_seconds.is_some() && mail.text.is_some(), "{text}");
    }
    let now = 1_800_000_000;
    for raw in sample::recent_messages(7, 120, now) {
        let sent = Mail::parse(&raw).date_seconds.unwrap();
        assert!((now - 10 * 24 * 3600..=now).contains(&sent), "{sent}");
    }
    let count = |is: fn(&Mail) -> bool| mails.iter().filter(|mail| is(mail)).count();
    assert!(count(|mail| mail.html.is_some()) > 40);
    assert!(count(|mail| !mail.attachments.is_empty()) > 20);
    assert!(count(|mail| mail.subject.starts_with("Re: ")) > 80);
    assert!(count(|mail| mail.from.starts_with("Geschäftsstelle")) > 10);
    let sizes: HashSet<usize> = all.iter().map(|raw| raw.len().ilog2() as usize).collect();
    assert!(sizes.len() >= 4, "{sizes:?}");
}

/// `cargo test --release -p tamarisk-arashi --test it -- import:: --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn sample_mail_is_quick_to_make() {
    let start = Instant::now();
    let bytes: usize = sample::messages(1, 100_000).map(|raw| raw.len()).sum();
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.0} messages/s of {} bytes on average", 1e5 / seconds, bytes / 100_000);
    assert!(seconds < 5.0, "at least 20,000 a second: {seconds} s for 100,000");
}
