//! MariaDB, and MySQL, which speaks the same protocol: one connection, by TCP or a Unix socket.

use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Params};

use super::server::{Line, STATEMENT_SECONDS};
use crate::store::connection::{Cell, Connection, Dialect, Ending, Fault, Row, Value};

/// More than there are different statements.
const STATEMENTS_KEPT: usize = 128;
/// A lock of the server, for one database of it.
const MIGRATION_LOCK: &str = "CONCAT('tamarisk-arashi ', LEFT(DATABASE(), 40))";

/// Numbers of errors, as the server documents them.
mod code {
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(super) const SHUTDOWN: u16 = 1053;
    pub(super) const COLUMN_EXISTS: u16 = 1060;
    pub(super) const INDEX_EXISTS: u16 = 1061;
    pub(super) const DUPLICATE: u16 = 1062;
    pub(super) const UNKNOWN_VARIABLE: u16 = 1193;
    pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const INTERRUPTED: u16 = 1317;
    pub(super) const CONNECTION_KILLED: u16 = 1927;
    pub(super) const STATEMENT_TIMEOUT: u16 = 1969;
    pub(super) const STATEMENT_TIMEOUT_MYSQL: u16 = 3024;
}

/// A database of a server.
pub(in crate::store) struct Server {
    options: Opts,
}

impl Server {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let given = Opts::from_url(url).map_err(|error| error.to_string())?;
        if given.ssl_opts().is_some() {
            return Err("TLS to the database is not supported".into());
        }
        let (Some(user), Some(name)) = (given.user(), given.db_name()) else {
            return Err("give a user and the name of a database".into());
        };
        let options = OptsBuilder::default()
            .ip_or_hostname(given.ip_or_hostname())
            .tcp_port(given.tcp_port())
            .socket(given.socket())
            .prefer_socket(false)
            .user(Some(user))
            .pass(given.pass())
            .db_name(Some(name))
            .stmt_cache_size(STATEMENTS_KEPT)
            .setup(vec![
                "SET NAMES utf8mb4 COLLATE utf8mb4_bin".to_owned(),
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
                format!(
                    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY', \
                     innodb_lock_wait_timeout = {STATEMENT_SECONDS}"
                ),
            ]);
        Ok(Self { options: options.into() })
    }

    pub(super) fn connect(&self, ending: &Ending) -> Result<Box<dyn Connection>, Fault> {
        let line = Line::new()?;
        let connection = line.connect(ending, async {
            let mut connection =
                Conn::new(self.options.clone()).await.map_err(|error| fault(&error))?;
            bound_statements(&mut connection).await.map_err(|error| fault(&error))?;
            Ok(connection)
        })?;
        Ok(Box::new(Mariadb {
            line,
            connection,
            options: self.options.clone(),
            is_settled: true,
            is_migrating: false,
        }))
    }
}

/// Tells the server how long statements may take.
async fn bound_statements(connection: &mut Conn) -> Result<(), Error> {
    let bounded = connection.query_drop(format!(
        "SET SESSION max_statement_time = {STATEMENT_SECONDS}, \
         idle_transaction_timeout = {STATEMENT_SECONDS}"
    ));
    match bounded.await {
        Err(Error::Server(error)) if error.code == code::UNKNOWN_VARIABLE => {
            let milliseconds = STATEMENT_SECONDS * 1000;
            connection.query_drop(format!("SET SESSION max_execution_time = {milliseconds}")).await
        }
        other => other,
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.options.socket() {
            Some(path) => write!(f, "MariaDB at {path}"),
            None => {
                let (host, port) = (self.options.ip_or_hostname(), self.options.tcp_port());
                write!(f, "MariaDB at {host}:{port}")
            }
        }
    }
}

/// An open connection.
struct Mariadb {
    line: Line,
    connection: Conn,
    options: Opts,
    /// Whether it is known that no statement runs.
    is_settled: bool,
    /// Whether it holds the lock for migrations.
    is_migrating: bool,
}

impl Mariadb {
    fn run<T>(
        &mut self,
        ending: &Ending,
        run: impl AsyncFnOnce(&mut Conn) -> Result<T, Error>,
    ) -> Result<T, Fault> {
        let Self { line, connection, options, is_settled, .. } = self;
        let id = connection.id();
        let cancel = async {
            let kill = async {
                let mut side = Conn::new(options.clone()).await?;
                side.query_drop(format!("KILL QUERY {id}")).await?;
                side.disconnect().await
            };
            kill.await.map_err(|error: Error| fault(&error))
        };
        let statement = async { run(&mut *connection).await.map_err(|error| fault(&error)) };
        let result = line.run(ending, is_settled, statement, cancel);
        if *is_settled && matches!(result, Err(Fault::Terminated)) {
            *is_settled = line.serves(async || {
                if connection.query_drop("DO 0").await.is_err() {
                    connection.query_drop("DO 0").await.map_err(|error| fault(&error))?;
                }
                Ok(())
            });
        }
        self.note_loss(result)
    }

