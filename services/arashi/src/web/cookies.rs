//! The three cookies: of a session, of the form to log in, and of a device.

use std::fmt::Write;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use super::device::{DEVICE_SECONDS, DeviceTokens};
use super::token::is_token;
use crate::store::SessionKey;

/// How long the form to log in may stay open, in seconds: a working day.
const LOG_IN_SECONDS: i64 = 12 * 3600;

/// The names and the attributes of cookies. Over TLS their names begin with `__Host-`: a browser
/// takes such a cookie from this host over TLS only, so that no other host can plant one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookies {
    secure: bool,
}

impl Cookies {
    /// Cookies of a service that is reached over TLS, or not.
    pub(crate) fn new(secure: bool) -> Self {
        Self { secure }
    }

    /// The key of the session that a request belongs to.
    pub(crate) fn session(self, headers: &HeaderMap) -> Option<SessionKey> {
        find(headers, self.session_name())?.parse().ok()
    }

    /// What the form to log in must contain.
    pub(crate) fn log_in_token(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.log_in_name()).filter(|token| is_token(token))
    }

    /// Logs a browser in. `Lax`: links from elsewhere lead to a page, forms from elsewhere to
    /// nothing.
    pub(crate) fn set_session(self, key: &SessionKey, seconds: i64) -> HeaderValue {
        self.set(self.session_name(), &key.to_string(), "Lax", seconds)
    }

    pub(crate) fn remove_session(self) -> HeaderValue {
        self.set(self.session_name(), "", "Lax", 0)
    }

    pub(crate) fn set_log_in_token(self, token: &str) -> HeaderValue {
        self.set(self.log_in_name(), token, "Strict", LOG_IN_SECONDS)
    }

    /// The accounts that have logged in by this browser before.
    pub(crate) fn device(self, headers: &HeaderMap) -> DeviceTokens {
        find(headers, self.device_name()).map(DeviceTokens::parse).unwrap_or_default()
    }

    pub(crate) fn set_device(self, tokens: &DeviceTokens) -> HeaderValue {
        self.set(self.device_name(), &tokens.cookie(), "Strict", DEVICE_SECONDS)
    }

    fn session_name(self) -> &'static str {
        if self.secure { "__Host-arashi" } else { "arashi" }
    }

    fn log_in_name(self) -> &'static str {
        if self.secure { "__Host-arashi-log-in" } else { "arashi-log-in" }
    }

    fn device_name(self) -> &'static str {
        if self.secure { "__Host-arashi-device" } else { "arashi-device" }
    }

    fn set(self, name: &str, value: &str, same_site: &str, seconds: i64) -> HeaderValue {
        let mut cookie = String::with_capacity(160);
        // Writing to a string does not fail.
        let _ = write!(
            cookie,
            "{name}={value}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={}",
            seconds.max(0)
        );
        if self.secure {
            cookie.push_str("; Secure");
        }
        HeaderValue::from_str(&cookie).expect("names, hexadecimal digits, numbers, `.` and `~`")
    }
}

/// The first cookie of this name.
fn find<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let fields = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
    let mut pairs = fields.flat_map(|field| field.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookies: &[&'static str]) -> HeaderMap {
        cookies.iter().map(|cookie| (COOKIE, HeaderValue::from_static(cookie))).collect()
    }

    #[test]
    fn a_session_is_found_among_other_cookies() {
        const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let found = headers(&[
            "a=b; arashi-log-in=x",
            "xarashi=1; arashi=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ]);
        let key = Cookies::new(false).session(&found);
        assert_eq!(key.map(|key| key.to_string()).as_deref(), Some(KEY));
        // Over TLS, a cookie that another host may have planted is none.
        assert!(Cookies::new(true).session(&found).is_none());
        for forged in ["arashi=", "arashi=1", "arashi", "arashi=' OR 1=1 --"] {
            assert!(Cookies::new(false).session(&headers(&[forged])).is_none(), "{forged}");
        }
    }

    #[test]
    fn cookies_have_the_attributes_that_keep_them() {
        let key: SessionKey = "00".repeat(32).parse().unwrap();
        let plain = Cookies::new(false).set_session(&key, 60);
        let rest = format!("{}; Path=/; HttpOnly; SameSite=Lax; Max-Age=60", "00".repeat(32));
        assert_eq!(plain.to_str().unwrap(), format!("arashi={rest}"));
        let secure = Cookies::new(true).set_session(&key, 60);
        assert_eq!(secure.to_str().unwrap(), format!("__Host-arashi={rest}; Secure"));
        let removed = Cookies::new(false).remove_session();
        assert_eq!(removed.to_str().unwrap(), "arashi=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    }
}
