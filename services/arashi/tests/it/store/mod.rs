//! What the store promises, on each of its databases.

mod accounts;
mod ending;
mod folders;
mod lists;
mod messages;
mod migrations;
mod other_programs;
mod outages;

use tamarisk_arashi::store::{
    AccountClass, FolderId, FolderKind, NewMessage, Store, Untimed, UserId,
};

/// Makes a test of each function of a module, which takes a database, on each kind of database.
macro_rules! on_each_database {
    (in_module $module:ident $kind:ident $($test:ident),+) => {
        mod $module {
            use crate::support::{Kind, TestDatabase};
            $(#[test] fn $test() { super::$test(&TestDatabase::of(Kind::$kind)); })+
        }
    };
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $test() { super::$test(&crate::support::TestDatabase::sqlite()); })+
        }
        crate::store::on_each_database! { in_module postgres Postgres $($test),+ }
        crate::store::on_each_database! { in_module mariadb Mariadb $($test),+ }
    };
}
use on_each_database;

const PASSWORD: &str = "correct horse";

/// A user of this name.
fn user(store: &mut Store, name: &str) -> UserId {
    store.create_account(&Untimed, name, PASSWORD, AccountClass::Bronze).unwrap().id
}

fn folder(store: &mut Store, user: UserId, kind: FolderKind) -> FolderId {
    let folders = store.folders(&Untimed, user).unwrap();
    folders.into_iter().find(|folder| folder.kind == kind).unwrap().id
}

/// How many messages are in each folder, and how many of them are unread, by name.
fn counts(store: &mut Store, user: UserId) -> Vec<(String, u64, u64)> {
    let folders = store.folders(&Untimed, user).unwrap();
    folders.into_iter().map(|folder| (folder.name, folder.messages, folder.unread)).collect()
}

/// A message in which the texts are told apart.
fn mail(from: &str, subject: &str, date_seconds: i64) -> NewMessage {
    NewMessage {
        raw: format!("From: {from}\r\nSubject: {subject}\r\n\r\nText.\r\n").into_bytes(),
        from: from.into(),
        recipients: "you@example.org".into(),
        subject: subject.into(),
        date_seconds,
        headers: "X-Mailer: test".into(),
        snippet: format!("Text of {subject}"),
        has_attachments: false,
        is_read: false,
    }
}
