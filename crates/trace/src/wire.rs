//! Encoding of numbers: variable-length integers and floats.

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u8 = 4;

pub(crate) const MAGIC: [u8; 8] = *b"TAMTRACE";

/// Length and checksum.
pub(crate) const BLOCK_HEAD: usize = 8;

/// The longest block, its head included. A head of a trace with 64 classes of long
/// names takes a third of it.
pub(crate) const BLOCK_MAX: usize = 64 * 1024;

/// Longer names are cut.
pub(crate) const NAME_MAX: usize = 255;

/// Far more constants than any law has.
pub(crate) const KNOBS_MAX: usize = 64;

/// The first byte of the last block.
pub(crate) const END: u8 = 0xf;

/// The kinds of records: the low four bits of their first byte.
pub(crate) mod kind {
    pub(crate) const ARRIVAL: u8 = 1;
    pub(crate) const DEQUEUE: u8 = 2;
    pub(crate) const SWEEP: u8 = 3;
    pub(crate) const ORDER: u8 = 4;
    pub(crate) const FINISH: u8 = 5;
    pub(crate) const TICK: u8 = 6;
    pub(crate) const CPU: u8 = 7;
    pub(crate) const GAP: u8 = 8;
    pub(crate) const TARGET: u8 = 9;
    pub(crate) const MOVE: u8 = 10;
    pub(crate) const ABANDONED: u8 = 11;
    pub(crate) const ALL: u8 = 0xf;
}

/// The backlog is another one than at the record before.
pub(crate) const BACKLOG_CHANGED: u8 = 1 << 4;
/// So is the limit.
pub(crate) const LIMIT_CHANGED: u8 = 1 << 5;
/// The answer was not the usual one: rejected, dropped, newest first. Of a target: there
/// are more of the same change.
pub(crate) const UNUSUAL: u8 = 1 << 6;
/// The event has a deadline.
pub(crate) const HAS_DEADLINE: u8 = 1 << 7;
/// Of the end of an event, the two bits that say how it ended.
pub(crate) const ENDING_SHIFT: u32 = 6;

/// Seven bits a byte, least first; the eighth says that there is more.
pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A number near zero on either side, as one near zero.
pub(crate) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

pub(crate) fn put_f64(bytes: &mut Vec<u8>, value: f64) {
    bytes.extend(value.to_bits().to_le_bytes());
}

pub(crate) fn put_name(bytes: &mut Vec<u8>, name: &str) {
    let name = &name[..name.floor_char_boundary(NAME_MAX)];
    put(bytes, name.len() as u64);
    bytes.extend(name.as_bytes());
}

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many are left.
    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// `None` for what does not fit into 64 bits, too.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(crate) fn f64(&mut self) -> Option<f64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(f64::from_bits(u64::from_le_bytes(bytes)))
    }

    pub(crate) fn name(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= NAME_MAX)?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_end_to_end() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_signed(&mut bytes, value as i64);
            let mut read = Bytes::new(&bytes);
            assert_eq!(read.number(), Some(value));
            assert_eq!(read.signed(), Some(value as i64));
            assert!(read.is_empty());
        }
    }

    #[test]
    fn what_fits_into_no_number_is_none() {
        assert_eq!(Bytes::new(&[0x80]).number(), None);
        assert_eq!(Bytes::new(&[0xff; 11]).number(), None);
        assert_eq!(
            Bytes::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(),
            None
        );
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let mut bytes = Vec::new();
        put_name(&mut bytes, &"ü".repeat(200));
        assert_eq!(Bytes::new(&bytes).name(), Some("ü".repeat(127)));
    }
}
