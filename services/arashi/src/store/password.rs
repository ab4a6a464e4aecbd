//! Passwords, kept as hashes of Argon2id.

use std::sync::OnceLock;

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

use super::{Invalid, StoreError};

/// What a hash costs, in time and memory.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    memory_kib: u32,
    passes: u32,
}

impl Cost {
    /// 19 MiB, two passes: the least that OWASP's cheat sheet on storing passwords names.
    pub(super) const SAFE: Self = Self { memory_kib: 19 * 1024, passes: 2 };
    /// The least that Argon2 takes.
    pub(super) const LEAST: Self = Self { memory_kib: Params::MIN_M_COST, passes: 1 };

    fn argon2(self) -> Result<Argon2<'static>, StoreError> {
        let parameters = Params::new(self.memory_kib, self.passes, LANES, None).map_err(failed)?;
        Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters))
    }
}

const LANES: u32 = 1;

const SHORTEST_BYTES: usize = 8;
const LONGEST_BYTES: usize = 1024;

/// The hash of `password` with a new salt, in the PHC string format.
pub(super) fn hash(password: &str, cost: Cost) -> Result<String, StoreError> {
    if !(SHORTEST_BYTES..=LONGEST_BYTES).contains(&password.len()) {
        return Err(Invalid::Password.into());
    }
    hash_bytes(password.as_bytes(), cost)
}

/// Whether `password` is the one of `hash`. It takes as long where there is no hash, which is the
/// case of an unknown user.
pub(super) fn verify(password: &str, hash: Option<&str>) -> Result<bool, StoreError> {
    static NOBODY: OnceLock<String> = OnceLock::new();
    // What is too long is nobody's password.
    let hash = hash.filter(|_| password.len() <= LONGEST_BYTES);
    let password = &password.as_bytes()[..password.len().min(LONGEST_BYTES)];
    let against = match (hash, NOBODY.get()) {
        (Some(hash), _) => hash,
        (None, Some(nobody)) => nobody,
        (None, None) => {
            let nobody = hash_bytes(b"nobody", Cost::SAFE)?;
            NOBODY.get_or_init(|| nobody)
        }
    };
    // Its cost is that of the hash.
    let is_right = Cost::SAFE.argon2()?.verify_password(password, against).is_ok();
    Ok(is_right && hash.is_some())
}

fn hash_bytes(password: &[u8], cost: Cost) -> Result<String, StoreError> {
    let mut salt = [0; 16];
    fill_random(&mut salt)?;
    let hash = cost.argon2()?.hash_password_with_salt(password, &salt).map_err(failed)?;
    Ok(hash.to_string())
}

/// Fills `bytes` with random bits of the operating system.
pub(super) fn fill_random(bytes: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(bytes).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_tells_its_password_from_others() {
        let hash = hash("a long password", Cost::SAFE).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify("a long password", Some(&hash)).unwrap());
        assert!(!verify("another password", Some(&hash)).unwrap());
        assert!(!verify("nobody", None).unwrap());
        assert!(!verify(&"a".repeat(2000), Some(&hash)).unwrap());
        assert!(!verify("a long password", Some("no hash")).unwrap());
    }

    #[test]
    fn a_hash_of_the_least_cost_tells_as_well() {
        let hash = hash("a long password", Cost::LEAST).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=8,t=1,p=1$"), "{hash}");
        assert!(verify("a long password", Some(&hash)).unwrap());
        assert!(!verify("another password", Some(&hash)).unwrap());
    }

    #[test]
    fn passwords_have_8_to_1024_bytes() {
        let is_valid = |length: usize| hash(&"p".repeat(length), Cost::LEAST).is_ok();
        assert_eq!([7, 8, 1024, 1025].map(is_valid), [false, true, true, false]);
    }
}
