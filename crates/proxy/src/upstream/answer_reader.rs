//! The answers of one connection, read from its socket in whatever pieces they come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, UPGRADE, VIA};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Frame;
use hyper::ext::ReasonPhrase;
use tamarisk_h1::{
    Asked, Event, Limits, ResponseHead, ResponseReader, Version, Violation, trailer_fields,
};

use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

use crate::exchange_error::ExchangeError;
use crate::hop_by_hop::{HOP_BY_HOP, Named};

/// Room for a usual head with a small body, which is read at first. Of an answer that is no longer
/// nothing is counted.
pub(crate) const SHORT_BYTES: usize = 8 * 1024;

/// The most that is read at once of a long body.
const READ_MAX: usize = 64 * 1024;

/// The types of answers that come little by little, for as long as they like.
const STREAM_TYPES: [&[u8]; 2] = [b"text/event-stream", b"application/grpc"];

/// What has come on a connection, and what the codec finds in it. Whoever has the connection lends
/// the socket.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    input: BytesMut,
    reader: ResponseReader,
    /// Another answer may follow.
    keep: bool,
    /// Some byte of the answer has come.
    heard: bool,
}

impl AnswerReader {
    pub(crate) fn new() -> Self {
        let reader = ResponseReader::new(Limits::RESPONSE);
        Self { input: BytesMut::new(), reader, keep: true, heard: false }
    }

    /// Begins the next answer. `to_head` says that the request was a `HEAD`.
    pub(crate) fn begin(&mut self, to_head: bool) {
        self.reader.begin(if to_head { Asked::Head } else { Asked::Ordinary });
        self.heard = false;
    }

    /// Whether nothing has come of the answer.
    pub(crate) fn is_silent(&self) -> bool {
        !self.heard
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

    /// The next head from `stream`, an interim one or the answer's own, which has the body with it
    /// if that is short and has come. Its fields go into `spare`, an empty map.
    pub(crate) fn poll_head(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        spare: &mut HeaderMap,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AnswerHead, ExchangeError>> {
        loop {
            let head = self.head(spare).map_err(|malformed| self.instead_of(malformed.into()))?;
            if let Some(mut head) = head {
                if !head.is_interim() {
                    head.whole = self.whole();
                }
                return Poll::Ready(Ok(head));
            }
            if ready!(self.poll_read(stream, cx)) == 0 {
                return Poll::Ready(Err(self.instead_of(ExchangeError::Ended)));
            }
        }
    }

    /// Why there is no head: that of an upstream which speaks HTTP/2 begins with a frame of settings on
    /// stream 0 [RFC9113 §3.4].
    fn instead_of(&self, error: ExchangeError) -> ExchangeError {
        const SETTINGS: u8 = 4;
        match self.input.get(3..9) {
            Some([SETTINGS, _, 0, 0, 0, 0]) => ExchangeError::Http2,
            _ => error,
        }
    }

    /// The next part of the body from `stream`; `None` at its end.
    pub(crate) fn poll_frame(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        loop {
            if let Some(frame) = self.frame().map_err(ExchangeError::from)? {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.is_done() {
                return Poll::Ready(None);
            }
            if ready!(self.poll_read(stream, cx)) == 0 {
                self.end().map_err(|_| ExchangeError::Ended)?;
            }
        }
    }

    /// Reads on; 0 at the end. A connection that breaks has ended.
    fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<usize> {
        let count = ready!(poll_read_buf(Pin::new(stream), cx, self.room())).unwrap_or(0);
        self.heard |= count > 0;
        Poll::Ready(count)
    }

    /// The whole body, if it is short and has come.
    fn whole(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.left()?).ok()?;
        (length <= self.input.len().min(SHORT_BYTES)).then(|| {
            self.reader.skip_body();
            self.input.split_to(length).freeze()
        })
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
                // It is not asked before the head, and behind the end comes nothing.
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
            false => SHORT_BYTES,
        };
        if self.input.capacity() - self.input.len() < SHORT_BYTES {
            self.input.reserve(more.max(SHORT_BYTES));
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
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) body: tamarisk_h1::Framing,
    /// Whether the connection can take another request afterwards.
    pub(crate) keep: bool,
    /// The protocols that it changes to.
    pub(crate) upgrade: Option<HeaderValue>,
    /// It comes little by little, as its type says.
    pub(crate) is_stream: bool,
    /// All of the body, if it is short and has come with the head.
    pub(crate) whole: Option<Bytes>,
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
        let (mut upgrade, mut is_stream) = (None, None);
        for field in said.fields {
            let name = HeaderName::from_bytes(field.name.of(head)).map_err(|_| Malformed)?;
            let value = HeaderValue::from_maybe_shared(head.slice(field.value.range()));
            let value = value.map_err(|_| Malformed)?;
            match name {
                // A second line that says the same is not passed on.
                CONTENT_LENGTH => drop(headers.insert(name, value)),
                UPGRADE => upgrade = Some(value),
                name if HOP_BY_HOP.contains(&name.as_str()) || named.contains(name.as_str()) => {}
                name => {
                    if name == CONTENT_TYPE {
                        is_stream.get_or_insert_with(|| is_of_stream(value.as_bytes()));
                    }
                    headers.append(name, value);
                }
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
            #[cfg(any(test, feature = "fuzzing"))]
            body: said.framing,
            keep: said.keep,
            upgrade,
            is_stream: is_stream.unwrap_or_default(),
            whole: None,
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

impl From<Malformed> for ExchangeError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

fn is_of_stream(content_type: &[u8]) -> bool {
    STREAM_TYPES.iter().any(|name| {
        content_type.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    })
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
mod tests;
