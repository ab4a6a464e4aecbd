use bytes::{Bytes, BytesMut};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use http_body::Frame;
use tamarisk_h1::{Chunked, Limits, Part};

use crate::answer::head::{Framing, Malformed};

/// The body of an upstream's answer, found in the bytes that come.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    Length(u64),
    Chunked { reader: Chunked, trailers: Vec<u8> },
    UntilClose,
    Done,
}

impl AnswerBody {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Empty => Self::Done,
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::Chunked { reader: Chunked::default(), trailers: Vec::new() },
            Framing::UntilClose => Self::UntilClose,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// How many bytes of it are still to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Done => Some(0),
            Self::Chunked { .. } | Self::UntilClose => None,
        }
    }

    /// Takes the next part of the body off `input`; `None` if it needs more
    /// bytes, or is done.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame<Bytes>>, Malformed> {
        if input.is_empty() {
            return Ok(None);
        }
        match self {
            Self::Done => Ok(None),
            Self::UntilClose => Ok(Some(Frame::data(input.split().freeze()))),
            Self::Length(left) => {
                let here = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= here as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok(Some(Frame::data(input.split_to(here).freeze())))
            }
            Self::Chunked { reader, trailers } => {
                while !input.is_empty() {
                    let (count, part) =
                        reader.next(input, &Limits::REQUEST).map_err(|_| Malformed)?;
                    let bytes = input.split_to(count);
                    match part {
                        Part::Framing => {}
                        Part::Data => return Ok(Some(Frame::data(bytes.freeze()))),
                        Part::Trailers => trailers.extend_from_slice(&bytes),
                        Part::End => {
                            trailers.extend_from_slice(&bytes);
                            let fields = fields(trailers)?;
                            *self = Self::Done;
                            return Ok(fields.map(Frame::trailers));
                        }
                    }
                }
                Ok(None)
            }
        }
    }

    /// The connection has ended: whether the body has too.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        match self {
            Self::UntilClose | Self::Done => {
                *self = Self::Done;
                Ok(())
            }
            Self::Length(_) | Self::Chunked { .. } => Err(Malformed),
        }
    }
}

/// Trailer lines and the empty line behind them.
fn fields(lines: &[u8]) -> Result<Option<HeaderMap>, Malformed> {
    if lines == b"\r\n" {
        return Ok(None);
    }
    let mut parsed = [httparse::EMPTY_HEADER; 100];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(lines, &mut parsed)
    else {
        return Err(Malformed);
    };
    let mut fields = HeaderMap::new();
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed)?;
        fields.append(name, HeaderValue::from_bytes(field.value).map_err(|_| Malformed)?);
    }
    Ok(Some(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data and the trailers of a body that comes in `parts`, and what is left over.
    fn read(framing: Framing, parts: &[&str]) -> Result<(String, usize, String), Malformed> {
        let mut body = AnswerBody::new(framing);
        let mut input = BytesMut::new();
        let (mut data, mut trailers) = (String::new(), 0);
        for part in parts {
            input.extend_from_slice(part.as_bytes());
            while let Some(frame) = body.next(&mut input)? {
                match frame.into_data() {
                    Ok(bytes) => data += std::str::from_utf8(&bytes).unwrap(),
                    Err(frame) => trailers += frame.into_trailers().unwrap().len(),
                }
            }
        }
        body.end()?;
        Ok((data, trailers, String::from_utf8(input.to_vec()).unwrap()))
    }

    #[test]
    fn every_framing_finds_its_end() {
        let whole =
            |data: &str, trailers, rest: &str| Ok((data.to_owned(), trailers, rest.to_owned()));
        assert_eq!(read(Framing::Empty, &["next"]), whole("", 0, "next"));
        assert_eq!(read(Framing::Length(5), &["he", "llonext"]), whole("hello", 0, "next"));
        assert_eq!(read(Framing::UntilClose, &["he", "llo"]), whole("hello", 0, ""));
        let chunks = ["5\r\nhe", "llo\r", "\n1\r\n!\r\n0\r\n", "A: b\r\n", "c: d\r\n\r\nnext"];
        assert_eq!(read(Framing::Chunked, &chunks), whole("hello!", 2, "next"));
    }

    #[test]
    fn a_body_that_breaks_off_is_noticed() {
        assert_eq!(read(Framing::Length(5), &["hell"]), Err(Malformed));
        assert_eq!(read(Framing::Chunked, &["5\r\nhello\r\n"]), Err(Malformed));
        assert_eq!(read(Framing::Chunked, &["5\nhello\r\n0\r\n\r\n"]), Err(Malformed));
    }
}
