//! A client's request body on its way to the upstream, and what is written there.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame};
use tamarisk_http_gate::Deadline;
use tamarisk_server::ClientBody;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use crate::budget::Account;
use crate::exchange_error::ExchangeError;
use crate::request::intake::{Buffered, Store};

/// How long a body waits for the upstream's `100 Continue`. Clients wait as
/// long before they give up on it (curl, one second).
const CONTINUE_TIME: Duration = Duration::from_secs(1);

/// How long the body behind a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// There is none.
    Empty,
    /// So many bytes.
    Known(u64),
    /// Unknown: it is sent in chunks.
    Unknown,
}

/// A body, and how it is framed.
pub(crate) struct RequestBody {
    source: BodySource,
    length: BodyLength,
    /// Set while the client waits to be asked for it, and so do we.
    expected: Option<Deadline>,
}

enum BodySource {
    /// It comes from the client.
    Client(ClientBody),
    /// It has come, and is in memory.
    Memory { bytes: Bytes, _account: Account },
    /// It has come.
    Buffered(Buffered),
}

impl BodySource {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, ExchangeError>> {
        match self {
            Self::Client(body) => {
                Pin::new(body).poll_frame(cx).map(Option::transpose).map_err(ExchangeError::Client)
            }
            Self::Memory { bytes, .. } => {
                let data = std::mem::take(bytes);
                Poll::Ready(Ok((!data.is_empty()).then(|| Frame::data(data))))
            }
            Self::Buffered(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Client(body) => body.is_end_stream(),
            Self::Memory { bytes, .. } => bytes.is_empty(),
            Self::Buffered(body) => body.is_end_stream(),
        }
    }
}

impl RequestBody {
    /// The body of a request with these `headers`, passed on as it comes.
    pub(crate) fn passing(body: ClientBody, headers: &HeaderMap) -> Self {
        let length = body.size_hint().exact().map_or(BodyLength::Unknown, BodyLength::Known);
        let expected = headers.get(header::EXPECT).is_some_and(asks_for_a_word).then(|| {
            let mut patience = Deadline::default();
            patience.start(CONTINUE_TIME);
            patience
        });
        Self { source: BodySource::Client(body), length, expected }
    }

    /// One that has been read.
    pub(crate) fn buffered(body: Buffered) -> Self {
        let length = match body.length() {
            // They come behind chunks only.
            _ if body.has_trailers() => BodyLength::Unknown,
            bytes => BodyLength::Known(bytes),
        };
        let source = match body {
            Buffered { store: Store::Memory { bytes, account }, trailers: None, .. } => {
                BodySource::Memory { bytes, _account: account }
            }
            body => BodySource::Buffered(body),
        };
        Self { source, length, expected: None }
    }

    /// How long it is; never [`Empty`](BodyLength::Empty).
    pub(crate) fn length(&self) -> BodyLength {
        self.length
    }

    fn is_chunked(&self) -> bool {
        self.length == BodyLength::Unknown
    }

    /// The upstream wants it.
    pub(crate) fn continues(&mut self) {
        self.expected = None;
    }

    /// Whether it is the client who lets us wait for the next part, if that is not there.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.expected.is_none() && matches!(self.source, BodySource::Client(_))
    }

    /// Puts its next part into `output`. Ready with whether another one may follow.
    pub(crate) fn poll_part(
        &mut self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, ExchangeError>> {
        if let Some(patience) = &mut self.expected {
            ready!(patience.poll(cx));
            self.expected = None;
        }
        let Some(frame) = ready!(self.source.poll_frame(cx))? else {
            self.end(output, None);
            return Poll::Ready(Ok(false));
        };
        match frame.into_data() {
            Ok(data) => {
                self.data(output, data);
                let more = self.is_chunked() || !self.source.is_end_stream();
                Poll::Ready(Ok(more))
            }
            Err(frame) => {
                self.end(output, frame.trailers_ref());
                Poll::Ready(Ok(false))
            }
        }
    }

    fn data(&self, output: &mut Output, data: Bytes) {
        if self.is_chunked() && !data.is_empty() {
            // Writing to a vector does not fail.
            let _ = write!(output.lead(), "{:x}\r\n", data.len());
            output.follow(data, b"\r\n");
        } else {
            output.follow(data, b"");
        }
    }

    fn end(&self, output: &mut Output, trailers: Option<&HeaderMap>) {
        if !self.is_chunked() {
            return;
        }
        let lead = output.lead();
        lead.extend_from_slice(b"0\r\n");
        for (name, value) in trailers.into_iter().flatten() {
            if may_trail(name.as_str()) {
                for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                    lead.extend_from_slice(part);
                }
            }
        }
        lead.extend_from_slice(b"\r\n");
    }
}

