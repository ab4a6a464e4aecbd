//! Which requests are of one kind: those that take about as long.
//!
//! A kind is a method and a path, where what varies from one request to the next counts as the
//! same: numbers, UUIDs, hashes, tokens and whatever is very long. It is found without
//! allocation, in some nanoseconds, for it is asked of every request.

use http::Method;

/// Segments of a path that are looked at. Further ones hardly tell another kind of work.
const SEGMENTS_MAX: usize = 6;

/// From here on hexadecimal digits are a hash or an id and no word, if a decimal one is among them.
const HEX_MIN: usize = 8;

/// From here on letters and digits together are a token.
const TOKEN_MIN: usize = 16;

/// From here on a segment is a text or a token, whatever it is made of. Words in paths are shorter.
const LONG_MIN: usize = 32;

/// Digits that make a segment a word with a number. A version such as `v2` has fewer.
const NUMBER_MIN: usize = 2;

const DIGIT: u8 = 1;
/// `a` to `f`, in either case.
const HEX_LETTER: u8 = 1 << 1;
const LETTER: u8 = 1 << 2;
const DASH: u8 = 1 << 3;
const OTHER: u8 = 1 << 4;
const SLASH: u8 = 1 << 5;

/// What each byte is.
const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' | b'A'..=b'F' => HEX_LETTER,
            b'g'..=b'z' | b'G'..=b'Z' => LETTER,
            b'-' | b'_' => DASH,
            b'/' => SLASH,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// An odd number without a pattern: the golden ratio's fraction, as in Fibonacci hashing.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The kind of a request with this method for this `path`, which may not have a query; never 0.
pub(crate) fn kind_of(method: &Method, path: &str) -> u64 {
    let mut hash = text(0, method.as_str().as_bytes());
    let mut rest = path.as_bytes();
    let mut segments = 0;
    while !rest.is_empty() {
        let (part, seen, digits) = next(rest);
        rest = rest.get(part.len() + 1..).unwrap_or_default();
        if part.is_empty() {
            continue;
        }
        if segments == SEGMENTS_MAX {
            hash = mix(hash, 1);
            break;
        }
        segments += 1;
        hash = segment(hash, part, seen, digits);
    }
    hash.max(1)
}

/// The first segment of `path`, the classes of its bytes, and how many of them are digits.
fn next(path: &[u8]) -> (&[u8], u8, usize) {
    let (mut seen, mut digits) = (0, 0);
    for (index, byte) in path.iter().enumerate() {
        let class = CLASSES[usize::from(*byte)];
        if class == SLASH {
            return (&path[..index], seen, digits);
        }
        seen |= class;
        digits += usize::from(class & DIGIT);
    }
    (path, seen, digits)
}

fn segment(hash: u64, part: &[u8], seen: u8, digits: usize) -> u64 {
    if part.len() >= LONG_MIN {
        return mix(hash, 2);
    }
    if digits == 0 {
        return text(hash, part);
    }
    let is_hex = seen & !(DIGIT | HEX_LETTER | DASH) == 0 && part.len() >= HEX_MIN;
    let is_token = seen & OTHER == 0 && part.len() >= TOKEN_MIN;
    if digits == part.len() || is_hex || is_token {
        mix(hash, 3)
    } else if digits >= NUMBER_MIN {
        numbered(hash, part)
    } else {
        text(hash, part)
    }
}

/// A word with numbers in it: those that differ in the numbers alone are the same.
fn numbered(mut hash: u64, part: &[u8]) -> u64 {
    let mut before = 0;
    for byte in part {
        let byte = if byte.is_ascii_digit() { b'0' } else { *byte };
        if byte != b'0' || before != b'0' {
            hash = mix(hash, u64::from(byte));
        }
        before = byte;
    }
    mix(hash, 4)
}

/// The bytes themselves, eight at a time, and how many they are.
fn text(hash: u64, part: &[u8]) -> u64 {
    let hash = hash ^ part.len() as u64;
    if let Some(last) = part.last_chunk::<8>() {
        let words = part.chunks_exact(8).map(|word| word.try_into().expect("it has eight bytes"));
        let hash = words.fold(hash, |hash, word| mix(hash, u64::from_le_bytes(word)));
        // Some of its bytes are looked at twice.
        return mix(hash, u64::from_le_bytes(*last));
    }
    let word = match (part.first_chunk::<4>(), part.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    mix(hash, word)
}

/// Takes one more word into a hash: both halves of a product, so that each bit moves others.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ MULTIPLIER) * u128::from(MULTIPLIER);
    (product as u64 ^ (product >> 64) as u64).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn kind(path: &str) -> u64 {
        kind_of(&Method::GET, path)
    }

    fn same(paths: &[&str]) {
        let kinds: HashSet<_> = paths.iter().map(|path| kind(path)).collect();
        assert_eq!(kinds.len(), 1, "{paths:?}");
    }

    fn different(paths: &[&str]) {
        let kinds: HashSet<_> = paths.iter().map(|path| kind(path)).collect();
        assert_eq!(kinds.len(), paths.len(), "{paths:?}");
    }

    #[test]
    fn what_varies_is_folded() {
        same(&["/users/1", "/users/23", "/users/4567890", "/users/1/"]);
        // All of these are ids, and some of them are longer than any word.
        same(&["/o/7", "/o/da39a3ee", "/o/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/o/V1StGXR8_Z5jdHi6B-myT"]);
        same(&[
            "/o/123e4567-e89b-12d3-a456-426614174000",
            "/o/00000000-0000-4000-8000-000000000000",
            "/o/da39a3ee5e6b4b0d3255bfef95601890afd80709",
        ]);
        same(&["/p/product-123.html", "/p/product-42.html"]);
        same(&["/s/what-people-said-about-the-weather", "/s/and-some-other-text-of-that-length"]);
        same(&["/a/b/c/d/e/f/g", "/a/b/c/d/e/f/h/i"]);
    }

    #[test]
    fn words_tell_kinds_apart() {
        different(&[
            "/",
            "/*",
            "/users",
            "/users/1",
            "/users/me",
            "/users/1/posts",
            "/reports",
            "/api/v1/x",
            "/api/v2/x",
            "/a/b",
            "/ab",
            "/deadbeef",
            "/facade",
            "/a/b/c/d/e/f",
            "/a/b/c/d/e/f/g",
        ]);
        assert_ne!(kind_of(&Method::GET, "/a"), kind_of(&Method::POST, "/a"));
    }

    proptest! {
        #[test]
        fn every_path_has_a_kind(path in ".{0,100}") {
            prop_assert_ne!(kind(&path), 0);
        }

        #[test]
        fn short_words_have_kinds_of_their_own(one in "[a-z]{1,12}", other in "[a-z]{1,12}") {
            let kinds = [&one, &other].map(|word| kind(&format!("/{word}")));
            prop_assert_eq!(kinds[0] == kinds[1], one == other);
        }
    }
}
