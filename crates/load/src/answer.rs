//! Reads an answer as it comes off the wire, and keeps nothing of it but what is counted, unless
//! somebody wants to read it.
//!
//! Sans-I/O: told what came, in whatever pieces.

use http::{HeaderName, HeaderValue, Method, Response};
use tamarisk_h1::{Asked, Event, Limits, ResponseReader};

use crate::outcome::{ErrorKind, Outcome};

/// Bytes of the body of an answer that is kept, at most: no page for people is longer.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What an answer is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is counted.
    Count,
    /// A user reads it.
    Keep,
}

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
pub(crate) struct Reading {
    reader: ResponseReader,
    /// The beginning of a head or of chunk framing whose end is still to come.
    held: Vec<u8>,
    /// What is known so far.
    answer: Answer,
    /// The answer itself, if it is to be kept.
    kept: Option<Response<Vec<u8>>>,
}

impl Reading {
    /// The answer to a request of this method.
    pub(crate) fn new(method: &Method, purpose: Purpose) -> Self {
        let mut reader = ResponseReader::new(Limits::RESPONSE);
        reader.begin(Asked::from(method));
        let nothing = Answer { outcome: Outcome::Completed, bytes: 0, keep: true };
        let kept = (purpose == Purpose::Keep).then(Response::default);
        Self { reader, held: Vec::new(), answer: nothing, kept }
    }

