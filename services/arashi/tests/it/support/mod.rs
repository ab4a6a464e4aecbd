//! Databases for tests: each test has one of its own.

pub(crate) mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tamarisk_arashi::store::{Database, Store};

pub(crate) use servers::{Kind, Server};

/// A database that only one test uses.
pub(crate) struct TestDatabase {
    pub(crate) database: Database,
    pub(crate) url: String,
    place: Place,
}

/// What a database is in.
enum Place {
    File { _folder: Folder },
    Server { server: Arc<Server>, name: String },
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        let folder = Folder::new();
        let url = format!("sqlite:{}", folder.path().join("mail/mail.db").display());
        let database = Database::at(&url).unwrap();
        Self { database, url, place: Place::File { _folder: folder } }
    }

    /// A new database of the server that tests share.
    pub(crate) fn of(kind: Kind) -> Self {
        Self::on(&Server::shared(kind))
    }

    pub(crate) fn on(server: &Arc<Server>) -> Self {
        let name = format!("mail{}", next_number());
        let url = server.create_database(&name);
        let database = Database::at(&url).unwrap();
        Self { database, url, place: Place::Server { server: Arc::clone(server), name } }
    }

    /// The server and the name that the database has there, if it is on one.
    pub(crate) fn server(&self) -> Option<(&Server, &str)> {
        match &self.place {
            Place::File { .. } => None,
            Place::Server { server, name } => Some((server, name)),
        }
    }

    pub(crate) fn connect(&self) -> Store {
        self.database.connect().unwrap()
    }
}

fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A new folder that is removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = format!("tamarisk-arashi-{}-{}", std::process::id(), next_number());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
