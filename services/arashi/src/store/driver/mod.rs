//! The databases that mail may be kept in.

mod checkpoints;
mod mariadb;
mod postgres;
mod server;
mod sqlite;

use std::fmt;

use super::connection::{Connection, Ending, Fault};

/// A database, by its parsed URL.
pub(super) enum Target {
    Sqlite(sqlite::File),
    Postgres(Box<postgres::Server>),
    Mariadb(mariadb::Server),
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        match url.split_once(':') {
            Some(("sqlite", path)) => sqlite::File::parse(path).map(Self::Sqlite),
            Some(("postgres" | "postgresql", _)) => {
                postgres::Server::parse(url).map(Box::new).map(Self::Postgres)
            }
            Some(("mysql" | "mariadb", rest)) => {
                mariadb::Server::parse(&format!("mysql:{rest}")).map(Self::Mariadb)
            }
            Some((scheme, _)) => Err(format!("unknown scheme `{scheme}`")),
            None => Err("it has no scheme".into()),
        }
    }

    pub(super) fn connect(&self, ending: &Ending) -> Result<Box<dyn Connection>, Fault> {
        match self {
            Self::Sqlite(file) => file.connect(ending),
            Self::Postgres(server) => server.connect(ending),
            Self::Mariadb(server) => server.connect(ending),
        }
    }
}

/// Without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => file.fmt(f),
            Self::Postgres(server) => server.fmt(f),
            Self::Mariadb(server) => server.fmt(f),
        }
    }
}
