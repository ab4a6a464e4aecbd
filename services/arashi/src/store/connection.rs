//! A connection to a database, as its drivers provide it: statements, values, rows, faults.

use std::time::{Duration, Instant};

use super::{IsEnded, StoreError, Work};

/// A connection. Statements are written with `?` for each value.
pub(super) trait Connection: Send {
    /// What this database writes differently.
    fn dialect(&self) -> Dialect;

    /// Whether it can be used again: not after a statement whose end is unknown.
    fn is_usable(&self) -> bool;

    /// Runs a statement that returns rows.
    fn query(
        &mut self,
        ending: &Ending,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault>;

    /// Runs a statement that changes rows, and returns how many.
    fn execute(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault>;

    /// Runs an `INSERT` of one row into a table with an `id`, and returns the new row's.
    fn insert(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<i64, Fault>;

    /// Begins a transaction that writes.
    fn begin(&mut self, ending: &Ending) -> Result<(), Fault>;

    /// Ends the transaction; what it wrote is kept when this returns. It is not cancelled.
    fn commit(&mut self) -> Result<(), Fault>;

    /// Ends the transaction, and undoes what it wrote.
    fn rollback(&mut self) -> Result<(), Fault>;

    /// Lets one connection at a time migrate, until its transaction ends.
    fn lock_migrations(&mut self, ending: &Ending) -> Result<(), Fault>;

    /// Runs a statement that defines a table, a column or an index. It may be there already, where
    /// definitions are not undone with their transaction.
    fn define(&mut self, sql: &str) -> Result<(), Fault>;
}

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
    Mariadb,
}

impl Dialect {
    /// A condition: a column contains a value as it is, without wildcards.
    pub(super) fn contains(self) -> &'static str {
        match self {
            Self::Sqlite => "contains(headers, ?)",
            Self::Postgres => "strpos(headers, ?) > 0",
            Self::Mariadb => "instr(headers, ?) > 0",
        }
    }

    /// The end of a `SELECT` that locks its rows until the transaction ends. A transaction of
    /// SQLite locks the database.
    pub(super) fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres | Self::Mariadb => " FOR UPDATE",
        }
    }
}

/// When a statement is to end early.
pub(super) struct Ending<'a> {
    work: &'a dyn Work,
    pub(super) is_ended: IsEnded,
    /// When nobody waits for the answer any longer.
    pub(super) deadline: Option<Instant>,
}

impl<'a> Ending<'a> {
    pub(super) fn of(work: &'a dyn Work) -> Self {
        let deadline = work.time_left().map(|left| Instant::now() + left);
        Self { work, is_ended: work.is_ended(), deadline }
    }

    pub(super) fn is_due(&self) -> bool {
        (self.is_ended)()
    }

    /// To be called after a wait for another program, of this length.
    pub(super) fn note_waited(&self, waited: Duration) {
        self.work.note_waited(waited);
    }
}

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A value of a row.
#[derive(Debug)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    /// Text is UTF-8.
    Bytes(Vec<u8>),
}

/// A row, read from the left to the right.
#[derive(Debug)]
pub(super) struct Row {
    cells: std::vec::IntoIter<Cell>,
}

impl Row {
    pub(super) fn new(cells: Vec<Cell>) -> Self {
        Self { cells: cells.into_iter() }
    }

    fn next(&mut self) -> Result<Cell, Fault> {
        self.cells.next().ok_or_else(|| Fault::Failed("row has too few columns".into()))
    }

    pub(super) fn integer(&mut self) -> Result<i64, Fault> {
        match self.next()? {
            Cell::Integer(number) => Ok(number),
            other => Err(Fault::Failed(format!("integer expected, found {}", other.kind()))),
        }
    }

    pub(super) fn optional_integer(&mut self) -> Result<Option<i64>, Fault> {
        if self.is_null() { Ok(None) } else { self.integer().map(Some) }
    }

    /// An integer that counts.
    pub(super) fn count(&mut self) -> Result<u64, Fault> {
        let number = self.integer()?;
        u64::try_from(number).map_err(|_| Fault::Failed(format!("count expected, found {number}")))
    }

    pub(super) fn flag(&mut self) -> Result<bool, Fault> {
        Ok(self.integer()? != 0)
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Fault> {
        match self.next()? {
            Cell::Bytes(bytes) => Ok(bytes),
            other => Err(Fault::Failed(format!("bytes expected, found {}", other.kind()))),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, Fault> {
        String::from_utf8(self.bytes()?).map_err(|_| Fault::Failed("text is not UTF-8".into()))
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<String>, Fault> {
        if self.is_null() { Ok(None) } else { self.text().map(Some) }
    }

    /// Whether the next value is NULL, which is then read.
    fn is_null(&mut self) -> bool {
        let is_null = matches!(self.cells.as_slice().first(), Some(Cell::Null));
        if is_null {
            self.cells.next();
        }
        is_null
    }
}

impl Cell {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Integer(_) => "an integer",
            Self::Bytes(_) => "bytes",
        }
    }
}

/// Why a statement, or a call made of statements, has no result.
#[derive(Debug)]
pub(super) enum Fault {
    /// The statement was cancelled because its work is to end.
    Terminated,
    /// The connection is gone, or must not be used any longer.
    Lost(String),
    /// The database could not serve it next to others; the same again may succeed.
    Busy(String),
    /// The server ended the statement, because it took too long.
    Slow(String),
    /// There is a row with this key.
    Duplicate,
    /// The database reports an error.
    Failed(String),
    /// What the call itself answers; the statements were in order.
    Answer(StoreError),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Terminated => Self::Terminated,
            Fault::Lost(cause) | Fault::Busy(cause) | Fault::Slow(cause) => {
                Self::Unavailable(cause)
            }
            Fault::Duplicate => Self::Failed("a row with this key exists".into()),
            Fault::Failed(cause) => Self::Failed(cause),
            Fault::Answer(answer) => answer,
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Answer(error)
    }
}

impl From<super::Invalid> for Fault {
    fn from(invalid: super::Invalid) -> Self {
        Self::Answer(invalid.into())
    }
}
