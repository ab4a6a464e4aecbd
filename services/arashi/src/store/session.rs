//! Being logged in: the key that a browser keeps, and what it stands for.

use std::fmt::{self, Write};
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::password::fill_random;
use super::{Account, StoreError};

/// What a browser shows to be logged in: 256 random bits. The database has only its SHA-256, so
/// that whoever reads the database cannot be logged in as others. As text it is 64 hexadecimal
/// digits.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

/// The text is no session key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session key must be 64 hexadecimal digits")]
pub struct InvalidSessionKey;

/// Who is logged in, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Who is logged in.
    pub account: Account,
    /// What each form that changes something must contain; it differs from session to session and
    /// tells nothing of the key.
    pub csrf: String,
    /// When it ends at the latest, in seconds since 1970.
    pub expires_seconds: i64,
}

impl SessionKey {
    pub(crate) fn draw() -> Result<Self, StoreError> {
        let mut bits = [0; 32];
        fill_random(&mut bits)?;
        Ok(Self(bits))
    }

    /// What the database has of it.
    pub(super) fn hash(&self) -> String {
        hexadecimal(&Sha256::digest(self.0))
    }

    pub(super) fn csrf(&self) -> String {
        let digest = Sha256::new().chain_update("tamarisk-arashi csrf").chain_update(self.0);
        hexadecimal(&digest.finalize())
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

/// Not the key: it might get into a log.
impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl FromStr for SessionKey {
    type Err = InvalidSessionKey;

    fn from_str(text: &str) -> Result<Self, InvalidSessionKey> {
        let digits = text.as_bytes();
        let mut bits = [0; 32];
        if digits.len() != 2 * bits.len() {
            return Err(InvalidSessionKey);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(InvalidSessionKey);
        for (byte, pair) in bits.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
        }
        Ok(Self(bits))
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written_and_not_shown() {
        let key = SessionKey::draw().unwrap();
        assert_eq!(key.to_string().parse(), Ok(key.clone()));
        assert_ne!(key, SessionKey::draw().unwrap());
        assert_eq!(format!("{key:?}"), "SessionKey");
        assert!(!key.csrf().contains(&key.to_string()) && key.csrf() != key.hash());
    }

    #[test]
    fn other_texts_are_no_keys() {
        for text in
            ["", "0", &"g".repeat(64), &"0".repeat(63), &"0".repeat(66), &"\u{e9}".repeat(32)]
        {
            assert_eq!(text.parse::<SessionKey>(), Err(InvalidSessionKey), "{text}");
        }
    }
}
