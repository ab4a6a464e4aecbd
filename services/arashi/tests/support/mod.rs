//! Databases for tests: each test has one of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tamarisk_arashi::store::{Database, Store};

/// A database that only one test uses.
pub(crate) struct TestDatabase {
    pub(crate) database: Database,
    /// What it is in, removed with it.
    _place: Folder,
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        let folder = Folder::new();
        let url = format!("sqlite:{}", folder.path().join("mail/mail.db").display());
        Self { database: Database::at(&url).unwrap(), _place: folder }
    }

    pub(crate) fn connect(&self) -> Store {
        self.database.connect().unwrap()
    }
}

/// A new folder that is removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tamarisk-arashi-{}-{number}", std::process::id());
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
