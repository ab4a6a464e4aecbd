//! Random tokens: of the form to log in, and of a device.

use crate::store::{SessionKey, StoreError};

/// A new token, as random as the key of a session.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn new_token() -> Result<String, StoreError> {
    SessionKey::draw().map(|key| key.to_string())
}

/// Whether the text has the form of a token.
pub(crate) fn is_token(token: &str) -> bool {
    token.parse::<SessionKey>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert!(is_token(&one) && one != other);
    }
}
