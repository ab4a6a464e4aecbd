//! Chunk framing [RFC9112 §7.1], byte by byte and without the liberties that
//! lenient readers take: no white space around a size, no lone CR or LF.

use crate::grammar;
use crate::limits::{CHUNK_LINE_MAX, FIELDS_MAX, Limits};
use crate::violation::Violation;

/// Where in a chunked body its reader is.
#[derive(Debug, Default)]
pub(crate) struct Chunked {
    place: Place,
    /// Bytes of data announced so far.
    data: u64,
    /// Bytes in the chunk line, or in all trailer lines.
    line: usize,
    trailers: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// Before a digit of the size; the first one must come.
    #[default]
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

/// What the next bytes of a chunked body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Sizes, extensions and line ends.
    Framing,
    /// Data, within one chunk.
    Data,
    /// Trailer fields with their line ends.
    Trailers,
    /// The rest of the trailers, and the empty line that ends the body.
    End,
}

impl Chunked {
    /// At the beginning of a body.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Reads on at `bytes`, which must not be empty: how many of them are of
    /// which part.
    ///
    /// # Errors
    /// The [`Violation`] in the framing.
    pub(crate) fn next(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<(usize, Part), Violation> {
        if let Place::Data(left) = self.place {
            let here = left.min(bytes.len() as u64);
            self.place = if here == left { Place::DataCr } else { Place::Data(left - here) };
            return Ok((here as usize, Part::Data));
        }
        let in_trailers = self.is_in_trailers();
        for (index, byte) in bytes.iter().enumerate() {
            let Some(next) = self.step(*byte, limits)? else {
                return Ok((index + 1, Part::End));
            };
            self.place = next;
            if matches!(next, Place::Data(_)) || self.is_in_trailers() != in_trailers {
                return Ok((index + 1, Part::Framing));
            }
        }
        Ok((bytes.len(), if in_trailers { Part::Trailers } else { Part::Framing }))
    }

    /// How many bytes of data come next: those of the chunk that has begun.
    pub(crate) fn data_next(&self) -> u64 {
        if let Place::Data(left) = self.place { left } else { 0 }
    }

    fn is_in_trailers(&self) -> bool {
        use Place::{EndLf, TrailerLf, TrailerName, TrailerStart, TrailerValue};
        matches!(self.place, TrailerStart | TrailerName | TrailerValue | TrailerLf | EndLf)
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

    /// The data and the trailers of a body, and its length if it has come to its end.
    fn read(bytes: &[u8]) -> Result<(String, String, Option<usize>), Violation> {
        let limits = Limits { body_max: Some(64), ..Limits::REQUEST };
        let mut chunked = Chunked::new();
        let (mut data, mut trailers, mut at) = (String::new(), String::new(), 0);
        while at < bytes.len() {
            let (count, part) = chunked.next(&bytes[at..], &limits)?;
            let text = std::str::from_utf8(&bytes[at..at + count]).unwrap();
            at += count;
            match part {
                Part::Framing => {}
                Part::Data => data += text,
                Part::Trailers => trailers += text,
                Part::End => return Ok((data, trailers + text, Some(at))),
            }
        }
        Ok((data, trailers, None))
    }

    fn rejected(bytes: &[u8]) -> Option<Violation> {
        read(bytes).err()
    }

    #[test]
    fn a_body_ends_after_its_last_empty_line() {
        for (body, data, trailers) in [
            ("0\r\n\r\n", "", "\r\n"),
            ("5\r\nhello\r\n0\r\n\r\n", "hello", "\r\n"),
            ("05;name=\"value\"\r\nhello\r\n000\r\n\r\n", "hello", "\r\n"),
            (
                "1\r\na\r\nA\r\n0123456789\r\n0\r\nX: 1\r\nY:\r\n\r\n",
                "a0123456789",
                "X: 1\r\nY:\r\n\r\n",
            ),
        ] {
            let followed = [body.as_bytes(), b"GET"].concat();
            let expected = (data.to_owned(), trailers.to_owned(), Some(body.len()));
            assert_eq!(read(&followed), Ok(expected), "{body:?}");
            assert_eq!(read(&body.as_bytes()[..body.len() - 1]).unwrap().2, None);
        }
    }

    #[test]
    fn anything_but_strict_framing_is_rejected() {
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
            assert_eq!(
                rejected(body),
                Some(Violation::Chunk),
                "{:?}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn chunks_are_counted_against_the_limit_together() {
        let chunk = |size: usize| format!("{size:x}\r\n{}\r\n", "x".repeat(size));
        let fits = [chunk(32), chunk(32)].concat();
        let over = [chunk(32), chunk(33)].concat();
        assert_eq!(rejected(fits.as_bytes()), None);
        assert_eq!(rejected(over.as_bytes()), Some(Violation::BodyTooLarge));
    }

    #[test]
    fn long_extensions_and_long_trailers_are_rejected() {
        let extension = format!("1;{}\r\n", "x".repeat(256));
        assert_eq!(rejected(extension.as_bytes()), Some(Violation::Chunk));
        let trailer = format!("0\r\nname: {}\r\n", "x".repeat(32 * 1024));
        assert_eq!(rejected(trailer.as_bytes()), Some(Violation::HeadTooLarge));
        let many = format!("0\r\n{}", "a:1\r\n".repeat(101));
        assert_eq!(rejected(many.as_bytes()), Some(Violation::TooManyFields));
    }
}
