//! The answers of one connection, read from bytes in whatever pieces they come.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

use crate::answer::body::AnswerBody;
use crate::answer::head::{AnswerHead, AnswerScan, Malformed};

/// Room for a usual head with a small body, and the most that is read at once
/// of a long one.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 64 * 1024;

/// Everything about reading a connection but its socket: what has come goes into
/// [`AnswerReader::room`], and heads and frames are taken out.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    input: BytesMut,
    scan: AnswerScan,
    body: AnswerBody,
    /// The request was a `HEAD`.
    to_head: bool,
    /// Another answer may follow.
    keep: bool,
}

impl AnswerReader {
    pub(crate) fn new() -> Self {
        Self {
            input: BytesMut::new(),
            scan: AnswerScan::default(),
            body: AnswerBody::Done,
            to_head: false,
            keep: true,
        }
    }

    /// Begins the next answer. `to_head` says that the request was a `HEAD`.
    pub(crate) fn begin(&mut self, to_head: bool) {
        self.to_head = to_head;
    }

    /// Whether the answer is one to a `HEAD`.
    pub(crate) fn is_to_head(&self) -> bool {
        self.to_head
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
        let head = self.scan.advance(&mut self.input, self.to_head, spare)?;
        if let Some(head) = head.as_ref().filter(|head| !head.is_interim()) {
            self.body = AnswerBody::new(head.body);
            self.keep &= head.keep;
        }
        Ok(head)
    }

    /// The next part of the body; `None` if it needs more bytes, or is done.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame<Bytes>>, Malformed> {
        self.body.next(&mut self.input)
    }

    /// Whether all of the body has been taken.
    pub(crate) fn is_done(&self) -> bool {
        self.body.is_done()
    }

    /// How many bytes of the body are still to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.body.left()
    }

    /// Where to put what comes next: there is room for some of it.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        let more = self.left().map_or(READ_MAX, |left| left.min(READ_MAX as u64) as usize);
        if self.input.capacity() - self.input.len() < READ_MIN {
            self.input.reserve(more.max(READ_MIN));
        }
        &mut self.input
    }

    /// The connection has ended: whether the body has too.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        self.close();
        self.body.end()
    }

    /// What has come and was not taken.
    pub(crate) fn into_rest(self) -> Bytes {
        self.input.freeze()
    }
}
