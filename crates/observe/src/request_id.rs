//! Request ids (`X-Request-Id`).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue};

/// The longest name kept from a client: twice a UUID and some.
const LENGTH_MAX: usize = 128;

/// The id of a request: at most 128 bytes, kept in place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    length: u8,
    bytes: [u8; LENGTH_MAX],
}

impl RequestId {
    /// The id `text`; what of it exceeds 128 bytes is cut off.
    pub fn new(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(LENGTH_MAX)];
        let mut bytes = [0; LENGTH_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self { length: text.len() as u8, bytes }
    }

    /// A client's id, if it is well-formed.
    pub fn of_client(id: &[u8]) -> Option<Self> {
        Self::is_well_formed(id).then(|| Self::new(std::str::from_utf8(id).unwrap_or_default()))
    }

    /// Whether a client's id may go into other people's logs.
    pub fn is_well_formed(id: &[u8]) -> bool {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
        (1..=LENGTH_MAX).contains(&id.len()) && id.iter().all(is_plain)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl std::fmt::Debug for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Makes request ids: 32 hexadecimal digits, half of them random to this
/// source and half count.
#[derive(Debug)]
pub struct RequestIds {
    source: u64,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        // The standard library's random keys; nothing secret hangs on them.
        Self { source: RandomState::new().hash_one(0_u64), next: AtomicU64::new(0) }
    }
}

impl RequestIds {
    /// The client's id if it has sent one that is well-formed, or a new one.
    pub fn of(&self, headers: &HeaderMap) -> RequestId {
        self.of_values(headers.get_all("x-request-id").iter().map(HeaderValue::as_bytes))
    }

    /// The first of these values of the client's field that is well-formed, or a new id.
    pub fn of_values<'v>(&self, mut values: impl Iterator<Item = &'v [u8]>) -> RequestId {
        values.find_map(RequestId::of_client).unwrap_or_else(|| self.next())
    }

    /// A new id.
    pub fn next(&self) -> RequestId {
        RequestId::new(std::str::from_utf8(&self.make()).unwrap_or_default())
    }

    fn make(&self) -> [u8; 32] {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let mut text = [0; 32];
        let (source, counted) = text.split_at_mut(16);
        for (half, digits) in [(source, self.source), (counted, count)] {
            for (place, digit) in half.iter_mut().rev().enumerate() {
                *digit = b"0123456789abcdef"[(digits >> (4 * place)) as usize & 0xf];
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_are_well_formed() {
        let ids = RequestIds { source: 0xab, next: AtomicU64::new(0xfe) };
        assert_eq!(&ids.make(), b"00000000000000ab00000000000000fe");
        assert_eq!(&ids.make(), b"00000000000000ab00000000000000ff");
        assert!(RequestId::is_well_formed(&RequestIds::default().make()));
    }

    #[test]
    fn ids_that_could_forge_a_log_line_are_not_kept() {
        for id in ["", "a b", "a\"b", "<b>", &"x".repeat(129)] {
            assert!(!RequestId::is_well_formed(id.as_bytes()), "{id:?}");
        }
        assert!(RequestId::is_well_formed(b"7b3c-REQ_1.2:/+=@"));
    }

    #[test]
    fn a_client_names_its_request_if_it_does_so_plainly() {
        let ids = RequestIds { source: 0, next: AtomicU64::new(1) };
        let mut headers = HeaderMap::new();
        headers.append("x-request-id", HeaderValue::from_static("a b"));
        assert_eq!(ids.of(&headers).as_str(), "00000000000000000000000000000001");
        headers.append("x-request-id", HeaderValue::from_static("plain-1"));
        assert_eq!(ids.of(&headers).as_str(), "plain-1");
    }

    #[test]
    fn a_long_id_is_cut_between_characters() {
        assert_eq!(RequestId::new("").as_str(), "");
        assert_eq!(RequestId::new(&"x".repeat(128)).as_str(), "x".repeat(128));
        // The 64th of these starts at byte 127.
        let long = format!("x{}", "é".repeat(100));
        assert_eq!(RequestId::new(&long).as_str(), format!("x{}", "é".repeat(63)));
    }
}
