//! Where the fields of a header block end, for which no table has to be known [RFC7541 §6].

use std::iter;

/// Of an integer: h2 takes no longer one.
const INTEGER_BYTES_MAX: usize = 5;

/// The fields of a block and its dynamic table size updates, in HPACK. One that h2 will reject goes on
/// to the end of the block.
pub(super) fn fields(mut block: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        let behind = behind_field(block).unwrap_or_default();
        let field = block.split_off(..block.len() - behind.len())?;
        (!field.is_empty()).then_some(field)
    })
}

/// Whether a `field` is none, but a dynamic table size update [RFC7541 §6.3].
pub(super) fn is_size_update(field: &[u8]) -> bool {
    field.first().is_some_and(|first| first & 0xe0 == 0x20)
}

/// What follows the field that `block` begins with.
fn behind_field(block: &[u8]) -> Option<&[u8]> {
    let (prefix_bits, is_literal) = match block.first()? {
        0x80.. => (7, false),
        0x40.. => (6, true),
        0x20.. => (5, false),
        _ => (4, true),
    };
    let (index, behind) = integer(block, prefix_bits)?;
    if !is_literal {
        return Some(behind);
    }
    let behind_name = if index == 0 { behind_string(behind)? } else { behind };
    behind_string(behind_name)
}

/// What follows the string that `bytes` begin with [RFC7541 §5.2].
fn behind_string(bytes: &[u8]) -> Option<&[u8]> {
    let (length, behind) = integer(bytes, 7)?;
    behind.get(length..)
}

/// The integer that `bytes` begin with, behind a prefix in the first of them, and what follows it
/// [RFC7541 §5.1].
fn integer(bytes: &[u8], prefix_bits: u32) -> Option<(usize, &[u8])> {
    let (first, mut behind) = bytes.split_first()?;
    let mask = (1 << prefix_bits) - 1;
    let mut value = usize::from(first & mask);
    if first & mask < mask {
        return Some((value, behind));
    }
    for index in 0..INTEGER_BYTES_MAX - 1 {
        let byte = behind.split_off_first()?;
        value += usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, behind));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &[&[u8]]) {
        let block = expected.concat();
        assert_eq!(fields(&block).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn fields_end_where_the_next_begins() {
        // The examples of [RFC7541 App. C.2, C.4.1].
        check(&[b"\x40\x0acustom-key\x0dcustom-header", b"\x04\x0c/sample/path"]);
        check(&[b"\x10\x08password\x06secret", b"\x82", b"\x86", b"\x84"]);
        check(&[b"\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", b"\x82"]);
        check(&[b"\x20", b"\x3f\xe1\x1f", b"\xff\x00", b"\xff\x80\x80\x80\x01", b"\x7f\x0a\x01v"]);
        check(&[b"\x5f\x01v", b"\x60\x01v", b"\x7e\x01v", b"\x7f\x00\x01v", b"\x0e\x01v"]);
        check(&[b"\x0f\x01\x00", b"\x1f\x80\x00\x00", b"\x00\x00\x00", b"\xbf"]);
        check(&[]);
    }

    #[test]
    fn strings_of_any_length_belong_to_their_field() {
        // 127 and 1337 more [RFC7541 App. C.1.2].
        let value = [b'v'; 127 + 1337];
        for length in [&b"\x7f\xb9\x0a"[..], b"\xff\xb9\x0a", b"\x7f\xb9\x8a\x80\x00"] {
            check(&[b"\x82", &[b"\0\x01x", length, &value].concat(), b"\x83"]);
            check(&[b"\x82", &[b"\0", length, &value, b"\x01x"].concat(), b"\x83"]);
        }
    }

    #[test]
    fn what_h2_rejects_goes_on_to_the_end() {
        for rest in [
            &b"\0"[..],
            b"\0\x01",
            b"\0\x01xx",
            b"\x04\x02/",
            b"\x04\xff\xff\xff\xff",
            b"\x3f\xe1",
            b"\xff\x80\x80\x80\x80\x00\x82",
            b"\0\x01x\x7f\xff\xff\xff\x7f\x82",
        ] {
            check(&[b"\x82", rest]);
        }
    }

    #[test]
    fn size_updates_are_known_by_their_first_bits() {
        let fields: [&[u8]; 6] = [b"", b"\x1f\x01\x00", b"\x20", b"\x3f\xe1\x1f", b"\x40", b"\xbf"];
        assert_eq!(fields.map(is_size_update), [false, false, true, true, false, false]);
    }
}
