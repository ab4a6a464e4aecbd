//! PostgreSQL: one connection, by TCP or a Unix socket.

use std::collections::HashMap;
use std::fmt::{self, Write};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use super::server::{Line, STATEMENT_SECONDS};
use crate::store::connection::{Cell, Connection, Dialect, Ending, Fault, Row, Value};

/// More than there are different statements.
const STATEMENTS_KEPT: usize = 128;
/// Any number that other programs are not likely to lock.
const MIGRATION_LOCK: i64 = 0x7461_6d61_7269_736b;

/// A database of a server.
pub(in crate::store) struct Server {
    config: Config,
    address: Address,
}

#[derive(Clone)]
enum Address {
    Tcp(String, u16),
    Unix(String),
}

impl Server {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let mut config: Config = url.parse().map_err(|error: Error| error.to_string())?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err("TLS to the database is not supported".into());
        }
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let address = match config.get_hosts() {
            [Host::Tcp(host)] => Address::Tcp(host.clone(), port),
            [Host::Unix(folder)] => Address::Unix(format!("{}/.s.PGSQL.{port}", folder.display())),
            _ => return Err("give one host".into()),
        };
        if config.get_user().is_none() || config.get_dbname().is_none() {
            return Err("give a user and the name of a database".into());
        }
        // A transaction of a client that has stopped does not keep others waiting.
        config.options(format!(
            "-c statement_timeout={STATEMENT_SECONDS}s \
             -c idle_in_transaction_session_timeout={STATEMENT_SECONDS}s"
        ));
        config.application_name("tamarisk-arashi");
        Ok(Self { config, address })
    }

    pub(super) fn connect(&self, ending: &Ending) -> Result<Box<dyn Connection>, Fault> {
        let line = Line::new()?;
        let (client, connection) = line.connect(ending, async {
            let socket = self.address.connect().await?;
            self.config.connect_raw(socket, NoTls).await.map_err(|error| fault(&error))
        })?;
        line.spawn(async {
            // The statement that was running is told why it ended.
            let _ = connection.await;
        });
        Ok(Box::new(Postgres {
            line,
            client,
            address: self.address.clone(),
            statements: HashMap::new(),
            is_settled: true,
        }))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(host, port) => write!(f, "PostgreSQL at {host}:{port}"),
            Address::Unix(path) => write!(f, "PostgreSQL at {path}"),
        }
    }
}

/// A connected socket of either kind.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

impl Address {
    async fn connect(&self) -> Result<Box<dyn Socket>, Fault> {
        let lost = |error: std::io::Error| Fault::Lost(error.to_string());
        match self {
            Self::Tcp(host, port) => {
                let socket = TcpStream::connect((host.as_str(), *port)).await.map_err(lost)?;
                socket.set_nodelay(true).map_err(lost)?;
                Ok(Box::new(socket))
            }
            Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(lost)?)),
        }
    }
}

/// An open connection.
struct Postgres {
    line: Line,
    client: Client,
    address: Address,
    /// What the server has prepared, by the text.
    statements: HashMap<String, Statement>,
    /// Whether it is known that no statement runs.
    is_settled: bool,
}

impl Postgres {
    /// Runs a statement, prepared when it is run for the first time.
    fn run<T>(
        &mut self,
        ending: &Ending,
        sql: &str,
        values: &[Value<'_>],
        run: impl AsyncFnOnce(&Client, &Statement, &[&(dyn ToSql + Sync)]) -> Result<T, Error>,
    ) -> Result<T, Fault> {
        let Self { line, client, address, statements, is_settled } = self;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(parameter).collect();
        let statement = async {
            let prepared = match statements.get(sql) {
                Some(prepared) => prepared.clone(),
                None => {
                    let prepared = client.prepare(&numbered(sql)).await?;
                    if statements.len() >= STATEMENTS_KEPT {
                        statements.clear();
                    }
                    statements.insert(sql.to_owned(), prepared.clone());
                    prepared
                }
            };
            run(client, &prepared, &values).await
        };
        let statement = async { statement.await.map_err(|error| fault(&error)) };
        let cancel = async {
            let mut socket = address.connect().await?;
            let token = client.cancel_token();
            token.cancel_query_raw(&mut socket, NoTls).await.map_err(|error| fault(&error))?;
            // The server closes it when it has sent the signal.
            let mut nothing = [0];
            socket.read(&mut nothing).await.map_err(|error| Fault::Lost(error.to_string()))?;
            Ok(())
        };
        let result = line.run(ending, is_settled, statement, cancel);
        if *is_settled && matches!(result, Err(Fault::Terminated)) {
            *is_settled = line.serves(async || {
                let probe = client.simple_query("").await;
                if probe.is_err() {
                    client.simple_query("").await.map_err(|error| fault(&error))?;
                }
                Ok(())
            });
        }
        result
    }

    fn simple(&mut self, sql: &str) -> Result<(), Fault> {
        self.is_settled = false;
        let client = &self.client;
        let statement = async { client.batch_execute(sql).await.map_err(|error| fault(&error)) };
        let result = self.line.finish(statement);
        self.is_settled = !matches!(result, Err(Fault::Lost(_)));
        result
    }
}

impl Connection for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn is_usable(&self) -> bool {
        self.is_settled && !self.client.is_closed()
    }

