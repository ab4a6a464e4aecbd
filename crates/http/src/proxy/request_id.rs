//! Naming each request, so that the logs of several servers can be put together.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

/// The longest name kept from a client: twice a UUID and some.
const LENGTH_MAX: usize = 128;

/// Makes request ids: 32 hexadecimal digits, of which half are random to this
/// source and half count.
#[derive(Debug)]
pub(super) struct RequestIds {
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
    pub(super) fn make(&self) -> [u8; 32] {
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

/// Whether a client's id may go into other people's logs.
pub(super) fn is_well_formed(id: &HeaderValue) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=LENGTH_MAX).contains(&id.len()) && id.as_bytes().iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_are_well_formed() {
        let ids = RequestIds { source: 0xab, next: AtomicU64::new(0xfe) };
        assert_eq!(&ids.make(), b"00000000000000ab00000000000000fe");
        assert_eq!(&ids.make(), b"00000000000000ab00000000000000ff");
        let made = HeaderValue::from_bytes(&RequestIds::default().make()).unwrap();
        assert!(is_well_formed(&made));
    }

    #[test]
    fn ids_that_could_forge_a_log_line_are_not_kept() {
        for id in ["", "a b", "a\"b", "<b>", &"x".repeat(129)] {
            assert!(!is_well_formed(&HeaderValue::from_str(id).unwrap()), "{id:?}");
        }
        assert!(is_well_formed(&HeaderValue::from_static("7b3c-REQ_1.2:/+=@")));
    }
}