    /// Takes in what came next; the answer, once it is complete.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedAnswer`], or [`ErrorKind::AnswerTooLong`] to be kept.
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
        if !self.reader.is_idle() {
            return Ok(None);
        }
        // What comes after an answer that was asked for was not.
        self.answer.keep &= self.held.is_empty();
        Ok(Some(self.answer))
    }

    /// How many bytes come next of which nothing matters but that they come. [`read`](Self::read)
    /// does not look at so many: a piece of the same length will do in their place.
    pub(crate) fn body_left(&self) -> u64 {
        if self.kept.is_some() { 0 } else { self.reader.data_next() }
    }

    /// The answer itself, if it was to be kept.
    pub(crate) fn into_kept(self) -> Option<Response<Vec<u8>>> {
        self.kept
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionClosed`] if the answer has not.
    pub(crate) fn end(&mut self) -> Result<Answer, ErrorKind> {
        self.reader.end().map(|()| self.answer).map_err(|_| ErrorKind::ConnectionClosed)
    }

    /// Reads `bytes` as far as it can: how many of them.
    fn advance(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self.reader.next(rest).map_err(|_| ErrorKind::MalformedAnswer)? {
                None => return Ok(used),
                Some(event @ Event::Head(_)) => {
                    self.head(rest)?;
                    used += event.len();
                }
                Some(event @ Event::Data(length)) => {
                    self.answer.bytes += length as u64;
                    used += event.len();
                    if let Some(kept) = &mut self.kept {
                        let body = kept.body_mut();
                        if body.len() + length > KEPT_BYTES_MAX {
                            return Err(ErrorKind::AnswerTooLong);
                        }
                        body.extend_from_slice(&rest[..length]);
                    }
                }
                Some(event) => used += event.len(),
            }
        }
    }

    /// The head that the first of `bytes` are. An interim one says nothing of the answer.
    fn head(&mut self, bytes: &[u8]) -> Result<(), ErrorKind> {
        let head = self.reader.head();
        if head.is_interim() {
            return Ok(());
        }
        let retry_after = head.fields.iter().find_map(|field| {
            let is_it = field.name.of(bytes).eq_ignore_ascii_case(b"retry-after");
            is_it.then(|| field.value.of(bytes))
        });
        self.answer.outcome = Outcome::of_answer(head.status.as_u16(), retry_after);
        self.answer.keep = head.keep;
        if let Some(kept) = &mut self.kept {
            *kept.status_mut() = head.status;
            for field in head.fields {
                let name = HeaderName::from_bytes(field.name.of(bytes));
                let value = HeaderValue::from_bytes(field.value.of(bytes));
                let (Ok(name), Ok(value)) = (name, value) else {
                    return Err(ErrorKind::MalformedAnswer);
                };
                let appended = kept.headers_mut().try_append(name, value);
                appended.map_err(|_| ErrorKind::MalformedAnswer)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Outcome = Outcome::Completed;
    const MALFORMED: Result<Answer, ErrorKind> = Err(ErrorKind::MalformedAnswer);
    const CUT_OFF: Result<Answer, ErrorKind> = Err(ErrorKind::ConnectionClosed);

    /// What an answer to `method` is read as that comes in these pieces.
    fn read(method: &Method, pieces: &[&[u8]]) -> Result<Answer, ErrorKind> {
        let mut reading = Reading::new(method, Purpose::Count);
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
        get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", answer(2, true));
    }

    #[test]
    fn an_empty_chunk_ends_a_body() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        get(&format!("{head}0\r\n\r\n"), answer(0, true));
        get(&format!("{head}5\r\nhello\r\n0a;x=y\r\n, world...\r\n0\r\n\r\n"), answer(15, true));
        get(&format!("{head}1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n"), answer(1, true));
    }

    #[test]
    fn without_either_the_connection_ends_a_body() {
        get("HTTP/1.1 200 OK\r\n\r\nhello", answer(5, false));
        get("HTTP/1.1 200 OK\r\n\r\n", answer(0, false));
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
    fn of_an_interim_answer_nothing_is_kept() {
        let mut reading = Reading::new(&Method::GET, Purpose::Keep);
        let interim = "HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=1\r\nLocation: /early\r\n\r\n";
        assert_eq!(reading.read(interim.as_bytes()), Ok(None));
        let final_one = "HTTP/1.1 200 OK\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(reading.read(final_one.as_bytes()).unwrap(), answer(2, true).ok());
        let kept = reading.into_kept().unwrap();
        assert_eq!((kept.status().as_u16(), kept.body().as_slice()), (200, &b"ok"[..]));
        let cookies: Vec<_> = kept.headers().get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["b=2"]);
        assert!(!kept.headers().contains_key("location"));
    }

    #[test]
    fn any_number_of_interim_answers_leaves_room_for_the_final_one() {
        let mut reading = Reading::new(&Method::GET, Purpose::Keep);
        for head in 0..400 {
            let fields = (0..100).map(|field| format!("x-{head}-{field}: x\r\n"));
            let interim = format!("HTTP/1.1 103 X\r\n{}\r\n", fields.collect::<String>());
            assert_eq!(reading.read(interim.as_bytes()), Ok(None), "head {head}");
        }
        let final_one = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(reading.read(final_one.as_bytes()).unwrap(), answer(0, true).ok());
        assert_eq!(reading.into_kept().unwrap().headers().len(), 1);
    }

    #[test]
    fn the_server_says_whether_the_connection_stays() {
        let said =
            |version, line| format!("HTTP/{version} 200 OK\r\n{line}Content-Length: 2\r\n\r\nok");
        get(&said("1.1", "Connection: close\r\n"), answer(2, false));
        get(&said("1.1", "Connection: x, Close\r\n"), answer(2, false));
        get(&said("1.0", ""), answer(2, false));
        get(&said("1.0", "Connection: Keep-Alive\r\n"), answer(2, true));
    }

    #[test]
    fn a_length_that_two_readers_could_see_differently_is_malformed() {
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 2, 2",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: gzip",
        ] {
            get(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n0\r\n\r\n"), MALFORMED);
        }
    }

    #[test]
    fn a_connection_that_says_more_than_it_was_asked_is_not_used_again() {
        for text in ["Content-Length: 2\r\n\r\nok!", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n!"]
        {
            let text = format!("HTTP/1.1 200 OK\r\n{text}");
            let mut reading = Reading::new(&Method::GET, Purpose::Count);
            let answer = reading.read(text.as_bytes()).unwrap().unwrap();
            assert!(!answer.keep, "{text:?}");
        }
    }

    #[test]
    fn all_that_is_not_framing_may_pass_unseen() {
        let left = |begun: &str| {
            let mut reading = Reading::new(&Method::GET, Purpose::Count);
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
        let long = "x".repeat(64 * 1024 + 1);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let endless = ["HTTP/1.1 200 OK\r\nA: ", &format!("{chunked}0\r\nA: ")]
            .map(|start| start.to_owned() + &long);
        for text in &endless {
            assert_eq!(read(&Method::GET, &[text.as_bytes()]), MALFORMED);
        }
    }
}
