//! The classes of accounts, known before a request enters a stage.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::recent::RecentMap;
use crate::store::{AccountClass, SessionKey};

/// As many sessions, and as many names, as are remembered: a hundred thousand take some 10 MB.
/// Whoever is forgotten is bronze for one request.
const ENTRIES_MAX: usize = 100_000;

/// The classes of the accounts that were served last. A hint and no more: it decides whom to
/// reject first, never who may read what.
pub(crate) struct ClassCache {
    /// By the hash of a session's key, so that the time of a look-up tells nothing of keys.
    sessions: Mutex<RecentMap<[u8; 32], AccountClass>>,
    /// By the names of accounts, for log-ins.
    names: Mutex<RecentMap<String, AccountClass>>,
}

impl ClassCache {
    pub(crate) fn new() -> Self {
        Self {
            sessions: Mutex::new(RecentMap::new(ENTRIES_MAX)),
            names: Mutex::new(RecentMap::new(ENTRIES_MAX)),
        }
    }

    pub(crate) fn of_session(&self, key: &SessionKey) -> Option<AccountClass> {
        self.sessions.lock().get(&hash(key)).copied()
    }

    pub(crate) fn of_name(&self, name: &str) -> Option<AccountClass> {
        self.names.lock().get(&name.to_owned()).copied()
    }

    /// A session is of an account of this class.
    pub(crate) fn note_session(&self, key: &SessionKey, class: AccountClass) {
        self.sessions.lock().insert(hash(key), class);
    }

    /// Somebody has logged in by this name.
    pub(crate) fn note_name(&self, name: &str, class: AccountClass) {
        self.names.lock().insert(name.to_owned(), class);
    }

    /// The session has ended.
    pub(crate) fn forget(&self, key: &SessionKey) {
        self.sessions.lock().remove(&hash(key));
    }
}

fn hash(key: &SessionKey) -> [u8; 32] {
    Sha256::digest(key.to_string()).into()
}
