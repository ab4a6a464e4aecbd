//! The text of a line, value by value: what a client says cannot end it, or pass for another one.

use std::fmt::{Display, Write};
use std::net::IpAddr;
use std::time::Duration;

/// No more of what a client has sent is written down; what follows says that there was more.
const FIELD_MAX: usize = 2048;
const CUT: &str = "...";

/// The text of a line as it grows. `core::fmt` is for what is rare: a line made by it alone takes
/// two to three times as long.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Text of our own, as it is.
    pub(super) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    /// The same, at a place within the line.
    pub(super) fn insert(&mut self, at: usize, text: &str) {
        self.0.insert_str(at, text);
    }

    /// What is said of it elsewhere, in words of ours.
    pub(super) fn shown(&mut self, value: impl Display) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{value}");
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    pub(super) fn address(&mut self, address: IpAddr) -> &mut Self {
        let IpAddr::V4(address) = address else { return self.shown(address) };
        let [first, rest @ ..] = address.octets();
        self.number(first.into());
        for octet in rest {
            self.raw(".").number(octet.into());
        }
        self
    }

    /// Seconds with six digits behind the point.
    pub(super) fn seconds(&mut self, time: Duration) -> &mut Self {
        self.number(time.as_secs()).fraction::<6>(time.subsec_micros())
    }

    /// A point, and this many digits behind it.
    pub(super) fn fraction<const DIGITS: usize>(&mut self, mut value: u32) -> &mut Self {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (value % 10) as u8;
            value /= 10;
        }
        self.raw(".").raw(std::str::from_utf8(&digits).unwrap_or_default())
    }

    /// As Apache does it: quotes and backslashes behind a backslash, and as `\x…` all that is
    /// not visible ASCII.
    pub(super) fn plain(&mut self, bytes: &[u8]) -> &mut Self {
        let (bytes, end) = cut(bytes);
        if let Some(text) = all_plain(bytes) {
            return self.raw(text).raw(end);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            let (text, behind) = rest.split_at(plain);
            self.raw(std::str::from_utf8(text).unwrap_or_default());
            let Some((special, behind)) = behind.split_first() else { break };
            match special {
                b'"' | b'\\' => self.0.extend(['\\', char::from(*special)]),
                other => {
                    self.shown(format_args!("\\x{other:02X}"));
                }
            }
            rest = behind;
        }
        self.raw(end)
    }

    /// A string or `null`. Bytes that are no UTF-8 become U+FFFD; what is not seen, or turns the
    /// text behind it around, is escaped, because people look at logs in terminals.
    pub(super) fn json(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        let Some(bytes) = bytes else { return self.raw("null") };
        let (bytes, end) = cut(bytes);
        self.raw("\"");
        if let Some(text) = all_plain(bytes) {
            return self.raw(text).raw(end).raw("\"");
        }
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '"' | '\\' => self.0.extend(['\\', character]),
                other if is_unseen(other) => {
                    self.shown(format_args!("\\u{:04x}", u32::from(other)));
                }
                other => self.0.push(other),
            }
        }
        self.raw(end).raw("\"")
    }

    /// A name, with `_` for spaces and quotes.
    pub(super) fn word(&mut self, name: &str) -> &mut Self {
        // Nearly all names are as they should be.
        if name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
            return self.raw(name);
        }
        for character in name.chars() {
            let is_plain =
                !character.is_whitespace() && !character.is_control() && character != '"';
            self.0.push(if is_plain { character } else { '_' });
        }
        self
    }
}

fn cut(bytes: &[u8]) -> (&[u8], &str) {
    if bytes.len() > FIELD_MAX { (&bytes[..FIELD_MAX], CUT) } else { (bytes, "") }
}

/// Visible ASCII and spaces, without quotes and backslashes.
fn is_plain(byte: &u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// Control characters, and those that separate lines, join or turn around what is beside them.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// The text of `bytes` that may stand in a line as they are, as nearly all do.
fn all_plain(bytes: &[u8]) -> Option<&str> {
    // Many bytes at a time are looked at, since the first that is not plain need not be found.
    let plain = bytes.iter().fold(true, |plain, byte| plain & is_plain(byte));
    if plain { std::str::from_utf8(bytes).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[u8] = b"a\"b\\c\td\x7f \xff\xc3\xbc";

    fn plain(bytes: &[u8]) -> String {
        let mut text = Text::default();
        text.plain(bytes);
        text.into_string()
    }

    fn json(bytes: &[u8]) -> String {
        let mut text = Text::default();
        text.json(Some(bytes));
        text.into_string()
    }

    #[test]
    fn numbers_and_addresses_are_those_of_the_standard_library() {
        for address in ["0.0.0.0", "127.0.0.1", "255.20.3.1", "::1", "2001:db8::ff"] {
            let mut text = Text::default();
            text.address(address.parse().unwrap());
            assert_eq!(text.into_string(), address);
        }
        for (time, expected) in
            [(0, "0.000000"), (1_000_001, "1.000001"), (59_012_340, "59.012340")]
        {
            let mut text = Text::default();
            text.seconds(Duration::from_micros(time));
            assert_eq!(text.into_string(), expected);
        }
    }

    #[test]
    fn a_name_is_one_word() {
        let mut text = Text::default();
        text.word("a b\"c\n").word("plain");
        assert_eq!(text.into_string(), "a_b_c_plain");
    }

    #[test]
    fn no_client_writes_a_line_of_its_own() {
        let hostile: Vec<u8> = (0..=255).collect();
        assert_eq!(plain(HOSTILE), "a\\\"b\\\\c\\x09d\\x7F \\xFF\\xC3\\xBC");
        assert_eq!(json(HOSTILE), "\"a\\\"b\\\\c\\u0009d\\u007f \u{fffd}ü\"");
        for text in [plain(&hostile), json(&hostile)] {
            assert!(!text.contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn no_text_is_turned_around() {
        assert_eq!(json("a\u{202e}b\u{2066}c\u{feff}é".as_bytes()), r#""a\u202eb\u2066c\ufeffé""#);
    }

    #[test]
    fn no_field_is_longer_than_is_of_use() {
        let long = vec![b'a'; 100_000];
        let expected = format!("\"{}...\"", "a".repeat(2048));
        assert_eq!(json(&long), expected);
    }
}
