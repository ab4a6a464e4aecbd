//! SQLite: a file, read and written by the calling thread.
//!
//! Commits are in the write-ahead log with `synchronous = NORMAL`: what has been committed survives
//! the process being killed; a power cut may lose the last commits, and never tears one.

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem::Finder;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Error, ErrorCode, ToSql};

use super::checkpoints::{Checkpoints, Committed, LOG_PAGES_MAX};
use crate::store::IsEnded;
use crate::store::connection::{Cell, Connection, Dialect, Ending, Fault, Row, Value};

/// How many steps of SQLite's machine lie between two questions whether to end: some 10 us.
const STEPS_BETWEEN_CHECKS: i32 = 1000;
/// How long SQLite itself waits for another process, each time it is asked to.
const BUSY_WAIT: Duration = Duration::from_millis(20);
/// For how long other transactions are waited for altogether.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often a wait for the turn to write asks whether to end.
const TURN_CHECK: Duration = Duration::from_millis(10);
/// More than there are different statements.
const STATEMENTS_KEPT: usize = 128;

/// A database in a file.
pub(in crate::store) struct File {
    path: PathBuf,
    /// SQLite has one writer at a time; in this process they queue here.
    turn: Arc<WriteTurn>,
    checkpoints: Checkpoints,
    making: Mutex<()>,
}

impl File {
    pub(super) fn parse(path: &str) -> Result<Self, String> {
        if path.is_empty() || path.starts_with("//") {
            return Err("`sqlite:` must be followed by the path of a file".into());
        }
        if path.contains(['?', '\0']) {
            return Err("a path of a file must not contain `?`".into());
        }
        Ok(Self {
            path: path.into(),
            turn: Arc::default(),
            checkpoints: Checkpoints::new(),
            making: Mutex::default(),
        })
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn connect(&self, ending: &Ending) -> Result<Box<dyn Connection>, Fault> {
        self.make_private().map_err(|error| Fault::Lost(error.to_string()))?;
        let mut connection =
            rusqlite::Connection::open(&self.path).map_err(|error| fault(&error))?;
        let current: Arc<Mutex<Option<IsEnded>>> = Arc::default();
        prepare(&mut connection, &current).map_err(|error| fault(&error))?;
        let (turn, committed) = (Arc::clone(&self.turn), self.checkpoints.of(&self.path));
        let mut sqlite = Sqlite { connection, current, turn, is_writing: false, committed };
        sqlite.set_up(ending)?;
        Ok(Box::new(sqlite))
    }

    /// Makes the folder and the file, readable for their owner alone. A file that is there is not
    /// even opened: to close it would take all locks from this process's connections, and others
    /// would then delete the log with what has been committed.
    fn make_private(&self) -> std::io::Result<()> {
        let _made_by_one = self.making.lock();
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let made = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.path);
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLite at {}", self.path.display())
    }
}

fn prepare(
    connection: &mut rusqlite::Connection,
    current: &Arc<Mutex<Option<IsEnded>>>,
) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("contains", 2, flags, |arguments| {
        let finder = arguments.get_or_create_aux(1, |text| -> Result<_, Error> {
            Ok(Finder::new(text.as_bytes().unwrap_or_default()).into_owned())
        })?;
        let headers = arguments.get_raw(0).as_bytes().unwrap_or_default();
        Ok(finder.find(headers).is_some())
    })?;
    let current = Arc::clone(current);
    let is_due = move || current.lock().as_ref().is_some_and(|is_ended| is_ended());
    connection.progress_handler(STEPS_BETWEEN_CHECKS, Some(is_due))
}

/// An open database.
struct Sqlite {
    connection: rusqlite::Connection,
    /// What the progress handler asks while a statement runs.
    current: Arc<Mutex<Option<IsEnded>>>,
    turn: Arc<WriteTurn>,
    /// Whether it is this connection's turn to write.
    is_writing: bool,
    committed: Committed,
}

impl Sqlite {
    /// Sets how SQLite writes. Each step reads the file, which others lock when they open it first.
    fn set_up(&mut self, ending: &Ending) -> Result<(), Fault> {
        self.wait_for_others(ending, Instant::now(), |connection| {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
            connection.pragma_update(None, "foreign_keys", true)
        })
    }

    /// Repeats `step` while another process has the database locked, with what is left of the time
    /// for it.
    fn wait_for_others(
        &self,
        ending: &Ending,
        start: Instant,
        step: impl Fn(&rusqlite::Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Fault> {
        let connection = &self.connection;
        connection.busy_timeout(Duration::ZERO).map_err(|error| fault(&error))?;
        let tried = step(connection).map_err(|error| fault(&error));
        connection.busy_timeout(BUSY_WAIT).map_err(|error| fault(&error))?;
        if !matches!(tried, Err(Fault::Busy(_))) {
            return tried;
        }
        let waits_since = Instant::now();
        let result = loop {
            match step(connection).map_err(|error| fault(&error)) {
                Err(Fault::Busy(_)) if ending.is_due() => break Err(Fault::Terminated),
                Err(Fault::Busy(_)) if start.elapsed() < LOCK_WAIT => {}
                Err(Fault::Busy(cause)) => break Err(Fault::Slow(cause)),
                other => break other,
            }
        };
        let waited = waits_since.elapsed();
        ending.note_waited(waited);
        self.turn.note_waited(waited);
        result
    }

    /// Runs `step` while the progress handler asks whether `ending` is due.
    fn run<T>(
        &mut self,
        ending: &Ending,
        sql: &str,
        step: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Fault> {
        *self.current.lock() = Some(Arc::clone(&ending.is_ended));
        let result = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let result = step(&mut statement);
            drop(statement);
            result
        });
        *self.current.lock() = None;
        result.map_err(|error| fault(&error))
    }

    fn end_turn(&mut self) {
        if std::mem::take(&mut self.is_writing) {
            self.turn.end();
        }
    }
}

impl Connection for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn is_usable(&self) -> bool {
        true
    }

