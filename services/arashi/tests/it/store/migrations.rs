//! Tables that are made, by several at once, and tables of another version.

use std::time::Duration;

use rusqlite::Connection;
use tamarisk_arashi::store::{
    Database, FolderKind, NewMessage, Order, SortBy, Store, StoreError, Untimed,
};

use crate::store::{folder, user};
use crate::support::{Kind, TestDatabase};

crate::store::on_each_database! {
    several_connect_first_at_once,
    a_newer_version_is_an_error,
    mail_of_an_older_version_is_kept,
}

fn several_connect_first_at_once(test: &TestDatabase) {
    std::thread::scope(|scope| {
        let connect = |_| {
            scope.spawn(|| {
                // Each with what another process would know.
                let database = Database::at(&test.url).unwrap();
                // A server may be slow to take so many on a busy machine.
                let tries = std::iter::repeat_with(|| database.connect().map(drop)).take(100);
                let mut tried = tries
                    .inspect(|_| std::thread::sleep(Duration::from_millis(100)))
                    .skip_while(|tried| matches!(tried, Err(StoreError::Unavailable(_))));
                tried.next().expect("the server takes connections")
            })
        };
        let threads: Vec<_> = (0..6).map(connect).collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    user(&mut test.connect(), "ann");
    assert_eq!(raw(test, "SELECT COUNT(*) FROM schema_version"), "3");
}

fn a_newer_version_is_an_error(test: &TestDatabase) {
    test.connect();
    raw(test, "INSERT INTO schema_version (version) VALUES (99)");
    let database = Database::at(&test.url).unwrap();
    let Err(StoreError::Failed(text)) = database.connect().map(drop) else { panic!("no error") };
    assert!(text.contains("version 99") && text.contains("newer program"), "{text}");
    // It goes on as soon as it can.
    raw(test, "DELETE FROM schema_version WHERE version = 99");
    let mut store = Database::at(&test.url).unwrap().store();
    assert_eq!(store.account(&Untimed, "ann").unwrap(), None);
}

fn mail_of_an_older_version_is_kept(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let deliver = |store: &mut Store, subject: &str| {
        let (subject, recipients) = (subject.to_owned(), "ann, bob".to_owned());
        let mail = NewMessage { subject, recipients, ..NewMessage::default() };
        store.deliver_all(&Untimed, ann, inbox, &mut std::iter::once(mail)).unwrap();
    };
    deliver(&mut store, "Old");
    drop(store);
    // As version 1 was.
    raw(test, "ALTER TABLE messages DROP COLUMN recipients");
    raw(test, "DELETE FROM schema_version WHERE version >= 2");
    let connect = || Database::at(&test.url).unwrap().connect().unwrap();
    deliver(&mut connect(), "New");
    if test.server().is_some_and(|(server, _)| server.kind() == Kind::Mariadb) {
        // A migration that was interrupted: definitions stay there.
        raw(test, "DELETE FROM schema_version WHERE version >= 2");
    }
    let order = Order { by: SortBy::Subject, reversed: false };
    let list = connect().list(&Untimed, ann, inbox, order, 0, 10, false).unwrap();
    let seen = list.messages.iter().map(|one| (&*one.subject, &*one.recipients));
    assert_eq!(seen.collect::<Vec<_>>(), [("New", "ann, bob"), ("Old", "")]);
}

/// Runs a statement beside the store, and returns the first value that it prints.
fn raw(test: &TestDatabase, sql: &str) -> String {
    let Some((server, name)) = test.server() else {
        let path = test.url.strip_prefix("sqlite:").unwrap();
        let connection = Connection::open(path).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement.query([]).unwrap();
        let row = rows.next().unwrap();
        return row.map(|row| row.get::<_, i64>(0).unwrap().to_string()).unwrap_or_default();
    };
    assert!([Kind::Postgres, Kind::Mariadb].contains(&server.kind()));
    server.query(name, sql).trim().to_owned()
}

#[test]
fn urls_that_cannot_be_used_are_errors_without_the_password() {
    for url in [
        "",
        "mail.db",
        "sqlite:",
        "sqlite://host/mail.db",
        "sqlite:a?mode=ro",
        "oracle://u:secret@host/mail",
        "postgres://u:secret@host:port/mail",
        "postgres://u:secret@host/mail?sslmode=require",
        "postgres://u:secret@one,two/mail",
        "postgres://host/mail",
        "postgres://u:secret@host",
        "mysql://u:secret@host:70000/mail",
        "mysql://u:secret@host/mail?require_ssl=true",
        "mariadb://u:secret@host",
        "mariadb://u:secret@host/mail?unknown=1",
    ] {
        let error = Database::at(url).map(drop).expect_err(url).to_string();
        assert!(!error.contains("secret"), "{error}");
    }
    for url in [
        "sqlite:mail.db",
        "postgresql://u@host/mail",
        "postgres://u:p@%2Frun%2Fpostgresql/mail",
        "mysql://u:p@host/mail",
        "mariadb://u@localhost/mail?socket=%2Frun%2Fmysqld%2Fmysqld.sock",
    ] {
        Database::at(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}
