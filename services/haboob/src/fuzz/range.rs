//! `Range`, against a reading of it byte by byte.

use super::first_line;
use crate::answer::range::{ByteRange, Ranges};

/// Larger files differ from these in no way that matters here.
const LENGTH_MAX: u64 = 512;

/// For a file as long as the first line of `input` says, the field behind it means what
/// a plain reading says, in parts that are in order and apart.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (length, field) = first_line(text);
    let length = length.parse().unwrap_or(100_u64).min(LENGTH_MAX);
    let read = Ranges::of(field, length);
    if let Ranges::Parts(parts) = &read {
        assert!(
            parts.iter().all(|part| part.first <= part.last && part.last < length),
            "{parts:?}"
        );
        assert!(parts.windows(2).all(|two| two[0].last + 1 < two[1].first), "{parts:?}");
        assert!(parts.len() <= 16, "{parts:?}");
    }
    assert_eq!(bytes(&read, length), plain(field, length), "{field:?} of {length}");
}

/// Which bytes are asked for; `None` for the whole file.
fn bytes(ranges: &Ranges, length: u64) -> Option<Vec<bool>> {
    let is_in = |at: u64| move |part: &ByteRange| (part.first..=part.last).contains(&at);
    let asked = |parts: &[ByteRange]| (0..length).map(|at| parts.iter().any(is_in(at))).collect();
    match ranges {
        Ranges::Whole => None,
        Ranges::Parts(parts) => Some(asked(parts)),
        Ranges::Unsatisfiable => Some(asked(&[])),
    }
}

fn plain(field: &str, length: u64) -> Option<Vec<bool>> {
    let (unit, list) = field.split_once('=')?;
    let items: Vec<_> = list.split(',').map(|item| item.trim_matches([' ', '\t'])).collect();
    if !unit.eq_ignore_ascii_case("bytes") || items.len() > 16 {
        return None;
    }
    let mut asked = vec![false; length as usize];
    for item in items {
        let (first, last) = item.split_once('-')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(first) || !is_number(last) || (first.is_empty() && last.is_empty()) {
            return None;
        }
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        let (from, to) = match (first, last) {
            ("", last) => (length.saturating_sub(number(last)), u64::MAX),
            (first, "") => (number(first), u64::MAX),
            (first, last) if number(last) < number(first) => {
                return None;
            }
            (first, last) => (number(first), number(last)),
        };
        for at in 0..length {
            asked[at as usize] |= from <= at && at <= to;
        }
    }
    Some(asked)
}
