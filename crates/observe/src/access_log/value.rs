//! Single values of a line: what a client says cannot end it, or pass for another one.

use std::fmt::Write;
use std::time::Duration;

/// No more of what a client has sent is written down; what follows says that there was more.
const FIELD_MAX: usize = 2048;
const CUT: &str = "...";

/// Seconds with six digits behind the point.
pub(super) struct Seconds(pub(super) Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut digits = *b".000000";
        let mut micros = self.0.subsec_micros();
        for digit in digits[1..].iter_mut().rev() {
            *digit += (micros % 10) as u8;
            micros /= 10;
        }
        self.0.as_secs().fmt(f)?;
        f.write_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

fn cut(bytes: &[u8]) -> (&[u8], &str) {
    if bytes.len() > FIELD_MAX { (&bytes[..FIELD_MAX], CUT) } else { (bytes, "") }
}

/// Visible ASCII and spaces, without quotes and backslashes.
fn is_plain(byte: &u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// The text of `bytes` that may stand in a line as they are, as nearly all do.
fn all_plain(bytes: &[u8]) -> Option<&str> {
    // Many bytes at a time are looked at, since the first that is not plain need not be found.
    let plain = bytes.iter().fold(true, |plain, byte| plain & is_plain(byte));
    if plain { std::str::from_utf8(bytes).ok() } else { None }
}

/// As Apache does it: quotes and backslashes behind a backslash, and as `\x…` all that is
/// not visible ASCII.
pub(super) struct Plain<'a>(pub(super) &'a [u8]);

impl std::fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (bytes, end) = cut(self.0);
        if let Some(text) = all_plain(bytes) {
            f.write_str(text)?;
            return f.write_str(end);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            let (text, behind) = rest.split_at(plain);
            f.write_str(std::str::from_utf8(text).unwrap_or_default())?;
            let Some((special, behind)) = behind.split_first() else { break };
            match special {
                b'"' | b'\\' => write!(f, "\\{}", char::from(*special))?,
                other => write!(f, "\\x{other:02X}")?,
            }
            rest = behind;
        }
        f.write_str(end)
    }
}

/// A string or `null`. Bytes that are no UTF-8 become U+FFFD; control characters of any
/// kind are escaped, because people look at logs in terminals.
pub(super) struct Json<'a>(pub(super) Option<&'a [u8]>);

impl std::fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(bytes) = self.0 else { return f.write_str("null") };
        let (bytes, end) = cut(bytes);
        f.write_char('"')?;
        if let Some(text) = all_plain(bytes) {
            f.write_str(text)?;
            f.write_str(end)?;
            return f.write_char('"');
        }
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                other if other.is_control() || matches!(other, '\u{2028}' | '\u{2029}') => {
                    write!(f, "\\u{:04x}", u32::from(other))?;
                }
                other => f.write_char(other)?,
            }
        }
        f.write_str(end)?;
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[u8] = b"a\"b\\c\td\x7f \xff\xc3\xbc";

    #[test]
    fn no_client_writes_a_line_of_its_own() {
        let hostile: Vec<u8> = (0..=255).collect();
        assert_eq!(Plain(HOSTILE).to_string(), "a\\\"b\\\\c\\x09d\\x7F \\xFF\\xC3\\xBC");
        let json = Json(Some(HOSTILE)).to_string();
        assert_eq!(json, "\"a\\\"b\\\\c\\u0009d\\u007f \u{fffd}ü\"");
        for text in [Plain(&hostile).to_string(), Json(Some(&hostile)).to_string()] {
            assert!(!text.contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn no_field_is_longer_than_is_of_use() {
        let long = vec![b'a'; 100_000];
        let expected = format!("\"{}...\"", "a".repeat(2048));
        assert_eq!(Json(Some(&long)).to_string(), expected);
    }
}