    fn query(
        &mut self,
        ending: &Ending,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault> {
        let rows = self.run(ending, sql, values, async |client, statement, values| {
            client.query(statement, values).await
        })?;
        rows.iter().map(row).collect()
    }

    fn execute(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        self.run(ending, sql, values, async |client, statement, values| {
            client.execute(statement, values).await
        })
    }

    fn insert(&mut self, ending: &Ending, sql: &str, values: &[Value<'_>]) -> Result<i64, Fault> {
        let mut rows = self.query(ending, &format!("{sql} RETURNING id"), values)?;
        rows.pop().ok_or_else(|| Fault::Failed("inserted row has no id".into()))?.integer()
    }

    fn begin(&mut self, _: &Ending) -> Result<(), Fault> {
        self.simple("BEGIN")
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.simple("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        if !self.is_usable() {
            return Err(Fault::Lost("the statement before has not ended".into()));
        }
        self.simple("ROLLBACK")
    }

    fn lock_migrations(&mut self, ending: &Ending) -> Result<(), Fault> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM pg_advisory_xact_lock(?)";
        self.query(ending, sql, &[Value::Integer(MIGRATION_LOCK)]).map(drop)
    }

    fn define(&mut self, sql: &str) -> Result<(), Fault> {
        self.simple(sql)
    }
}

fn parameter<'a>(value: &'a Value<'_>) -> &'a (dyn ToSql + Sync) {
    match value {
        Value::Integer(number) => number,
        Value::Text(text) => text,
        Value::Bytes(bytes) => bytes,
    }
}

/// A statement with `$1`, `$2` ... for each `?`.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (part, number) in parts.zip(1..) {
        let _ = write!(numbered, "${number}{part}");
    }
    numbered
}

fn row(row: &tokio_postgres::Row) -> Result<Row, Fault> {
    let cells = row.columns().iter().enumerate().map(|(index, column)| {
        let cell = if *column.type_() == Type::INT8 {
            row.try_get::<_, Option<i64>>(index)?.map(Cell::Integer)
        } else if *column.type_() == Type::BYTEA {
            row.try_get::<_, Option<Vec<u8>>>(index)?.map(Cell::Bytes)
        } else {
            row.try_get::<_, Option<String>>(index)?.map(|text| Cell::Bytes(text.into_bytes()))
        };
        Ok(cell.unwrap_or(Cell::Null))
    });
    let cells: Result<_, Error> = cells.collect();
    cells.map(Row::new).map_err(|error| Fault::Failed(error.to_string()))
}

fn fault(error: &Error) -> Fault {
    let Some(database) = error.as_db_error() else {
        let cause = std::error::Error::source(error);
        let text = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        return if error.is_closed() || cause.is_some_and(|cause| cause.is::<std::io::Error>()) {
            Fault::Lost(text)
        } else {
            Fault::Failed(text)
        };
    };
    let code = database.code();
    let text = format!("{} ({})", database.message(), code.code());
    let is_one_of = |codes: &[SqlState]| codes.contains(code);
    if *code == SqlState::UNIQUE_VIOLATION {
        Fault::Duplicate
    } else if *code == SqlState::QUERY_CANCELED {
        Fault::Slow(text)
    } else if is_one_of(&[SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]) {
        Fault::Busy(text)
    // Shut down, or not yet started: class 57P; too many connections; a transaction idle too long.
    } else if code.code().starts_with("57P")
        || code.code().starts_with("08")
        || is_one_of(&[SqlState::TOO_MANY_CONNECTIONS])
        || code.code() == "25P03"
    {
        Fault::Lost(text)
    } else {
        Fault::Failed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered() {
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
        assert_eq!(numbered("a = ? AND b IN (?, ?)"), "a = $1 AND b IN ($2, $3)");
    }
}
