//! Chunk framing [RFC9112 §7.1], byte by byte and without the liberties that
//! lenient readers take: no white space around a size, no lone CR or LF.

use super::grammar;
use super::limits::{CHUNK_LINE_MAX, FIELDS_MAX, Limits};
use super::violation::Violation;

/// Where in a chunked body its reader is.
#[derive(Debug)]
pub(super) struct Chunked {
    place: Place,
    /// Bytes of data announced so far.
    data: u64,
    /// Bytes in the chunk line, or in all trailer lines.
    line: usize,
    trailers: u32,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Before a digit of the size; the first one must come.
    SizeStart,
    Size(u64),
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// At the start of a trailer line, or of the empty line that ends it all.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
}

/// How far a slice went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All of it was body, and more body follows.
    All,
    /// The body ended after this many bytes.
    End(usize),
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { place: Place::SizeStart, data: 0, line: 0, trailers: 0 }
    }

    /// Reads on through `bytes`, of which each is shown once.
    pub(super) fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<Reach, Violation> {
        let mut at = 0;
        while at < bytes.len() {
            if let Place::Data(left) = self.place {
                let here = left.min((bytes.len() - at) as u64);
                at += here as usize;
                self.place = if here == left { Place::DataCr } else { Place::Data(left - here) };
                continue;
            }
            let Some(next) = self.step(bytes[at], limits)? else {
                return Ok(Reach::End(at + 1));
            };
            self.place = next;
            at += 1;
        }
        Ok(Reach::All)
    }

    /// The place after `byte`, `None` after the body's last one.
    fn step(&mut self, byte: u8, limits: &Limits) -> Result<Option<Place>, Violation> {
        self.line += 1;
        Ok(Some(match (self.place, byte) {
            (Place::SizeStart, _) => Place::Size(hex(byte).ok_or(Violation::Chunk)?),
            (Place::Size(size) | Place::Extension(size), b'\r') => Place::SizeLf(size),
            (Place::Size(size), b';') => Place::Extension(size),
            (Place::Size(size), _) => {
                let digit = hex(byte).ok_or(Violation::Chunk)?;
                let size = size.checked_mul(16).ok_or(Violation::Chunk)? + digit;
                self.within_line(Place::Size(size))?
            }
            (Place::Extension(_), _) if grammar::is_value(byte) => self.within_line(self.place)?,
            (Place::SizeLf(0), b'\n') => {
                self.line = 0;
                Place::TrailerStart
            }
            (Place::SizeLf(size), b'\n') => {
                self.data = self.data.checked_add(size).ok_or(Violation::Chunk)?;
                if limits.body_max.is_some_and(|max| self.data > max) {
                    return Err(Violation::BodyTooLarge);
                }
                Place::Data(size)
            }
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => {
                self.line = 0;
                Place::SizeStart
            }
            (Place::TrailerStart, b'\r') => Place::EndLf,
            (Place::TrailerStart, _) if grammar::is_token(byte) => {
                self.trailers += 1;
                if self.trailers > FIELDS_MAX {
                    return Err(Violation::TooManyFields);
                }
                Place::TrailerName
            }
            (Place::TrailerName, b':') => Place::TrailerValue,
            (Place::TrailerName, _) if grammar::is_token(byte) => {
                self.within_head(Place::TrailerName, limits)?
            }
            (Place::TrailerValue, b'\r') => Place::TrailerLf,
            (Place::TrailerValue, _) if grammar::is_value(byte) => {
                self.within_head(Place::TrailerValue, limits)?
            }
            (Place::TrailerLf, b'\n') => Place::TrailerStart,
            (Place::EndLf, b'\n') => return Ok(None),
            _ => return Err(Violation::Chunk),
        }))
    }

    fn within_line(&self, next: Place) -> Result<Place, Violation> {
        if self.line > CHUNK_LINE_MAX { Err(Violation::Chunk) } else { Ok(next) }
    }

    fn within_head(&self, next: Place, limits: &Limits) -> Result<Place, Violation> {
        if self.line > limits.head_max { Err(Violation::HeadTooLarge) } else { Ok(next) }
    }
}

fn hex(byte: u8) -> Option<u64> {
    (byte as char).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Reach, Violation> {
        Chunked::new().advance(bytes, &Limits::default().body(Some(64)))
    }

    #[test]
    fn a_body_ends_after_its_last_empty_line() {
        for body in [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"05;name=\"value\"\r\nhello\r\n000\r\n\r\n",
            b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\nX-Sum: 20\r\nEmpty:\r\n\r\n",
        ] {
            let followed = [body, b"GET"].concat();
            assert_eq!(read(&followed), Ok(Reach::End(body.len())), "{body:?}");
            assert_eq!(read(&body[..body.len() - 1]), Ok(Reach::All));
        }
    }

    #[test]
    fn anything_but_strict_framing_is_refused() {
        for body in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"0x5\r\n",
            b" 5\r\n",
            b"5 \r\n",
            b"5\n",
            b"5\rhello",
            b"5;a\nhello",
            b"5;\0\r\n",
            b"5\r\nhelloX",
            b"5\r\nhello\n",
            b"5\r\nhello\rX",
            b"10000000000000000\r\n",
            b"0\r\n\n",
            b"0\r\n\rX",
            b"0\r\n folded: 1\r\n",
            b"0\r\nname : 1\r\n",
            b"0\r\nname: \0\r\n",
            b"0\r\nname: 1\n",
        ] {
            assert_eq!(read(body), Err(Violation::Chunk), "{:?}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn chunks_are_counted_against_the_limit_together() {
        let chunk = |size: usize| format!("{size:x}\r\n{}\r\n", "x".repeat(size));
        let fits = [chunk(32), chunk(32)].concat();
        let over = [chunk(32), chunk(33)].concat();
        assert_eq!(read(fits.as_bytes()), Ok(Reach::All));
        assert_eq!(read(over.as_bytes()), Err(Violation::BodyTooLarge));
    }

    #[test]
    fn long_extensions_and_long_trailers_are_refused() {
        let extension = format!("1;{}\r\n", "x".repeat(256));
        assert_eq!(read(extension.as_bytes()), Err(Violation::Chunk));
        let trailer = format!("0\r\nname: {}\r\n", "x".repeat(32 * 1024));
        assert_eq!(read(trailer.as_bytes()), Err(Violation::HeadTooLarge));
        let many = format!("0\r\n{}", "a:1\r\n".repeat(101));
        assert_eq!(read(many.as_bytes()), Err(Violation::TooManyFields));
    }
}
