//! Known devices: browsers in which an account has logged in before.
//!
//! Whoever knows a name can fail in it until unknown browsers are locked out. So a log-in that
//! succeeds gives its browser a *device cookie* [OWASP, "Slow Down Online Guessing Attacks with
//! Device Cookies"]: it is signed, shows no name, and lets this browser try by a limit of its own.
//! It logs nobody in.

use subtle::ConstantTimeEq;

use super::token::{is_token, new_token};
use crate::store::{DeviceKey, StoreError};

/// A device is known for this long after its last log-in: half a year, in seconds.
pub(crate) const DEVICE_SECONDS: i64 = 183 * 24 * 3600;

/// Accounts that one browser is known to, as a family's: the one that logged in longest ago gives
/// way. A cookie of four has some 560 bytes.
const TOKENS_MAX: usize = 4;

/// What a device cookie has in it: a token for each account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceTokens(Vec<DeviceToken>);

/// Says that an account has logged in by the device `id`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceToken {
    expires_seconds: i64,
    /// Random, of its own for each account.
    id: String,
    signature: String,
}

impl DeviceTokens {
    /// The tokens of a cookie; what has another form is left out.
    pub(crate) fn parse(cookie: &str) -> Self {
        Self(cookie.split('~').take(TOKENS_MAX).filter_map(DeviceToken::parse).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The id of the device, if the account of this name has logged in by it.
    pub(crate) fn known(&self, key: &DeviceKey, name: &str, now_seconds: i64) -> Option<String> {
        let is_valid = |token: &&DeviceToken| {
            let signature = sign(key, name, &token.id, token.expires_seconds);
            let is_ours = signature.as_bytes().ct_eq(token.signature.as_bytes());
            bool::from(is_ours) && now_seconds < token.expires_seconds
        };
        self.0.iter().find(is_valid).map(|token| token.id.clone())
    }

    /// The tokens after the account of this name has logged in, as `known` or as a new device.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn logged_in(
        &self,
        key: &DeviceKey,
        name: &str,
        known: Option<String>,
        now_seconds: i64,
    ) -> Result<Self, StoreError> {
        let id = known.map_or_else(new_token, Ok)?;
        let expires_seconds = now_seconds + DEVICE_SECONDS;
        let others = self.0.iter().filter(|other| other.id != id);
        let others = others.filter(|other| now_seconds < other.expires_seconds).cloned();
        let signature = sign(key, name, &id, expires_seconds);
        let own = DeviceToken { expires_seconds, id: id.clone(), signature };
        Ok(Self(std::iter::once(own).chain(others).take(TOKENS_MAX).collect()))
    }

    /// The value of the cookie.
    pub(crate) fn cookie(&self) -> String {
        let tokens = self.0.iter().map(|DeviceToken { expires_seconds, id, signature }| {
            format!("{expires_seconds}.{id}.{signature}")
        });
        tokens.collect::<Vec<_>>().join("~")
    }
}

impl DeviceToken {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let expires_seconds = parts.next()?.parse().ok()?;
        let mut token = || parts.next().filter(|part| is_token(part)).map(ToOwned::to_owned);
        Some(Self { expires_seconds, id: token()?, signature: token()? })
    }
}

/// The signature of a token. Names are told apart as the limits of log-ins do.
fn sign(key: &DeviceKey, name: &str, id: &str, expires_seconds: i64) -> String {
    key.sign(&format!("device {expires_seconds} {id} {}", name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn key(digit: &str) -> DeviceKey {
        DeviceKey::new(&digit.repeat(64))
    }

    fn logged_in(before: &DeviceTokens, name: &str, now: i64) -> DeviceTokens {
        let known = before.known(&key("a"), name, now);
        let after = before.logged_in(&key("a"), name, known, now).unwrap();
        let read = DeviceTokens::parse(&after.cookie());
        assert_eq!(read, after);
        read
    }

    #[test]
    fn a_token_is_of_one_account_one_key_and_half_a_year() {
        let tokens = logged_in(&DeviceTokens::default(), "ada", NOW);
        let id = tokens.known(&key("a"), "ada", NOW).unwrap();
        let last = NOW + 183 * 24 * 3600 - 1;
        assert_eq!(tokens.known(&key("a"), "ADA", last), Some(id.clone()));
        for (key, name, now) in
            [(key("b"), "ada", NOW), (key("a"), "bob", NOW), (key("a"), "ada", last + 1)]
        {
            assert_eq!(tokens.known(&key, name, now), None, "{name} {now}");
        }
        // A device that logs in again is the same, for longer.
        let again = logged_in(&tokens, "ada", NOW + 1);
        assert_eq!(again.known(&key("a"), "ada", last + 1), Some(id));
    }

    #[test]
    fn what_was_changed_is_no_token() {
        let cookie = logged_in(&DeviceTokens::default(), "ada", NOW).cookie();
        let (expires, rest) = cookie.split_once('.').unwrap();
        let (id, signature) = rest.split_once('.').unwrap();
        let later = expires.parse::<i64>().unwrap() + 1;
        let zeros = "0".repeat(64);
        for forged in [
            String::new(),
            "~".repeat(10_000),
            format!("{later}.{rest}"),
            format!("{expires}.{zeros}.{signature}"),
            format!("{expires}.{id}.{zeros}"),
            format!("{expires}.{id}."),
            format!("{expires}.{id}.{}", &signature[1..]),
            format!("{cookie}.x"),
            format!("x~x~x~x~{cookie}"),
        ] {
            assert_eq!(DeviceTokens::parse(&forged).known(&key("a"), "ada", NOW), None, "{forged}");
        }
        assert!(DeviceTokens::parse(&format!("x~{cookie}")).known(&key("a"), "ada", NOW).is_some());
    }

    #[test]
    fn a_browser_is_known_to_the_four_accounts_that_logged_in_last() {
        let mut tokens = DeviceTokens::default();
        for (number, name) in (0..).zip(["a", "b", "c", "d", "a", "e"]) {
            tokens = logged_in(&tokens, name, NOW + number);
        }
        let known = |name: &&str| tokens.known(&key("a"), name, NOW + 5).is_some();
        assert_eq!(["a", "b", "c", "d", "e"].iter().filter(|name| known(name)).count(), 4);
        assert!(!known(&"b"));
        assert!(tokens.cookie().len() < 600, "{}", tokens.cookie().len());
    }
}