    fn query(
        &mut self,
        ending: &Ending,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault> {
        self.run(ending, sql, |statement| {
            let columns = statement.column_count();
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            let mut read = Vec::new();
            while let Some(row) = rows.next()? {
                let cells = (0..columns).map(|column| Ok(cell(row.get_ref(column)?)));
                read.push(Row::new(cells.collect::<rusqlite::Result<_>>()?));
            }
            Ok(read)
        })
    }

    fn execute(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        let changed = self
            .run(ending, sql, |statement| statement.execute(rusqlite::params_from_iter(values)))?;
        Ok(changed as u64)
    }

    fn insert(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<i64, Fault> {
        self.run(ending, sql, |statement| statement.insert(rusqlite::params_from_iter(values)))
    }

    fn begin(&mut self, ending: &Ending) -> Result<(), Fault> {
        let start = Instant::now();
        self.turn.wait(ending, start)?;
        self.is_writing = true;
        let begun = self.wait_for_others(ending, start, |connection| {
            connection.execute_batch("BEGIN IMMEDIATE")
        });
        if begun.is_err() {
            self.end_turn();
        }
        begun
    }

    fn commit(&mut self) -> Result<(), Fault> {
        let committed = self.connection.execute_batch("COMMIT").map_err(|error| fault(&error));
        if committed.is_ok() {
            self.end_turn();
            self.committed.note();
        }
        committed
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        // An interrupted statement that writes has ended its transaction itself.
        let rolled_back = if self.connection.is_autocommit() {
            Ok(())
        } else {
            self.connection.execute_batch("ROLLBACK").map_err(|error| fault(&error))
        };
        self.end_turn();
        rolled_back
    }

    /// The transaction locks the database.
    fn lock_migrations(&mut self, _: &Ending) -> Result<(), Fault> {
        Ok(())
    }

    fn define(&mut self, sql: &str) -> Result<(), Fault> {
        self.connection.execute_batch(sql).map_err(|error| fault(&error))
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The transaction is undone before another begins.
        let _ = self.rollback();
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null | ValueRef::Real(_) => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}

fn fault(error: &Error) -> Fault {
    let text = error.to_string();
    match error {
        Error::SqliteFailure(cause, _) => match cause.code {
            ErrorCode::OperationInterrupted => Fault::Terminated,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Fault::Busy(text),
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull => Fault::Lost(text),
            ErrorCode::ConstraintViolation if is_duplicate(cause.extended_code) => Fault::Duplicate,
            _ => Fault::Failed(text),
        },
        _ => Fault::Failed(text),
    }
}

fn is_duplicate(code: i32) -> bool {
    [rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE, rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY]
        .contains(&code)
}

/// Whose turn it is to write.
#[derive(Default)]
struct WriteTurn {
    is_taken: Mutex<bool>,
    ended: Condvar,
    /// For how long those that had the turn have waited for other programs, in nanoseconds.
    waited_nanos: AtomicU64,
}

impl WriteTurn {
    /// Waits for the turn, with what is left of the time for it.
    fn wait(&self, ending: &Ending, start: Instant) -> Result<(), Fault> {
        let mut is_taken = self.is_taken.lock();
        if !*is_taken {
            *is_taken = true;
            return Ok(());
        }
        let (waits_since, before) = (Instant::now(), self.waited_nanos.load(Ordering::Relaxed));
        let result = self.wait_until_free(&mut is_taken, ending, start);
        let waited = waits_since.elapsed();
        // The rest of it was the work of those before.
        let for_others = self.waited_nanos.load(Ordering::Relaxed) - before;
        let is_over = result.is_ok();
        ending.note_waited(if is_over {
            waited.min(Duration::from_nanos(for_others))
        } else {
            waited
        });
        *is_taken |= is_over;
        result
    }

    fn wait_until_free(
        &self,
        is_taken: &mut MutexGuard<'_, bool>,
        ending: &Ending,
        start: Instant,
    ) -> Result<(), Fault> {
        while **is_taken {
            let is_late = self.ended.wait_for(is_taken, TURN_CHECK).timed_out();
            if !is_late || !**is_taken {
                continue;
            }
            if ending.is_due() {
                return Err(Fault::Terminated);
            }
            if start.elapsed() >= LOCK_WAIT {
                return Err(Fault::Slow("others have kept the database locked".into()));
            }
        }
        Ok(())
    }

    /// Who has the turn has waited for another program.
    fn note_waited(&self, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn end(&self) {
        *self.is_taken.lock() = false;
        self.ended.notify_one();
    }
}