fn asks_for_a_word(expected: &HeaderValue) -> bool {
    expected.as_bytes().eq_ignore_ascii_case(b"100-continue")
}

/// Whether a field is passed on behind a body: those that can only be said there, for they are
/// computed from it. Whatever else is merged into the head by whoever reads on must not say
/// where the request comes from, nor where it ends [RFC9110 §6.5.1].
fn may_trail(name: &str) -> bool {
    matches!(
        name,
        "content-digest"
            | "content-md5"
            | "digest"
            | "repr-digest"
            | "signature"
            | "signature-input"
            | "x-amz-trailer-signature"
            | "x-goog-hash"
    ) || name.starts_with("x-amz-checksum-")
}

/// What is about to be written: a head or a chunk's size, some data, a line end;
/// together in one system call.
#[derive(Debug, Default)]
pub(crate) struct Output {
    lead: Vec<u8>,
    lead_written: usize,
    data: Bytes,
    tail: &'static [u8],
}

impl Output {
    /// Drops everything and begins anew: where a head is to be appended.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.data = Bytes::new();
        self.tail = b"";
        self.lead_written = 0;
        self.lead.clear();
        &mut self.lead
    }

    /// Starts again with the head that another connection was begun with.
    pub(crate) fn begin_again(&mut self, other: &mut Self) {
        std::mem::swap(self.begin(), &mut other.lead);
    }

    /// Writes no more of it. The head is kept for [`begin_again`](Self::begin_again).
    pub(crate) fn stop(&mut self) {
        self.lead_written = self.lead.len();
        self.data = Bytes::new();
        self.tail = b"";
    }

    /// What comes first can be appended to here. There must be no data behind it.
    pub(crate) fn lead(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.data.is_empty() && self.tail.is_empty(), "data is still to be written");
        if self.lead_written == self.lead.len() {
            self.lead.clear();
            self.lead_written = 0;
        }
        &mut self.lead
    }

    /// Data and the end of its line come behind it.
    pub(crate) fn follow(&mut self, data: Bytes, tail: &'static [u8]) {
        self.data = data;
        self.tail = tail;
    }

    /// Whether all data has been written, so that more can follow.
    pub(crate) fn has_room(&self) -> bool {
        self.data.is_empty() && self.tail.is_empty()
    }

    pub(crate) fn is_written(&self) -> bool {
        self.lead_written == self.lead.len() && self.has_room()
    }

    /// Writes it all.
    pub(crate) fn poll_write(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_written() {
            let lead = &self.lead[self.lead_written..];
            let written = if self.has_room() {
                ready!(Pin::new(&mut *stream).poll_write(cx, lead))?
            } else {
                let slices =
                    [IoSlice::new(lead), IoSlice::new(&self.data), IoSlice::new(self.tail)];
                ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        let of_lead = written.min(self.lead.len() - self.lead_written);
        self.lead_written += of_lead;
        let of_data = (written - of_lead).min(self.data.len());
        self.data.advance(of_data);
        self.tail = &self.tail[written - of_lead - of_data..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_could_not_be_written_is_sent_whole_over_another_connection() {
        let (mut broken, mut next) = (Output::default(), Output::default());
        broken.begin().extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
        broken.stop();
        assert!(broken.is_written());
        next.begin_again(&mut broken);
        assert!(!next.is_written());
        assert_eq!(next.lead().as_slice(), b"GET / HTTP/1.1\r\n\r\n");
    }
}