    fn simple(&mut self, sql: &str) -> Result<(), Fault> {
        self.is_settled = false;
        let connection = &mut self.connection;
        let statement = async { connection.query_drop(sql).await.map_err(|error| fault(&error)) };
        let result = self.line.finish(statement);
        self.is_settled = true;
        self.note_loss(result)
    }

    fn note_loss<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if matches!(result, Err(Fault::Lost(_))) {
            self.is_settled = false;
        }
        result
    }

    /// Lets others migrate; the server does so too when the connection is closed.
    fn unlock_migrations(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.is_migrating) {
            self.simple(&format!("DO RELEASE_LOCK({MIGRATION_LOCK})"))?;
        }
        Ok(())
    }
}

impl Connection for Mariadb {
    fn dialect(&self) -> Dialect {
        Dialect::Mariadb
    }

    fn is_usable(&self) -> bool {
        self.is_settled
    }

    fn query(
        &mut self,
        ending: &Ending,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault> {
        let rows: Vec<mysql_async::Row> =
            self.run(ending, async |connection| connection.exec(sql, parameters(values)).await)?;
        rows.into_iter().map(row).collect()
    }

    fn execute(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        self.run(ending, async |connection| {
            connection.exec_drop(sql, parameters(values)).await?;
            Ok(connection.affected_rows())
        })
    }

    fn insert(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<i64, Fault> {
        let id = self.run(ending, async |connection| {
            connection.exec_drop(sql, parameters(values)).await?;
            Ok(connection.last_insert_id())
        })?;
        id.and_then(|id| i64::try_from(id).ok())
            .ok_or_else(|| Fault::Failed("inserted row has no id".into()))
    }

    fn begin(&mut self, _: &Ending) -> Result<(), Fault> {
        self.simple("START TRANSACTION")
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.simple("COMMIT")?;
        self.unlock_migrations()
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        if !self.is_settled {
            return Err(Fault::Lost("the statement before has not ended".into()));
        }
        self.simple("ROLLBACK")?;
        self.unlock_migrations()
    }

    /// Statements that define tables end their transaction, so that this is a lock besides.
    fn lock_migrations(&mut self, ending: &Ending) -> Result<(), Fault> {
        let sql = format!("SELECT GET_LOCK({MIGRATION_LOCK}, {STATEMENT_SECONDS})");
        let rows = self.query(ending, &sql, &[])?;
        let is_locked = rows.into_iter().next().and_then(|mut row| row.integer().ok());
        if is_locked != Some(1) {
            return Err(Fault::Busy("another connection is migrating the tables".into()));
        }
        self.is_migrating = true;
        Ok(())
    }

    fn define(&mut self, sql: &str) -> Result<(), Fault> {
        let Self { line, connection, .. } = self;
        let defined = line.finish(async {
            match connection.query_drop(sql).await {
                Err(Error::Server(error))
                    if [code::COLUMN_EXISTS, code::INDEX_EXISTS].contains(&error.code) =>
                {
                    Ok(())
                }
                other => other.map_err(|error| fault(&error)),
            }
        });
        self.note_loss(defined)
    }
}

fn parameters(values: &[Value<'_>]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    let value = |value: &Value<'_>| match value {
        Value::Integer(number) => mysql_async::Value::Int(*number),
        Value::Text(text) => mysql_async::Value::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => mysql_async::Value::Bytes(bytes.to_vec()),
    };
    Params::Positional(values.iter().map(value).collect())
}

fn row(row: mysql_async::Row) -> Result<Row, Fault> {
    let cell = |value| match value {
        mysql_async::Value::NULL => Ok(Cell::Null),
        mysql_async::Value::Int(number) => Ok(Cell::Integer(number)),
        mysql_async::Value::UInt(number) => i64::try_from(number)
            .map(Cell::Integer)
            .map_err(|_| Fault::Failed(format!("number {number} is too large"))),
        mysql_async::Value::Bytes(bytes) => Ok(Cell::Bytes(bytes)),
        other => Err(Fault::Failed(format!("value of another type: {}", other.as_sql(true)))),
    };
    row.unwrap().into_iter().map(cell).collect::<Result<_, _>>().map(Row::new)
}

fn fault(error: &Error) -> Fault {
    let text = error.to_string();
    match error {
        Error::Server(server) => match server.code {
            code::DUPLICATE => Fault::Duplicate,
            code::DEADLOCK | code::LOCK_WAIT_TIMEOUT => Fault::Busy(text),
            code::INTERRUPTED | code::STATEMENT_TIMEOUT | code::STATEMENT_TIMEOUT_MYSQL => {
                Fault::Slow(text)
            }
            code::TOO_MANY_CONNECTIONS | code::SHUTDOWN | code::CONNECTION_KILLED => {
                Fault::Lost(text)
            }
            _ => Fault::Failed(text),
        },
        Error::Io(_) | Error::Driver(_) => Fault::Lost(text),
        Error::Other(_) | Error::Url(_) => Fault::Failed(text),
    }
}
