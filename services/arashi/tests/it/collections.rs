//! Collections of real mail that ship in packages, good and broken: all of it is imported, and
//! something is shown of each message.

use std::fs;
use std::path::{Path, PathBuf};

use tamarisk_arashi::import::{Import, ImportEvent};
use tamarisk_arashi::mail::{Mail, attachment, new_message};

/// Imports all messages beneath `folder`; returns how many there are.
fn import_all(folder: &Path) -> usize {
    let mut count = 0;
    for event in Import::open(&[folder.to_owned()]).expect("the folder is there") {
        let message = match event {
            ImportEvent::Message(message) => message,
            ImportEvent::Skipped { place, reason } => panic!("{place}: {reason}"),
        };
        count += 1;
        check(&message.raw, &message.place);
    }
    println!("{count} messages in {}", folder.display());
    count
}

fn check(raw: &[u8], place: &str) {
    let mail = Mail::parse_with_images(raw, Some("/attachment?part="));
    let kept = new_message(raw.to_vec(), 7);
    assert_eq!(kept.raw, raw, "{place}");
    assert!(!kept.headers.contains('\0') && !kept.snippet.contains('\0'), "{place}");
    assert_eq!((&kept.from, &kept.subject), (&mail.from, &mail.subject), "{place}");
    for (index, listed) in mail.attachments.iter().enumerate() {
        let one = attachment(raw, index).unwrap_or_else(|| panic!("{place}: {}", listed.name));
        assert_eq!(
            (one.name, one.bytes.len() as u64),
            (listed.name.clone(), listed.size_bytes),
            "{place}"
        );
    }
    if let Some(html) = &mail.html {
        let lower = html.to_ascii_lowercase();
        for dangerous in
            ["<script", "<style", "<form", "<iframe", " onload=", "=\"javascript:", "src=\"http"]
        {
            assert!(!lower.contains(dangerous), "{place}: {dangerous} in {html}");
        }
    }
    let text = String::from_utf8_lossy(raw).replace("\r\n", "\n");
    let body = text.split_once("\n\n").map_or("", |(_, body)| body);
    let is_shown = mail.text.is_some() || mail.html.is_some() || !mail.attachments.is_empty();
    assert!(is_shown || body.trim_ascii().is_empty(), "{place}: nothing is shown");
}

/// The test data of mail-parser: always there, since that is compiled.
#[test]
fn all_of_mail_parser() {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).expect("a home");
    let registries = fs::read_dir(cargo.join("registry/src")).expect("Cargo's sources");
    let resources = registries.filter_map(|registry| {
        let crates = fs::read_dir(registry.ok()?.path()).ok()?;
        let mut paths = crates.filter_map(|entry| Some(entry.ok()?.path()));
        let is_it = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("mail-parser-0.11"))
        };
        Some(paths.find(is_it)?.join("resources"))
    });
    let resources = resources.collect::<Vec<_>>();
    assert!(!resources.is_empty(), "mail-parser's source is in {}", cargo.display());
    assert!(import_all(&resources[0].join("eml")) >= 300);
    assert!(import_all(&resources[0].join("maildir")) >= 3);
}

/// Debian's `libpython3.11-testsuite`, where it is installed.
#[test]
fn all_of_python() {
    let found = (10..20)
        .map(|minor| PathBuf::from(format!("/usr/lib/python3.{minor}/test/test_email/data")));
    let found: Vec<_> = found.filter(|folder| folder.is_dir()).collect();
    if found.is_empty() {
        println!("skipped: install libpython3.11-testsuite for Python's test mail");
    }
    for folder in found {
        assert!(import_all(&folder) >= 50);
    }
}

/// The archives of mailing lists of Mailman and HyperKitty that are the test data of perceval, a
/// package of Python, where it has been unpacked.
#[test]
fn all_of_perceval() {
    let Some(source) = std::env::var_os("PERCEVAL_SOURCE") else {
        println!(
            "skipped: unpack what `pip download --no-deps --no-binary :all: perceval==1.6.1` \
             loads, and set PERCEVAL_SOURCE to its folder"
        );
        return;
    };
    let data = PathBuf::from(source).join("tests/data");
    assert!(import_all(&data.join("mbox")) >= 14);
    for archives in ["pipermail", "hyperkitty"] {
        let files = fs::read_dir(data.join(archives)).expect("perceval has archives");
        let files = files.map(|file| file.expect("it can be read").path());
        for archive in files.filter(|file| file.extension().is_some_and(|e| e == "mbox")) {
            assert!(import_all(&archive) >= 1);
        }
    }
}
