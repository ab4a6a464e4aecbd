//! The tables, in numbered migrations.

use super::connection::{Connection, Dialect, Ending, Fault, Row, Value};

/// Each brings the tables of the version before to the next; the first makes version 1. Statements
/// end with `;`. The types are replaced by the database's: `{id}`, a number that the database
/// draws; `{key}`, text of up to 128 characters that is sorted by code points; `{text}`; `{bytes}`.
const MIGRATIONS: [&str; 3] = [
    "
CREATE TABLE IF NOT EXISTS users (
    id {id},
    name {key} NOT NULL UNIQUE,
    class BIGINT NOT NULL,
    password_hash {text} NOT NULL,
    created_seconds BIGINT NOT NULL
){options};

CREATE TABLE IF NOT EXISTS sessions (
    id {id},
    key_hash {key} NOT NULL UNIQUE,
    user_id BIGINT NOT NULL,
    created_seconds BIGINT NOT NULL,
    used_seconds BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
){options};
CREATE INDEX {if_new} sessions_of_user ON sessions (user_id, used_seconds);

CREATE TABLE IF NOT EXISTS folders (
    id {id},
    user_id BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    name {key} NOT NULL,
    message_count BIGINT NOT NULL,
    unread_count BIGINT NOT NULL,
    UNIQUE (user_id, name),
    UNIQUE (user_id, id),
    FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
){options};

CREATE TABLE IF NOT EXISTS messages (
    id {id},
    user_id BIGINT NOT NULL,
    folder_id BIGINT NOT NULL,
    date_seconds BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    is_unread BIGINT NOT NULL,
    has_attachments BIGINT NOT NULL,
    author_key {key} NOT NULL,
    subject_key {key} NOT NULL,
    author {text} NOT NULL,
    subject {text} NOT NULL,
    snippet {text} NOT NULL,
    headers {text} NOT NULL,
    FOREIGN KEY (user_id, folder_id) REFERENCES folders (user_id, id) ON DELETE CASCADE
){options};
CREATE INDEX {if_new} messages_by_date
    ON messages (user_id, folder_id, date_seconds, id);
CREATE INDEX {if_new} messages_by_author
    ON messages (user_id, folder_id, author_key, date_seconds DESC, id DESC);
CREATE INDEX {if_new} messages_by_subject
    ON messages (user_id, folder_id, subject_key, date_seconds DESC, id DESC);

CREATE TABLE IF NOT EXISTS message_bodies (
    message_id BIGINT NOT NULL PRIMARY KEY,
    content {bytes} NOT NULL,
    FOREIGN KEY (message_id) REFERENCES messages (id) ON DELETE CASCADE
){options};
",
    // Messages that were there before have none.
    "ALTER TABLE messages ADD COLUMN recipients VARCHAR(256) NOT NULL DEFAULT '';",
    "
CREATE TABLE IF NOT EXISTS secrets (
    id {id},
    name {key} NOT NULL UNIQUE,
    value {key} NOT NULL
){options};
",
];

/// The version that this program reads and writes.
const VERSION: u64 = MIGRATIONS.len() as u64;

/// Makes the tables, or brings them up to date, one connection at a time.
///
/// # Errors
/// If the tables are of a newer version than this program knows.
pub(super) fn migrate(connection: &mut dyn Connection, ending: &Ending) -> Result<(), Fault> {
    // Of the current version there is nothing to do, and nothing to lock.
    if let Ok(rows) = connection.query(ending, "SELECT MAX(version) FROM schema_version", &[])
        && let Ok(VERSION) = version(rows)
    {
        return Ok(());
    }
    connection.begin(ending)?;
    let migrated = migrate_in_turn(connection, ending);
    match migrated {
        Ok(()) => connection.commit(),
        Err(fault) => {
            connection.rollback()?;
            Err(fault)
        }
    }
}

fn migrate_in_turn(connection: &mut dyn Connection, ending: &Ending) -> Result<(), Fault> {
    connection.lock_migrations(ending)?;
    connection.define("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")?;
    let rows = connection.query(ending, "SELECT MAX(version) FROM schema_version", &[])?;
    let found = version(rows)?;
    if found > VERSION {
        return Err(Fault::Failed(format!(
            "tables are of version {found}, and this program knows versions up to {VERSION}: \
             use a newer program"
        )));
    }
    for (migration, number) in MIGRATIONS.iter().zip(1..).skip(found as usize) {
        for statement in written_for(connection.dialect(), migration) {
            connection.define(&statement)?;
        }
        let sql = "INSERT INTO schema_version (version) VALUES (?)";
        connection.execute(ending, sql, &[Value::Integer(number)])?;
    }
    Ok(())
}

/// The newest version in the table, 0 if it is empty.
fn version(rows: Vec<Row>) -> Result<u64, Fault> {
    let mut row = rows.into_iter().next().ok_or_else(|| Fault::Failed("no version".into()))?;
    Ok(row.optional_integer()?.unwrap_or(0).max(0) as u64)
}

/// The statements of a migration, in the words of a database.
fn written_for(dialect: Dialect, migration: &str) -> Vec<String> {
    let [id, key, text, bytes, if_new, options] = match dialect {
        Dialect::Sqlite => {
            ["INTEGER PRIMARY KEY AUTOINCREMENT", "TEXT", "TEXT", "BLOB", "IF NOT EXISTS", ""]
        }
        Dialect::Postgres => [
            "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
            "VARCHAR(128) COLLATE \"C\"",
            "TEXT",
            "BYTEA",
            "IF NOT EXISTS",
            "",
        ],
        Dialect::Mariadb => [
            "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
            "VARCHAR(128)",
            "TEXT",
            "LONGBLOB",
            "",
            " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ],
    };
    let written = migration
        .replace("{id}", id)
        .replace("{key}", key)
        .replace("{text}", text)
        .replace("{bytes}", bytes)
        .replace("{if_new}", if_new)
        .replace("{options}", options);
    written
        .split_terminator(';')
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect()
}
