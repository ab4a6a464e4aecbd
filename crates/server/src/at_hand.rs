//! Answers that are there when they are asked for, and are given without hyper.
//!
//! Most requests to a web server are for what it has in memory. Their answer is a few pieces of
//! bytes, made long before; what hyper would do for them (maps of fields, a body to be polled, a
//! new head for each answer) costs more than all the rest. So a [`Session`](super::session)
//! shows the head of each request to the service first. What the service answers then is
//! written as it is; all other requests go on to hyper.

use bytes::Bytes;
use hyper::service::Service;
use memchr::memchr;

use super::outgoing::Outgoing;
use super::sent_file::FileBody;
use crate::guard::Violation;

/// A service as the connection knows it that its requests come from: it has some answers at hand,
/// and is told of what was not asked of it.
pub trait AtHand {
    /// Whether there ever are any: if not, no request is looked at for them.
    const EVER: bool = true;

    /// Gives the answer to an HTTP/1.1 request without a body to `answer`, if it can be given on
    /// the spot; if not, that request is the next one that the service is called with, unless the
    /// connection ends before.
    fn at_hand<A>(&self, asked: &Asked<'_>, answer: impl FnOnce(Prepared<'_>) -> A) -> Hand<A>;

    /// A client was refused for `violation` before there was a request, with so many bytes of
    /// body; without any, the connection was closed instead.
    fn refused(&self, violation: Violation, body_length: usize) {
        let _ = (violation, body_length);
    }
}

/// What a service has at hand for a request.
pub enum Hand<A> {
    /// The answer, and what was made of it.
    Answer(A),
    /// Nothing; the next answer may be there.
    Nothing,
    /// Nothing, as for all requests of this kind.
    Never,
}

/// A service that has no answer at hand.
#[derive(Clone, Copy, Debug)]
pub struct Ordinary<S>(pub S);

impl<S> AtHand for Ordinary<S> {
    const EVER: bool = false;

    fn at_hand<A>(&self, _: &Asked<'_>, _: impl FnOnce(Prepared<'_>) -> A) -> Hand<A> {
        Hand::Never
    }
}

impl<S: Service<R>, R> Service<R> for Ordinary<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn call(&self, request: R) -> S::Future {
        self.0.call(request)
    }
}

/// What a client asks for.
#[derive(Debug)]
pub struct Asked<'h> {
    method: &'h str,
    target: &'h str,
    /// The field lines, and what follows them.
    lines: &'h [u8],
}

impl<'h> Asked<'h> {
    /// The method, as it was sent.
    pub fn method(&self) -> &'h str {
        self.method
    }

    /// The request target, in whichever form it has [RFC9112 §3.2].
    pub fn target(&self) -> &'h str {
        self.target
    }

    /// The names of the header fields, in the case in which they were sent, and their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
        Fields(self.lines)
    }
}

/// The fields of a head, of which these bytes are left; in the end those behind it.
struct Fields<'h>(&'h [u8]);

impl<'h> Iterator for Fields<'h> {
    type Item = (&'h [u8], &'h [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (line, rest) = split_line(self.0)?;
        let Some(colon) = memchr(b':', line) else {
            // The empty line; it ends the head.
            return None;
        };
        self.0 = rest;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    }
}

/// The first line of a head, and what follows it.
fn split_line(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b'\n', head)?;
    Some((head[..end].strip_suffix(b"\r")?, &head[end + 1..]))
}

/// The first word of a request line, and what follows it.
fn split_word(line: &str) -> Option<(&str, &str)> {
    let end = memchr(b' ', line.as_bytes())?;
    Some((&line[..end], &line[end + 1..]))
}

/// An answer as it is sent, but for the fields that say when and on which connection.
pub struct Prepared<'p> {
    /// The status line and the fields that say how long the body is and what it is; each line
    /// with its end.
    pub head: &'p [u8],
    /// Further field lines.
    pub fields: &'p [u8],
    /// The body.
    pub body: PreparedBody<'p>,
    /// Whether it says no, as a [`Refusal`](super::Refusal) does.
    pub is_refusal: bool,
    /// Is told in the end how many bytes of the body were written.
    pub account: Option<Account>,
}

/// What is told how many bytes of an answer's body were written.
pub type Account = Box<dyn FnOnce(u64) + Send>;

/// A body that is there.
pub enum PreparedBody<'p> {
    /// None, or none is asked for.
    Nothing,
    /// These bytes.
    Bytes(&'p Bytes),
    /// Those of a file.
    File(FileBody),
}

