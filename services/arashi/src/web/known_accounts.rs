//! Accounts that were served lately, known before a request enters a stage.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::recent::RecentMap;
use crate::store::{Account, AccountClass, SessionKey, UserId};

/// As many sessions, and as many names, as are remembered: a hundred thousand take some 10 MB.
/// The first request of a session that is not among them is bronze, and its client's address is
/// its flow.
const ENTRIES_MAX: usize = 100_000;

/// Who a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownAccount {
    pub(crate) id: UserId,
    pub(crate) class: AccountClass,
}

/// The accounts that were served last. A hint and no more: it decides whom to reject first and
/// whose share a request counts in, never who may read what.
pub(crate) struct KnownAccounts {
    /// By the hash of a session's key, so that the time of a look-up tells nothing of keys.
    sessions: Mutex<RecentMap<[u8; 32], KnownAccount>>,
    /// The classes by the names of accounts, for log-ins.
    names: Mutex<RecentMap<String, AccountClass>>,
}

impl KnownAccounts {
    pub(crate) fn new() -> Self {
        Self {
            sessions: Mutex::new(RecentMap::new(ENTRIES_MAX)),
            names: Mutex::new(RecentMap::new(ENTRIES_MAX)),
        }
    }

    pub(crate) fn of_session(&self, key: &SessionKey) -> Option<KnownAccount> {
        self.sessions.lock().get(&hash(key)).copied()
    }

    pub(crate) fn class_of_name(&self, name: &str) -> Option<AccountClass> {
        self.names.lock().get(&name.to_owned()).copied()
    }

    /// A session is of this account.
    pub(crate) fn note_session(&self, key: &SessionKey, account: &Account) {
        let known = KnownAccount { id: account.id, class: account.class };
        self.sessions.lock().insert(hash(key), known);
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
