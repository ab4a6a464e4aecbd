//! Reads an answer as it comes off the wire, and keeps nothing of it but what is counted.
//!
//! Sans-I/O: told what came, in whatever pieces. The head is read by `httparse`; of the
//! body, only where it ends [RFC9112 §6.3].

use http::Method;
use httparse::{Header, Status};

use crate::connection_option::names;
use crate::outcome::{ErrorKind, Outcome};

/// The longest head, and the longest chunk line or trailers, in bytes: ample for any, and
/// small enough for 18,000 connections.
const HELD_MAX: usize = 64 * 1024;

/// Fields in a head or in trailers, at most.
const FIELDS_MAX: usize = 100;

/// A complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Bytes of its body.
    pub(crate) bytes: u64,
    /// Whether its connection can carry another request.
    pub(crate) keep: bool,
}

/// An answer that is being read.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    /// What it answers.
    method: &'a Method,
    place: Place,
    /// The beginning of a head or of chunk framing whose end is still to come.
    held: Vec<u8>,
    /// What is known so far.
    answer: Answer,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    /// So many bytes of the body, not none.
    Length(u64),
    /// All that comes before the connection ends.
    UntilClose,
    ChunkSize,
    /// So many bytes of a chunk, not none.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
}

impl<'a> Reading<'a> {
    /// The answer to a request of this method.
    pub(crate) fn new(method: &'a Method) -> Self {
        let nothing = Answer { outcome: Outcome::Completed, bytes: 0, keep: true };
        Self { method, place: Place::Head, held: Vec::new(), answer: nothing }
    }

