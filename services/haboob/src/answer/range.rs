//! Range requests [RFC9110 §14].

/// More parts in one request than a client needs are a way to make much of little.
const RANGES_MAX: usize = 16;

/// From the first to the last byte, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// What a `Range` field means for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// Nothing: the whole file is the answer.
    Whole,
    /// These parts, in the order of the file, none next to another.
    Parts(Vec<ByteRange>),
    /// Nothing of what is asked for exists.
    Unsatisfiable,
}

impl ByteRange {
    pub(crate) fn len(self) -> u64 {
        self.last - self.first + 1
    }

    /// One of the list for a file of `length` bytes; `None` if it does not parse.
    fn parse(text: &str, length: u64) -> Option<Option<Self>> {
        let (first, last) = text.trim_matches([' ', '\t']).split_once('-')?;
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            // A number too large for 64 bits is beyond the end of any file.
            is_number.then(|| digits.parse().unwrap_or(u64::MAX))
        };
        let (first, last) = match (first, last) {
            ("", suffix) => (length.saturating_sub(number(suffix)?), length.checked_sub(1)),
            (first, "") => (number(first)?, length.checked_sub(1)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                (first, length.checked_sub(1).map(|end| last.min(end)))
            }
        };
        Some(last.filter(|&last| first <= last).map(|last| Self { first, last }))
    }
}

impl Ranges {
    /// A field that is malformed, in another unit, or of too many parts is ignored, as
    /// [RFC9110 §14.2] has it. Parts that touch are answered as one.
    pub(crate) fn of(field: &str, length: u64) -> Self {
        let Some((unit, list)) = field.split_once('=') else { return Self::Whole };
        if !unit.eq_ignore_ascii_case("bytes") {
            return Self::Whole;
        }
        let mut parts = Vec::new();
        for (index, text) in list.split(',').enumerate() {
            match ByteRange::parse(text, length) {
                Some(part) if index < RANGES_MAX => parts.extend(part),
                Some(_) | None => return Self::Whole,
            }
        }
        parts.sort_unstable_by_key(|part| part.first);
        parts.dedup_by(|next, before| {
            let touch = next.first <= before.last.saturating_add(1);
            if touch {
                before.last = before.last.max(next.last);
            }
            touch
        });
        if parts.is_empty() { Self::Unsatisfiable } else { Self::Parts(parts) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(field: &str, length: u64) -> Vec<(u64, u64)> {
        match Ranges::of(field, length) {
            Ranges::Parts(parts) => parts.iter().map(|part| (part.first, part.last)).collect(),
            other => panic!("{field} of {length} is {other:?}"),
        }
    }

    #[test]
    fn one_range_has_a_first_and_a_last_byte_or_one_of_them() {
        assert_eq!(parts("bytes=0-499", 1000), [(0, 499)]);
        assert_eq!(parts("bytes=500-", 1000), [(500, 999)]);
        assert_eq!(parts("bytes=-1", 1000), [(999, 999)]);
        assert_eq!(parts("Bytes= 0-0 ", 1000), [(0, 0)]);
        assert_eq!(parts("bytes=900-99999999999999999999", 1000), [(900, 999)]);
        assert_eq!(parts("bytes=-5000", 1000), [(0, 999)]);
    }

    #[test]
    fn parts_come_in_order_and_those_that_touch_as_one() {
        assert_eq!(parts("bytes=500-599,0-9", 1000), [(0, 9), (500, 599)]);
        assert_eq!(parts("bytes=0-9,10-19,15-40", 1000), [(0, 40)]);
        assert_eq!(parts("bytes=0-9,2000-", 1000), [(0, 9)]);
    }

    #[test]
    fn what_is_beyond_the_end_cannot_be_satisfied() {
        for field in ["bytes=1000-", "bytes=1000-2000", "bytes=-0"] {
            assert_eq!(Ranges::of(field, 1000), Ranges::Unsatisfiable, "{field}");
        }
        assert_eq!(Ranges::of("bytes=0-", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        let many = format!("bytes={}0-0", "0-0,".repeat(RANGES_MAX));
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "lines=0-5",
            "bytes=a-b",
            "bytes=+1-2",
            &many,
        ] {
            assert_eq!(Ranges::of(field, 1000), Ranges::Whole, "{field}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_of_the_file_in_order_and_apart(
            field in "bytes=([0-9]{0,3}-[0-9]{0,3},){0,4}[0-9]{0,20}-[0-9]{0,20}",
            length in 0..500_u64,
        ) {
            if let Ranges::Parts(parts) = Ranges::of(&field, length) {
                prop_assert!(parts.iter().all(|part| part.first <= part.last && part.last < length));
                prop_assert!(parts.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
            }
        }
    }
}
