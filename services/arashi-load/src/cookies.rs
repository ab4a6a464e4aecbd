//! The cookies of a user. They are all for one server, so a name is enough to tell them apart.

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

/// More than a service needs: a bound for one that sets ever new ones.
const COOKIES_MAX: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Cookies(Vec<(Vec<u8>, Vec<u8>)>);

impl Cookies {
    /// Does what the `Set-Cookie` fields of an answer say. `Secure` is not looked at: load goes
    /// over cleartext HTTP, as to a server behind a proxy that ends TLS.
    pub(crate) fn take(&mut self, headers: &HeaderMap) {
        for line in headers.get_all(SET_COOKIE) {
            let mut parts = line.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let pair = parts.next().unwrap_or_default();
            let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&pair[..equals], &pair[equals + 1..]);
            self.0.retain(|(held, _)| held != name);
            let is_removed = parts.any(|part| {
                let part = part.to_ascii_lowercase();
                part == b"max-age=0" || part.starts_with(b"max-age=-")
            });
            if !is_removed && self.0.len() < COOKIES_MAX {
                self.0.push((name.to_vec(), value.to_vec()));
            }
        }
    }

    /// Puts them into the head of a request.
    pub(crate) fn send(&self, headers: &mut HeaderMap) {
        let pairs: Vec<_> =
            self.0.iter().map(|(name, value)| [name.as_slice(), value].join(&b'=')).collect();
        if !pairs.is_empty() {
            // They were parts of a valid value.
            if let Ok(value) = HeaderValue::from_bytes(&pairs.join(&b"; "[..])) {
                headers.insert(COOKIE, value);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(lines: &[&'static str]) -> Option<String> {
        let mut cookies = Cookies::default();
        for line in lines {
            let line = HeaderValue::from_static(line);
            cookies.take(&HeaderMap::from_iter([(SET_COOKIE, line)]));
        }
        let mut headers = HeaderMap::new();
        cookies.send(&mut headers);
        headers.get(COOKIE).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn what_was_set_last_is_sent() {
        assert_eq!(sent(&[]), None);
        let twice = ["a=1; HttpOnly; Path=/", "b=2=3; Secure", "a=4"];
        assert_eq!(sent(&twice).unwrap(), "b=2=3; a=4");
    }

    #[test]
    fn a_cookie_without_a_life_is_removed() {
        assert_eq!(sent(&["a=1", "a=; Max-Age=0"]), None);
        assert_eq!(sent(&["a=1", "b", "a=; max-age=-1; Path=/"]), None);
    }

    #[test]
    fn there_are_never_more_than_the_bound() {
        let names: Vec<String> = (0..30).map(|number| format!("n{number}=1")).collect();
        let mut cookies = Cookies::default();
        for name in &names {
            let line = HeaderValue::from_str(name).unwrap();
            cookies.take(&HeaderMap::from_iter([(SET_COOKIE, line)]));
        }
        assert_eq!(cookies.0.len(), COOKIES_MAX);
    }
}
