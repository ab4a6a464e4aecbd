//! A SQLite file that other programs use while a service does.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use tamarisk_arashi::store::Database;

use crate::store::user;
use crate::support::TestDatabase;

/// How many users another program sees, which opens the file, reads it and closes it.
fn users_seen_elsewhere(path: &str) -> String {
    const READ: &str = "import sqlite3, sys; base = sqlite3.connect(sys.argv[1]); \
                        print(base.execute('SELECT COUNT(*) FROM users').fetchone()[0]); base.close()";
    let output = Command::new("python3").args(["-c", READ, path]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn who_reads_the_file_and_goes_leaves_the_log_to_the_service() {
    let test = TestDatabase::sqlite();
    let path = test.url.strip_prefix("sqlite:").unwrap();
    // Of one process, as a service has them.
    let database = Database::at(&test.url).unwrap();
    let (mut one, mut two) = (database.connect().unwrap(), database.connect().unwrap());
    user(&mut one, "ann");
    let log = || fs::metadata(format!("{path}-wal")).map(|log| log.ino()).ok();
    let before = log();
    assert!(before.is_some(), "there is a log");
    assert_eq!(users_seen_elsewhere(path), "1");
    assert_eq!(log(), before, "it was not the last to close the file");
    user(&mut one, "bob");
    user(&mut two, "carl");
    assert_eq!(users_seen_elsewhere(path), "3");
}
