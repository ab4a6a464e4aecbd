//! Answers that are there when they are asked for, and are given without hyper.
//!
//! Most requests to a web server are for what it has in memory. Their answer is a few pieces of
//! bytes, made long before; what hyper would do for them (maps of fields, a body to be polled, a
//! new head for each answer) costs more than all the rest. So a [`Session`](super::session)
//! shows the head of each request to the service first. What the service answers then is
//! written as it is; all other requests go on to hyper.

use std::cell::RefCell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use httparse::{Header, Status};
use hyper::service::Service;
use tokio_util::io::poll_write_buf;

use crate::send_file::SendFile;

/// A body that is not longer goes into one piece with its head: the kernel takes one piece with
/// less ado than several, and copying so little costs less than that.
const COPIED_MAX: usize = 4 * 1024;

/// A request with more fields is left to hyper.
const FIELDS_MAX: usize = 48;

/// A service that has some answers at hand.
pub trait AtHand {
    /// Whether there ever are any: if not, no request is looked at for them.
    const EVER: bool = true;

    /// The answer to an HTTP/1.1 request without a body, if it can be given on the spot; if not,
    /// the service is called with the request in the ordinary way.
    fn at_hand(&self, asked: &Asked<'_>) -> Hand;
}

/// What a service has at hand for a request.
pub enum Hand {
    /// The answer.
    Answer(Prepared),
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

    fn at_hand(&self, _: &Asked<'_>) -> Hand {
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
    fields: &'h [Header<'h>],
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

    /// The header fields, names in the case in which they were sent.
    pub fn fields(&self) -> impl Iterator<Item = (&'h str, &'h [u8])> {
        self.fields.iter().map(|field| (field.name, field.value))
    }
}

/// An answer as it is sent, but for the fields that say when and on which connection.
pub struct Prepared {
    /// The status line and the fields that say how long the body is and what it is; each line
    /// with its end.
    pub head: Bytes,
    /// Further field lines.
    pub fields: Bytes,
    /// The body.
    pub body: PreparedBody,
    /// Is told in the end how many bytes of the body were written.
    pub account: Option<Box<dyn FnOnce(u64) + Send>>,
}

/// A body that is there.
#[derive(Clone)]
pub enum PreparedBody {
    /// These bytes; without any, there is none, or none is asked for.
    Bytes(Bytes),
    /// So many bytes of a file that is in memory: whoever sends it does not wait for a disk.
    File(Arc<dyn AsFd + Send + Sync>, u64),
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
    fn of(bytes: &'h [u8], room: &'h mut [MaybeUninit<Header<'h>>]) -> Option<Self> {
        let mut request = httparse::Request::new(&mut []);
        let Ok(Status::Complete(length)) = request.parse_with_uninit_headers(bytes, room) else {
            return None;
        };
        let (method, target, fields) = (request.method?, request.path?, &*request.headers);
        let mut is_last = false;
        for field in fields {
            let is = |name| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                6 if is("expect") => return None,
                7 if is("upgrade") => return None,
                10 if is("connection") => match field.value {
                    value if value.eq_ignore_ascii_case(b"close") => is_last = true,
                    value if value.eq_ignore_ascii_case(b"keep-alive") => {}
                    _ => return None,
                },
                14 if is("content-length") => return None,
                17 if is("transfer-encoding") => return None,
                _ => {}
            }
        }
        let asked = Asked { method, target, fields };
        (request.version == Some(1)).then_some(Self { asked, length, is_last })
    }
}

/// What becomes of the first request of some bytes.
pub(super) enum Turn {
    /// This answer, for so many bytes of request.
    Answer(Outgoing, usize),
    /// It is hyper's; `Some(true)` if those that follow are likely to be too.
    Hyper(Option<bool>),
}

/// Asks `service` for the answer to the first request of `bytes`.
pub(super) fn turn<S: AtHand>(bytes: &[u8], service: &S) -> Turn {
    if !S::EVER {
        return Turn::Hyper(Some(true));
    }
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let Some(seen) = Seen::of(bytes, &mut room) else { return Turn::Hyper(None) };
    match service.at_hand(&seen.asked) {
        Hand::Answer(prepared) => Turn::Answer(Outgoing::new(prepared, seen.is_last), seen.length),
        Hand::Nothing => Turn::Hyper(Some(false)),
        Hand::Never => Turn::Hyper(Some(true)),
    }
}

/// An answer on its way to the client.
pub(super) struct Outgoing {
    /// The head, and the body or nothing of it.
    bytes: Chain<Bytes, Bytes>,
    /// The body, if it is a file, and which part of it is to be sent.
    file: Option<(Arc<dyn AsFd + Send + Sync>, Range<u64>)>,
    body_length: u64,
    account: Option<Box<dyn FnOnce(u64) + Send>>,
    /// The connection closes behind it.
    pub(super) is_last: bool,
}

impl Outgoing {
    fn new(prepared: Prepared, is_last: bool) -> Self {
        let Prepared { head, fields, body, account } = prepared;
        let (mut body, file, body_length) = match body {
            PreparedBody::Bytes(bytes) => (bytes.clone(), None, bytes.len() as u64),
            PreparedBody::File(file, length) => (Bytes::new(), Some((file, 0..length)), length),
        };
        let copied = if body.len() <= COPIED_MAX { mem::take(&mut body) } else { Bytes::new() };
        let head = [head, fields, end_of_head(is_last), copied].concat();
        Self { bytes: Bytes::from(head).chain(body), file, body_length, account, is_last }
    }