    /// Takes in what came next; the answer, once it is complete.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedAnswer`].
    pub(crate) fn read(&mut self, piece: &[u8]) -> Result<Option<Answer>, ErrorKind> {
        if self.held.is_empty() {
            let used = self.advance(piece)?;
            self.held.extend_from_slice(&piece[used..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(piece);
            let used = self.advance(&held)?;
            held.drain(..used);
            self.held = held;
        }
        if self.place == Place::Done {
            // What comes after an answer that was asked for was not.
            self.answer.keep &= self.held.is_empty();
            return Ok(Some(self.answer));
        }
        if self.held.len() > HELD_MAX {
            return Err(ErrorKind::MalformedAnswer);
        }
        Ok(None)
    }

    /// How many bytes come next of which nothing matters but that they come. [`read`](Self::read)
    /// does not look at so many: a piece of the same length will do in their place.
    pub(crate) fn body_left(&self) -> u64 {
        match self.place {
            Place::Length(left) | Place::Chunk(left) => left,
            Place::UntilClose => u64::MAX,
            Place::Head | Place::ChunkSize | Place::ChunkEnd | Place::Trailers | Place::Done => 0,
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionClosed`] if the answer has not.
    pub(crate) fn end(&self) -> Result<Answer, ErrorKind> {
        match self.place {
            Place::UntilClose | Place::Done => Ok(self.answer),
            _ => Err(ErrorKind::ConnectionClosed),
        }
    }

    /// Reads `bytes` as far as it can: how many of them.
    fn advance(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        let mut used = 0;
        while used < bytes.len() && self.place != Place::Done {
            match self.step(&bytes[used..])? {
                Status::Complete(count) => used += count,
                Status::Partial => break,
            }
        }
        Ok(used)
    }

    /// Reads one thing from the beginning of `bytes`, which must not be empty.
    fn step(&mut self, bytes: &[u8]) -> Result<Status<usize>, ErrorKind> {
        Ok(Status::Complete(match self.place {
            Place::Head => return self.head(bytes),
            Place::Length(left) => self.body(bytes, left, Place::Length, Place::Done),
            Place::Chunk(left) => self.body(bytes, left, Place::Chunk, Place::ChunkEnd),
            Place::UntilClose => {
                self.body(bytes, u64::MAX, |_| Place::UntilClose, Place::UntilClose)
            }
            Place::ChunkSize => {
                let read = httparse::parse_chunk_size(bytes);
                let read = read.map_err(|_| ErrorKind::MalformedAnswer)?;
                let Status::Complete((used, size)) = read else { return Ok(Status::Partial) };
                self.place = if size == 0 { Place::Trailers } else { Place::Chunk(size) };
                used
            }
            Place::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.place = Place::ChunkSize;
                    2
                }
                [b'\r'] => return Ok(Status::Partial),
                _ => return Err(ErrorKind::MalformedAnswer),
            },
            Place::Trailers => {
                let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
                let read = httparse::parse_headers(bytes, &mut fields);
                let read = read.map_err(|_| ErrorKind::MalformedAnswer)?;
                let Status::Complete((used, _)) = read else { return Ok(Status::Partial) };
                self.place = Place::Done;
                used
            }
            Place::Done => 0,
        }))
    }

    /// Counts those of `bytes` that are among the `left` ones of a part of the body.
    fn body(
        &mut self,
        bytes: &[u8],
        left: u64,
        unfinished: impl Fn(u64) -> Place,
        finished: Place,
    ) -> usize {
        let here = left.min(bytes.len() as u64);
        self.answer.bytes += here;
        self.place = if here == left { finished } else { unfinished(left - here) };
        here as usize
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Status<usize>, ErrorKind> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let read = head.parse(bytes).map_err(|_| ErrorKind::MalformedAnswer)?;
        let (Status::Complete(_), Some(status), Some(minor)) = (read, head.code, head.version)
        else {
            return Ok(Status::Partial);
        };
        let is_interim = (100..200).contains(&status) && status != 101;
        if !is_interim {
            let fields = Fields::of(head.headers)?;
            self.answer.outcome = Outcome::of_answer(status, fields.retry_after);
            self.place = fields.framing(self.method, status);
            // An answer that leaves HTTP/1.1 takes the connection with it, and one that names
            // two lengths is not to be trusted with another [RFC9112 §6.3].
            let ends = fields.close
                || self.place == Place::UntilClose
                || (fields.chunked.is_some() && (fields.length.is_some() || minor == 0))
                || leaves_http(self.method, status);
            self.answer.keep = !ends && (minor == 1 || fields.keep_alive);
        }
        Ok(read)
    }
}

/// What the fields of a head say about the connection and the body.
#[derive(Debug, Default)]
struct Fields<'h> {
    length: Option<u64>,
    /// Whether the last coding of a `Transfer-Encoding` is the chunked one.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
    retry_after: Option<&'h [u8]>,
}

impl<'h> Fields<'h> {
    fn of(fields: &[Header<'h>]) -> Result<Self, ErrorKind> {
        let mut found = Self::default();
        for &Header { name, value } in fields {
            if name.eq_ignore_ascii_case("content-length") {
                let length = length(value).ok_or(ErrorKind::MalformedAnswer)?;
                if found.length.replace(length).is_some_and(|before| before != length) {
                    return Err(ErrorKind::MalformedAnswer);
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                found.chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            } else if name.eq_ignore_ascii_case("connection") {
                found.close |= names(value, "close");
                found.keep_alive |= names(value, "keep-alive");
            } else if name.eq_ignore_ascii_case("retry-after") {
                found.retry_after.get_or_insert(value);
            }
        }
        Ok(found)
    }

    /// How the end of the body is found [RFC9112 §6.3].
    fn framing(&self, method: &Method, status: u16) -> Place {
        let has_no_body = method == Method::HEAD || matches!(status, 204 | 304);
        if has_no_body || leaves_http(method, status) {
            return Place::Done;
        }
        match (self.chunked, self.length) {
            (Some(true), _) => Place::ChunkSize,
            (None, Some(0)) => Place::Done,
            (None, Some(length)) => Place::Length(length),
            (Some(false), _) | (None, None) => Place::UntilClose,
        }
    }
}

/// Whether what follows such an answer is no longer HTTP/1.1.
fn leaves_http(method: &Method, status: u16) -> bool {
    status == 101 || (method == Method::CONNECT && (200..300).contains(&status))
}

/// A `Content-Length`: one number, or a list of the same ones [RFC9110 §8.6].
fn length(value: &[u8]) -> Option<u64> {
    let mut numbers = value.split(|byte| *byte == b',').map(|number| {
        let digits = std::str::from_utf8(number.trim_ascii()).ok()?;
        // `parse` would take a sign.
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    });
    let first = numbers.next()??;
    numbers.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Outcome = Outcome::Completed;
    const MALFORMED: Result<Answer, ErrorKind> = Err(ErrorKind::MalformedAnswer);
    const CUT_OFF: Result<Answer, ErrorKind> = Err(ErrorKind::ConnectionClosed);

    /// What an answer to `method` is read as that comes in these pieces.
    fn read(method: &Method, pieces: &[&[u8]]) -> Result<Answer, ErrorKind> {
        let mut reading = Reading::new(method);
        for piece in pieces {
            if let Some(answer) = reading.read(piece)? {
                return Ok(answer);
            }
        }
        reading.end()
    }

    /// Reads `text` in one piece, in every two, and byte by byte.
    fn check(method: &Method, text: &str, expected: Result<Answer, ErrorKind>) {
        let bytes = text.as_bytes();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(method, &single), expected, "{text:?} byte by byte");
        for split in 0..bytes.len() {
            let (one, two) = bytes.split_at(split);
            // An empty piece would be the end.
            let pieces = [one, two];
            let pieces = if one.is_empty() { &pieces[1..] } else { &pieces[..] };
            assert_eq!(read(method, pieces), expected, "{text:?} split at {split}");
        }
    }

    fn get(text: &str, expected: Result<Answer, ErrorKind>) {
        check(&Method::GET, text, expected);
    }

    fn answer(bytes: u64, keep: bool) -> Result<Answer, ErrorKind> {
        Ok(Answer { outcome: OK, bytes, keep })
    }

    #[test]
    fn a_length_ends_a_body() {
        get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", answer(5, true));
        get("HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", answer(0, true));
        get(
            "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok",
            answer(2, true),
        );
    }

    #[test]
    fn an_empty_chunk_ends_a_body() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        get(&format!("{head}0\r\n\r\n"), answer(0, true));
        get(&format!("{head}5\r\nhello\r\n0a;x=y\r\n, world...\r\n0\r\n\r\n"), answer(15, true));
        get(&format!("{head}1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n"), answer(1, true));
        let coded =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        get(coded, answer(2, true));
    }

    #[test]
    fn without_either_the_connection_ends_a_body() {
        get("HTTP/1.1 200 OK\r\n\r\nhello", answer(5, false));
        get("HTTP/1.1 200 OK\r\n\r\n", answer(0, false));
        get("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", answer(5, false));
    }

    #[test]
    fn some_answers_have_no_body_whatever_they_say() {
        let answered = |status| format!("HTTP/1.1 {status} X\r\nContent-Length: 9\r\n\r\n");
        get(&answered(204), answer(0, true));
        get(&answered(304), answer(0, true));
        check(&Method::HEAD, &answered(200), answer(0, true));
    }

    #[test]
    fn what_leaves_http_takes_the_connection_with_it() {
        get("HTTP/1.1 101 Changed\r\nUpgrade: x\r\nContent-Length: 9\r\n\r\n", answer(0, false));
        check(&Method::CONNECT, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", answer(0, false));
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let final_one = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        get(&format!("{interim}{final_one}"), answer(2, true));
    }

    #[test]
    fn the_server_says_whether_the_connection_stays() {
        let said =
            |version, line| format!("HTTP/{version} 200 OK\r\n{line}Content-Length: 2\r\n\r\nok");
        get(&said("1.1", "Connection: close\r\n"), answer(2, false));
        get(&said("1.1", "Connection: x, Close\r\n"), answer(2, false));
        get(&said("1.0", ""), answer(2, false));
        get(&said("1.0", "Connection: Keep-Alive\r\n"), answer(2, true));
        let both =
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        get(both, answer(0, false));
    }

    #[test]
    fn a_connection_that_says_more_than_it_was_asked_is_not_used_again() {
        for text in ["Content-Length: 2\r\n\r\nok!", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n!"]
        {
            let text = format!("HTTP/1.1 200 OK\r\n{text}");
            let mut reading = Reading::new(&Method::GET);
            let answer = reading.read(text.as_bytes()).unwrap().unwrap();
            assert!(!answer.keep, "{text:?}");
        }
    }

    #[test]
    fn all_that_is_not_framing_may_pass_unseen() {
        let left = |begun: &str| {
            let mut reading = Reading::new(&Method::GET);
            assert_eq!(reading.read(begun.as_bytes()), Ok(None));
            reading.body_left()
        };
        assert_eq!(left("HTTP/1.1 200 OK\r\nContent-Le"), 0);
        assert_eq!(left("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhe"), 9);
        assert_eq!(left("HTTP/1.1 200 OK\r\n\r\n"), u64::MAX);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (begun, expected) in [("", 0), ("9", 0), ("9\r\n", 9), ("9\r\nlong", 5)] {
            assert_eq!(left(&format!("{chunked}{begun}")), expected, "{begun:?}");
        }
        for begun in
            ["9\r\nlong body", "9\r\nlong body\r", "9\r\nlong body\r\n", "0\r\n", "0\r\n\r"]
        {
            assert_eq!(left(&format!("{chunked}{begun}")), 0, "{begun:?}");
        }
    }

    #[test]
    fn what_an_answer_counts_as_is_in_its_head() {
        let outcome = |text: &str| read(&Method::GET, &[text.as_bytes()]).unwrap().outcome;
        let length = "Content-Length: 0\r\n\r\n";
        assert_eq!(
            outcome(&format!("HTTP/1.1 404 No\r\n{length}")),
            Outcome::Failed(ErrorKind::Status(404))
        );
        let busy = outcome(&format!("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n{length}"));
        let retry_after = Some(std::time::Duration::from_secs(7));
        assert_eq!(busy, Outcome::Rejected { retry_after });
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        get("", CUT_OFF);
        get("HTTP/1.1 200 OK\r\nContent-Le", CUT_OFF);
        get("HTTP/1.1 100 Continue\r\n\r\n", CUT_OFF);
        get("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", CUT_OFF);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in ["", "5", "5\r\nhel", "5\r\nhello\r", "5\r\nhello\r\n0\r\n", "0\r\nA: b\r\n"] {
            get(&format!("{chunked}{body}"), CUT_OFF);
        }
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        get("220 mail.example ESMTP ready\r\n\r\n", MALFORMED);
        get("HTTP/2 200\r\n\r\n", MALFORMED);
        get("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", MALFORMED);
        for length in ["-1", "+1", "1x", "", "1, 2", "99999999999999999999"] {
            get(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nok"), MALFORMED);
        }
        get("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", MALFORMED);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in ["x\r\n", "5\r\nhelloX", "5\r\nhello\rX", "0\r\nno colon\r\n\r\n"] {
            get(&format!("{chunked}{body}"), MALFORMED);
        }
    }

    #[test]
    fn endless_heads_and_chunk_framing_are_malformed() {
        let long = "x".repeat(HELD_MAX + 1);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let endless = ["HTTP/1.1 200 OK\r\nA: ", &format!("{chunked}0\r\nA: ")]
            .map(|start| start.to_owned() + &long);
        for text in &endless {
            assert_eq!(read(&Method::GET, &[text.as_bytes()]), MALFORMED);
        }
    }
}
