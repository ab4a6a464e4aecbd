//! Passwords that have been verified lately, so that whoever logs in again costs no hash.
//!
//! A hash of Argon2id is made to cost tens of milliseconds: without this, log-ins take most of the
//! time of a service whose users come and go. Neither passwords nor what could be tried against
//! them leaves the process: an entry is the SHA-256 of a random key of this process, the hash as it
//! is kept, and the password. A password that is changed has another hash, and so no entry.

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::{StoreError, password};

/// An entry counts for so long.
const KEPT_SECONDS: i64 = 10 * 60;
/// How many there are; the least used gives way.
const ENTRIES_MAX: usize = 16 * 1024;

/// What has been verified lately: when, by what was verified.
pub(super) struct VerifiedPasswords {
    key: [u8; 32],
    entries: Cache<[u8; 32], i64>,
}

impl VerifiedPasswords {
    pub(super) fn new() -> Result<Self, StoreError> {
        let mut key = [0; 32];
        password::fill_random(&mut key)?;
        Ok(Self { key, entries: Cache::new(ENTRIES_MAX) })
    }

    /// Whether `password` is the one of `hash`, as [`password::verify`] tells; at once where it
    /// has told so lately.
    pub(super) fn verify(
        &self,
        password: &str,
        hash: Option<&str>,
        now_seconds: i64,
    ) -> Result<bool, StoreError> {
        let entry = hash.map(|hash| self.entry(password, hash));
        let at = entry.and_then(|entry| self.entries.get(&entry));
        if at.is_some_and(|at| (at..at + KEPT_SECONDS).contains(&now_seconds)) {
            return Ok(true);
        }
        let is_right = password::verify(password, hash)?;
        if let Some(entry) = entry.filter(|_| is_right) {
            self.entries.insert(entry, now_seconds);
        }
        Ok(is_right)
    }

    fn entry(&self, password: &str, hash: &str) -> [u8; 32] {
        let mut digest = Sha256::new_with_prefix(self.key);
        digest.update(hash.len().to_le_bytes());
        digest.update(hash);
        digest.update(password);
        digest.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_of_the_same_hash_is_known() {
        let verified = VerifiedPasswords::new().unwrap();
        let [ada, ben] = ["a long password", "another password"];
        let [hash, other] =
            [ada, ada].map(|password| password::hash(password, password::Cost::LEAST).unwrap());
        assert!(!verified.verify(ben, Some(&hash), 0).unwrap());
        assert!(!verified.verify(ada, None, 0).unwrap());
        assert!(verified.entries.is_empty(), "what is wrong is not kept");
        assert!(verified.verify(ada, Some(&hash), 0).unwrap());
        assert_eq!(verified.entries.len(), 1);
        assert!(!verified.verify(ben, Some(&hash), 1).unwrap());
        // A new hash of the same password, as after a change, is another entry.
        assert!(verified.verify(ada, Some(&other), 1).unwrap());
        assert_eq!(verified.entries.len(), 2);
    }

    #[test]
    fn an_entry_counts_for_ten_minutes() {
        let verified = VerifiedPasswords::new().unwrap();
        // The hash cannot be verified: what is told comes from the entry.
        let entry = verified.entry("a long password", "no hash");
        verified.entries.insert(entry, 1000);
        let is_right = |now| verified.verify("a long password", Some("no hash"), now).unwrap();
        assert_eq!([999, 1000, 1599, 1600].map(is_right), [false, true, true, false]);
    }
}