    /// Writes what `stream` takes; ready when that is all.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut impl SendFile,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.bytes.has_remaining() {
            if ready!(self.poll_write_bytes(stream, cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        if let Some((file, part)) = &mut self.file {
            while !part.is_empty() {
                let left = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
                match ready!(stream.poll_send_file(cx, file.as_fd(), part.start, left))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    sent => part.start += sent as u64,
                }
            }
        }
        Pin::new(stream).poll_flush(cx)
    }

    fn poll_write_bytes(
        &mut self,
        stream: &mut impl SendFile,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut stream = Pin::new(stream);
        if self.bytes.chunk().len() < self.bytes.remaining() {
            return poll_write_buf(stream, cx, &mut self.bytes);
        }
        let written = ready!(stream.as_mut().poll_write(cx, self.bytes.chunk()))?;
        self.bytes.advance(written);
        Poll::Ready(Ok(written))
    }

    /// Bytes of the body that have not been written.
    fn left(&self) -> u64 {
        match &self.file {
            Some((_, part)) => part.end - part.start,
            None => self.body_length.min(self.bytes.remaining() as u64),
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(account) = self.account.take() {
            account(self.body_length - self.left());
        }
    }
}

/// The fields that are made for each answer, and the empty line.
fn end_of_head(is_last: bool) -> Bytes {
    /// What was made last, and until when it holds.
    struct Made {
        until: SystemTime,
        ends: [Bytes; 2],
    }

    impl Made {
        fn at(now: SystemTime) -> Self {
            let date = httpdate::fmt_http_date(now);
            let end = |connection| Bytes::from(format!("{connection}date: {date}\r\n\r\n"));
            let past = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let left = Duration::from_nanos(u64::from(1_000_000_000 - past.subsec_nanos()));
            Self { until: now + left, ends: [end(""), end("connection: close\r\n")] }
        }
    }

    thread_local! {
        static MADE: RefCell<Made> = RefCell::new(Made::at(SystemTime::UNIX_EPOCH));
    }
    MADE.with_borrow_mut(|made| {
        let now = SystemTime::now();
        // The clock may have been put back.
        if now >= made.until || now + Duration::from_secs(1) < made.until {
            *made = Made::at(now);
        }
        made.ends[usize::from(is_last)].clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of the head of a request, if it is not left to hyper: its length, and
    /// whether it is the last.
    fn seen(lines: &str) -> Option<(usize, bool)> {
        let head = format!("{lines}\r\nHost: a\r\n\r\n");
        let bytes = format!("{head}GET /next HTTP/1.1\r\nhost: b\r\n\r\n");
        let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let seen = Seen::of(bytes.as_bytes(), &mut room)?;
        assert_eq!((seen.asked.method(), seen.asked.target()), ("GET", "/a?b"));
        assert!(seen.asked.fields().any(|(name, value)| (name, value) == ("Host", b"a")));
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
        let many = "a: b\r\n".repeat(FIELDS_MAX);
        assert_eq!(seen(&format!("GET /a?b HTTP/1.1\r\n{}", many.trim_end())), None);
    }

    #[test]
    fn a_head_ends_with_the_time() {
        for is_last in [false, true] {
            let end = String::from_utf8(end_of_head(is_last).to_vec()).unwrap();
            let date = end.strip_prefix("connection: close\r\n").unwrap_or(&end);
            assert_eq!(date != end, is_last);
            let date = date.strip_prefix("date: ").and_then(|end| end.strip_suffix("\r\n\r\n"));
            let age =
                SystemTime::now().duration_since(httpdate::parse_http_date(date.unwrap()).unwrap());
            assert!(age.unwrap() < Duration::from_secs(3));
        }
        let first = end_of_head(false);
        std::thread::sleep(Duration::from_millis(1100));
        assert_ne!(end_of_head(false), first);
    }
}
