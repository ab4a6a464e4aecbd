//! The answers of one connection, read from bytes in whatever pieces they come.

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderName, UPGRADE, VIA};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Frame;
use hyper::ext::ReasonPhrase;
use tamarisk_h1::{
    Asked, Event, Limits, ResponseHead, ResponseReader, Version, Violation, trailer_fields,
};

use crate::hop_by_hop::{Named, is_of_connection};

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

/// A head that is complete.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    /// Its reason, if it is not the usual one for the status.
    pub(crate) reason: Option<ReasonPhrase>,
    /// The fields that go on to the client, `Via` with us added.
    pub(crate) headers: HeaderMap,
    #[cfg(any(test, fuzzing))]
    pub(crate) body: tamarisk_h1::Framing,
    /// Whether the connection can take another request afterwards.
    pub(crate) keep: bool,
    /// The protocols that it changes to.
    pub(crate) upgrade: Option<HeaderValue>,
}

impl AnswerHead {
    /// What the codec has `said` of a `head`. The fields go into `spare`, an empty map whose memory
    /// is there already.
    fn read(
        head: &Bytes,
        said: &ResponseHead<'_>,
        spare: &mut HeaderMap,
    ) -> Result<Self, Malformed> {
        let mut named = Named::default();
        for field in said.fields {
            if field.name.of(head).eq_ignore_ascii_case(b"connection") {
                named.read(field.value.of(head));
            }
        }
        let mut headers = std::mem::take(spare);
        let mut upgrade = None;
        for field in said.fields {
            let name = HeaderName::from_bytes(field.name.of(head)).map_err(|_| Malformed)?;
            let value = HeaderValue::from_maybe_shared(head.slice(field.value.range()));
            let value = value.map_err(|_| Malformed)?;
            match name {
                // A second line that says the same is not passed on.
                CONTENT_LENGTH => drop(headers.insert(name, value)),
                UPGRADE => upgrade = Some(value),
                name if is_of_connection(name.as_str()) || named.contains(name.as_str()) => {}
                name => drop(headers.append(name, value)),
            }
        }
        let us = match said.version {
            Version::Http11 => "1.1 tamarisk",
            Version::Http10 => "1.0 tamarisk",
        };
        headers.append(VIA, HeaderValue::from_static(us));
        let (status, reason) = (said.status, own_reason(said.status, said.reason.of(head)));
        Ok(Self {
            status,
            reason,
            headers,
            #[cfg(any(test, fuzzing))]
            body: said.framing,
            keep: said.keep,
            upgrade,
        })
    }

    /// Whether another head follows, because this one only says how it goes.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// What came is no answer, or one that two readers could read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Violation> for Malformed {
    fn from(_: Violation) -> Self {
        Self
    }
}

fn own_reason(status: StatusCode, reason: &[u8]) -> Option<ReasonPhrase> {
    let usual = status.canonical_reason().map(str::as_bytes);
    let is_own = !reason.is_empty() && usual != Some(reason);
    is_own.then(|| ReasonPhrase::try_from(reason).ok()).flatten()
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
    use tamarisk_h1::Framing;

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

    fn parse(text: &str) -> Result<AnswerHead, Malformed> {
        let mut reader = AnswerReader::new();
        reader.begin(false);
        reader.room().extend_from_slice(text.as_bytes());
        let head = reader.head(&mut HeaderMap::new())?;
        Ok(head.unwrap_or_else(|| panic!("incomplete: {text:?}")))
    }

    fn framing(fields: &str) -> Result<(Framing, bool), Malformed> {
        parse(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).map(|head| (head.body, head.keep))
    }

    #[test]
    fn the_framing_is_the_one_that_every_reader_would_see() {
        assert_eq!(framing("Content-Length: 5\r\n"), Ok((Framing::Length(5), true)));
        assert_eq!(
            framing("Content-Length: 5\r\ncontent-length: 5\r\n"),
            Ok((Framing::Length(5), true))
        );
        assert_eq!(framing("Content-Length: 0\r\n"), Ok((Framing::Empty, true)));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok((Framing::Chunked, true)));
        assert_eq!(
            framing("Transfer-Encoding: chunked\r\nConnection: close\r\n"),
            Ok((Framing::Chunked, false))
        );
        assert_eq!(framing(""), Ok((Framing::UntilClose, false)));
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Field : value\r\n",
            "Field: a\r\n folded\r\n",
            "Field: a\0b\r\n",
        ] {
            assert_eq!(framing(fields), Err(Malformed), "{fields:?}");
        }
    }

    #[test]
    fn old_servers_keep_a_connection_only_if_they_say_so() {
        let keep = |connection: &str| {
            parse(&format!("HTTP/1.0 200 OK\nContent-Length: 1\n{connection}\n")).unwrap().keep
        };
        assert!(!keep(""));
        assert!(keep("Connection: Keep-Alive\n"));
        assert_eq!(
            parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap_err(),
            Malformed
        );
    }

    #[test]
    fn some_answers_never_have_a_body() {
        for status in ["204 No Content", "304 Not Modified", "101 Switching Protocols"] {
            let head = parse(&format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n")).unwrap();
            assert_eq!(head.body, Framing::Empty);
            assert_eq!(head.headers["content-length"], "5");
        }
        let mut reader = AnswerReader::new();
        reader.begin(true);
        reader.room().extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        let head = reader.head(&mut HeaderMap::new());
        assert_eq!(head.unwrap().unwrap().body, Framing::Empty);
    }

    #[test]
    fn a_head_is_found_however_it_is_cut() {
        let text = "HTTP/1.1 200 OK\r\nServer: a\r\nX-Hop: b\r\nConnection: x-hop\r\n\r\nbody";
        for cut in 0..text.len() {
            let mut reader = AnswerReader::new();
            reader.begin(false);
            let mut found = None;
            for part in [&text[..cut], &text[cut..]] {
                reader.room().extend_from_slice(part.as_bytes());
                if found.is_none() {
                    found = reader.head(&mut HeaderMap::new()).unwrap();
                }
            }
            let head = found.unwrap();
            assert_eq!(head.headers.len(), 2, "{:?}", head.headers);
            assert_eq!(
                (&head.headers["server"], &head.headers["via"]),
                (&"a".parse().unwrap(), &"1.1 tamarisk".parse().unwrap())
            );
            assert_eq!(&reader.into_rest()[..], b"body");
        }
    }

    #[test]
    fn a_reason_of_its_own_is_kept() {
        let reason = |line: &str| parse(&format!("HTTP/1.1 {line}\r\n\r\n")).unwrap().reason;
        assert_eq!(reason("200 OK"), None);
        assert_eq!(reason("200 "), None);
        assert_eq!(reason("299 Fine").unwrap().as_bytes(), b"Fine");
    }

    #[test]
    fn what_will_never_be_a_head_is_given_up_whether_or_not_its_end_has_come() {
        let long = format!("HTTP/1.1 200 {}", "x".repeat(64 * 1024));
        for text in ["SSH-2.0", "\r\nHTTP/1.1 200 OK", &long] {
            for end in ["", "\r\n\r\n"] {
                let parsed = parse(&format!("{text}{end}"));
                assert_eq!(parsed.unwrap_err(), Malformed, "{:?}", text.get(..16));
            }
        }
    }
}
