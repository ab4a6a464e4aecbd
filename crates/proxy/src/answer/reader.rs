//! The answers of one connection, read from bytes in whatever pieces they come.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use http_body::Frame;
use tamarisk_h1::{Asked, Event, Limits, ResponseReader, trailer_fields};

use crate::answer::head::{AnswerHead, Malformed};

/// Room for a usual head with a small body, and the most that is read at once
/// of a long one.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 64 * 1024;

/// Everything about reading a connection but its socket: what has come goes into
/// [`AnswerReader::room`], and heads and frames are taken out.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    input: BytesMut,
    reader: ResponseReader,
    /// Another answer may follow.
    keep: bool,
}

impl AnswerReader {
    pub(crate) fn new() -> Self {
        let reader = ResponseReader::new(Limits::RESPONSE);
        Self { input: BytesMut::new(), reader, keep: true }
    }

    /// Begins the next answer. `to_head` says that the request was a `HEAD`.
    pub(crate) fn begin(&mut self, to_head: bool) {
        self.reader.begin(if to_head { Asked::Head } else { Asked::Ordinary });
    }

    /// Whether the answer is one to a `HEAD`.
    pub(crate) fn is_to_head(&self) -> bool {
        self.reader.asked() == Asked::Head
    }

    /// Whether the last answer is complete, nothing has come behind it, and
    /// another one may.
    pub(crate) fn is_idle(&self) -> bool {
        self.keep && self.is_done() && self.input.is_empty()
    }

    /// No other answer will follow.
    pub(crate) fn close(&mut self) {
        self.keep = false;
    }

    /// The next head, an interim one or the answer's own, once it is complete.
    /// Its fields go into `spare`, an empty map.
    pub(crate) fn head(&mut self, spare: &mut HeaderMap) -> Result<Option<AnswerHead>, Malformed> {
        let Some(event) = self.reader.next(&self.input)? else { return Ok(None) };
        let bytes = self.input.split_to(event.len()).freeze();
        let head = AnswerHead::read(&bytes, &self.reader.head(), spare)?;
        if !head.is_interim() {
            self.keep &= head.keep;
            self.finish()?;
        }
        Ok(Some(head))
    }

    /// The next part of the body; `None` if it needs more bytes, or is done.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame<Bytes>>, Malformed> {
        while let Some(event) = self.reader.next(&self.input)? {
            let frame = match event {
                Event::Data(length) => Frame::data(self.input.split_to(length).freeze()),
                Event::Trailers(length) => Frame::trailers(fields(&self.input.split_to(length))?),
                Event::Framing(length) => {
                    self.input.advance(length);
                    continue;
                }
                // Nobody asks before the head, and behind the end comes nothing.
                Event::Head(_) | Event::End => break,
            };
            self.finish()?;
            return Ok(Some(frame));
        }
        Ok(None)
    }

    /// The answer is done as soon as its last byte has been taken.
    fn finish(&mut self) -> Result<(), Malformed> {
        if self.reader.is_within_body() && self.reader.left() == Some(0) {
            self.reader.next(&self.input)?;
        }
        Ok(())
    }

    /// Whether all of the body has been taken.
    pub(crate) fn is_done(&self) -> bool {
        self.reader.is_idle()
    }

    /// How many bytes of the body are still to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.reader.left()
    }

    /// Where to put what comes next: there is room for some of it.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        let more = match self.reader.is_within_body() {
            true => self.left().map_or(READ_MAX, |left| left.min(READ_MAX as u64) as usize),
            false => READ_MIN,
        };
        if self.input.capacity() - self.input.len() < READ_MIN {
            self.input.reserve(more.max(READ_MIN));
        }
        &mut self.input
    }

    /// The connection has ended: whether the body has too.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        self.close();
        Ok(self.reader.end()?)
    }

    /// What has come and was not taken.
    pub(crate) fn into_rest(self) -> Bytes {
        self.input.freeze()
    }
}

/// The trailers of a body.
fn fields(trailers: &[u8]) -> Result<HeaderMap, Malformed> {
    let mut fields = HeaderMap::new();
    for (name, value) in trailer_fields(trailers) {
        let name = HeaderName::from_bytes(name).map_err(|_| Malformed)?;
        fields.append(name, HeaderValue::from_bytes(value).map_err(|_| Malformed)?);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

    /// The data and the trailers of a body behind a head with these fields that comes in `parts`,
    /// and what is left over.
    fn read(fields: &str, parts: &[&str]) -> Result<(String, usize, String), Malformed> {
        let mut reader = AnswerReader::new();
        reader.begin(false);
        reader.room().extend_from_slice(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes());
        assert!(reader.head(&mut HeaderMap::new()).unwrap().is_some());
        let (mut data, mut trailers) = (String::new(), 0);
        for part in parts {
            reader.room().extend_from_slice(part.as_bytes());
            while let Some(frame) = reader.frame()? {
                match frame.into_data() {
                    Ok(bytes) => data += std::str::from_utf8(&bytes).unwrap(),
                    Err(frame) => trailers += frame.into_trailers().unwrap().len(),
                }
            }
        }
        reader.end()?;
        Ok((data, trailers, String::from_utf8(reader.into_rest().to_vec()).unwrap()))
    }

    #[test]
    fn every_framing_finds_its_end() {
        let whole =
            |data: &str, trailers, rest: &str| Ok((data.to_owned(), trailers, rest.to_owned()));
        assert_eq!(read("Content-Length: 0\r\n", &["next"]), whole("", 0, "next"));
        assert_eq!(read(LENGTH, &["he", "llonext"]), whole("hello", 0, "next"));
        assert_eq!(read("", &["he", "llo"]), whole("hello", 0, ""));
        let chunks = ["5\r\nhe", "llo\r", "\n1\r\n!\r\n0\r\n", "A: b\r\n", "c: d\r\n\r\nnext"];
        assert_eq!(read(CHUNKED, &chunks), whole("hello!", 2, "next"));
    }

    #[test]
    fn a_body_that_breaks_off_is_noticed() {
        assert_eq!(read(LENGTH, &["hell"]), Err(Malformed));
        assert_eq!(read(CHUNKED, &["5\r\nhello\r\n"]), Err(Malformed));
        assert_eq!(read(CHUNKED, &["5\nhello\r\n0\r\n\r\n"]), Err(Malformed));
    }
}