/// The head of a request, and what it says of the connection.
struct Seen<'h> {
    asked: Asked<'h>,
    length: usize,
    is_last: bool,
}

impl<'h> Seen<'h> {
    /// The first head of `bytes`, which the guard has let pass; `None` if more than a plain
    /// answer may be needed.
    fn of(bytes: &'h [u8]) -> Option<Self> {
        let (request_line, lines) = split_line(bytes.strip_prefix(b"\r\n").unwrap_or(bytes))?;
        let (method, rest) = split_word(std::str::from_utf8(request_line).ok()?)?;
        let (target, version) = split_word(rest)?;
        let mut is_last = false;
        let mut fields = Fields(lines);
        for (name, value) in fields.by_ref() {
            let is = |known| name.eq_ignore_ascii_case(known);
            match name.len() {
                6 if is(b"expect") => return None,
                7 if is(b"upgrade") => return None,
                10 if is(b"connection") => match value {
                    value if value.eq_ignore_ascii_case(b"close") => is_last = true,
                    value if value.eq_ignore_ascii_case(b"keep-alive") => {}
                    _ => return None,
                },
                14 if is(b"content-length") => return None,
                17 if is(b"transfer-encoding") => return None,
                _ => {}
            }
        }
        let behind = fields.0.strip_prefix(b"\r\n")?;
        let (asked, length) = (Asked { method, target, lines }, bytes.len() - behind.len());
        (version == "HTTP/1.1").then_some(Self { asked, length, is_last })
    }
}

/// The first request of `bytes` as a service with an answer at hand would see it, and the length
/// of its head.
#[cfg(any(test, fuzzing))]
pub(crate) fn asked_at_hand(bytes: &[u8]) -> Option<(Asked<'_>, usize)> {
    Seen::of(bytes).map(|seen| (seen.asked, seen.length))
}

/// What becomes of the first request of some bytes.
pub(super) enum Turn {
    /// This answer, for so many bytes of request.
    Answer(Outgoing, usize),
    /// It is hyper's.
    Hyper(Further),
}

/// What the requests after one for hyper are likely to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Further {
    /// Hyper's too.
    Same,
    /// Such that their answers are at hand.
    AtHand,
    /// As they were before.
    Unknown,
}

/// Asks `service` for the answer to the first request of `bytes`.
pub(super) fn turn<S: AtHand>(bytes: &[u8], service: &S) -> Turn {
    if !S::EVER {
        return Turn::Hyper(Further::Same);
    }
    let Some(Seen { asked, length, is_last }) = Seen::of(bytes) else {
        return Turn::Hyper(Further::Unknown);
    };
    match service.at_hand(&asked, |prepared| Outgoing::new(prepared, is_last)) {
        Hand::Answer(outgoing) => Turn::Answer(outgoing, length),
        Hand::Nothing => Turn::Hyper(Further::AtHand),
        Hand::Never => Turn::Hyper(Further::Same),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of the head of a request, if it is not left to hyper: its length, and
    /// whether it is the last.
    fn seen(lines: &str) -> Option<(usize, bool)> {
        let head = format!("{lines}\r\nHost: a\r\n\r\n");
        let bytes = format!("{head}GET /next HTTP/1.1\r\nhost: b\r\n\r\n");
        let seen = Seen::of(bytes.as_bytes())?;
        assert_eq!((seen.asked.method(), seen.asked.target()), ("GET", "/a?b"));
        assert_eq!(seen.asked.fields().last(), Some((&b"Host"[..], &b"a"[..])));
        assert_eq!(seen.length, head.len());
        Some((seen.length, seen.is_last))
    }

    #[test]
    fn a_plain_request_is_seen_to_its_end() {
        let is_last = |lines: &str| seen(lines).map(|(_, is_last)| is_last);
        assert_eq!(is_last("GET /a?b HTTP/1.1\r\nAccept: */*"), Some(false));
        assert_eq!(is_last("\r\nGET /a?b HTTP/1.1\r\nConnection:  Keep-Alive "), Some(false));
        assert_eq!(is_last("GET /a?b HTTP/1.1\r\nconnection: Close"), Some(true));
    }

    #[test]
    fn whatever_may_need_more_than_an_answer_is_left_to_hyper() {
        for field in [
            "content-length: 0",
            "Content-Length: 10",
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Upgrade: websocket",
            "Connection: upgrade",
            "Connection: keep-alive, close",
        ] {
            assert_eq!(seen(&format!("GET /a?b HTTP/1.1\r\n{field}")), None, "{field}");
        }
        assert_eq!(seen("GET /a?b HTTP/1.0"), None);
    }
}
