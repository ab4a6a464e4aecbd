//! Responses as they are written: the head, and the body in its framing.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::{Buf, Bytes};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use hyper::ext::ReasonPhrase;
use tamarisk_h1::encode::{CHUNK_END, HeadWriter, chunk_start, last_chunk};
use tamarisk_h1::grammar::{decimal, lists};
use tamarisk_h1::{Framing, Version};

use crate::prepared::outgoing::{COPIED_MAX, end_head, keep_spare, spare_head};
use crate::transport::outlet::Outlet;
use crate::transport::stream::poll_write_pieces;

/// So much may be gathered before it is written.
const GATHERED_MAX: usize = 8 * 1024;

/// Bytes on their way to the client.
#[derive(Default)]
pub(super) struct Output {
    /// Heads, framing, and data that is short. It has memory from the first of them on.
    gathered: Vec<u8>,
    written: usize,
    /// Data that is long, and what ends its chunk.
    data: Bytes,
    behind: &'static [u8],
}

impl Drop for Output {
    fn drop(&mut self) {
        keep_spare(mem::take(&mut self.gathered));
    }
}

impl Output {
    /// Where to append what comes next; there must be [room](Self::has_room).
    pub(super) fn gathered(&mut self) -> &mut Vec<u8> {
        if self.gathered.capacity() == 0 {
            self.gathered = spare_head();
        }
        &mut self.gathered
    }

    pub(super) fn has_room(&self) -> bool {
        self.data.is_empty() && self.behind.is_empty() && self.gathered.len() < GATHERED_MAX
    }

    pub(super) fn is_written(&self) -> bool {
        self.gathered.is_empty() && self.data.is_empty() && self.behind.is_empty()
    }

    fn data(&mut self, data: Bytes, behind: &'static [u8]) {
        if data.len() <= COPIED_MAX {
            self.gathered.extend_from_slice(&data);
            self.gathered.extend_from_slice(behind);
        } else {
            (self.data, self.behind) = (data, behind);
        }
    }

    /// Writes what `stream` takes; ready when that is all.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut impl Outlet,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_written() {
            let pieces = [&self.gathered[self.written..], &self.data[..], self.behind];
            let mut written = ready!(poll_write_pieces(stream, cx, pieces))?;
            let of_gathered = written.min(pieces[0].len());
            self.written += of_gathered;
            written -= of_gathered;
            let of_data = written.min(self.data.len());
            self.data.advance(of_data);
            self.behind = &self.behind[written - of_data..];
            if self.written == self.gathered.len() {
                self.gathered.clear();
                self.written = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// How a response's body is framed.
pub(super) enum Encoder {
    /// Bytes still to come.
    Length(u64),
    /// With these trailers, if the client takes any.
    Chunked { trailers: Vec<HeaderName> },
    /// By the end of the connection.
    UntilClose,
}

/// What a body broke off with.
pub(super) struct Incomplete;

impl Encoder {
    /// Whether nothing of a body is to be written.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Length(0))
    }

    /// Appends a part of the body.
    pub(super) fn frame(&mut self, frame: Frame<Bytes>, output: &mut Output) {
        match frame.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(mut data) => match self {
                // A service that has said how long the body is, and sends more, is not believed.
                Self::Length(left) => {
                    data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= data.len() as u64;
                    output.data(data, b"");
                }
                Self::Chunked { .. } => {
                    chunk_start(&mut output.gathered, data.len() as u64);
                    output.data(data, CHUNK_END);
                }
                Self::UntilClose => output.data(data, b""),
            },
            Err(frame) => {
                if let (Self::Chunked { trailers }, Ok(fields)) = (&*self, frame.into_trailers()) {
                    let known = |(name, _): &(&HeaderName, _)| trailers.contains(name);
                    last_chunk(&mut output.gathered, fields.iter().filter(known));
                    *self = Self::Length(0);
                }
            }
        }
    }

    /// Appends what ends the body.
    pub(super) fn end(&mut self, output: &mut Output) -> Result<(), Incomplete> {
        match mem::replace(self, Self::Length(0)) {
            Self::Length(0) | Self::UntilClose => Ok(()),
            Self::Length(_) => Err(Incomplete),
            Self::Chunked { .. } => {
                last_chunk(&mut output.gathered, []);
                Ok(())
            }
        }
    }
}

/// How a response is sent, as its head says.
pub(super) struct Begun {
    pub(super) encoder: Encoder,
    /// Whether the connection can carry another request afterwards.
    pub(super) keep: bool,
}

/// Whether such a response has a body, whatever it says [RFC9112 §6.3].
pub(super) fn has_body(status: StatusCode, asked: &RequestFacts) -> bool {
    let is_without = status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || asked.is_connect && status.is_success();
    !is_without && !asked.is_head
}

/// What is there of a body as its head is written.
pub(super) struct FirstPart {
    /// How many bytes it has in all, if that is known.
    pub(super) length: Option<u64>,
    pub(super) frame: Option<Frame<Bytes>>,
}

/// Appends the head of a `response` to what was asked, and the first part of its body; `keep` says
/// whether another request may follow.
pub(super) fn begin(
    response: &mut Parts,
    FirstPart { length, frame }: FirstPart,
    asked: &RequestFacts,
    keep: bool,
    output: &mut Output,
) -> Begun {
    let status = response.status;
    let has_body = has_body(status, asked);
    let reason = response.extensions.remove::<ReasonPhrase>();
    let reason = match &reason {
        Some(reason) => reason.as_bytes(),
        None => status.canonical_reason().unwrap_or_default().as_bytes(),
    };
    let version = if asked.is_http10 { Version::Http10 } else { Version::Http11 };
    let says_close = lists_close(&response.headers);
    let mut keep = keep && !says_close;
    let may_chunk = has_body && !asked.is_http10;
    let mut framing = BodyFraming::of(&response.headers, length, has_body, may_chunk, asked);
    keep &= !matches!(framing.encoder, Encoder::UntilClose);

    let mut head = HeadWriter::response(output.gathered(), version, status, reason);
    let mut is_dated = false;
    let mut says_connection = false;
    for (name, value) in &response.headers {
        match *name {
            CONTENT_LENGTH | TRANSFER_ENCODING => continue,
            TRAILER if !may_chunk => continue,
            DATE => is_dated = true,
            CONNECTION => says_connection = true,
            _ => {}
        }
        head.field(name, value);
    }
    if let Some((name, value)) = &framing.field {
        head.field(name, value);
    }
    if !keep && !says_close {
        head.field(&CONNECTION, &HeaderValue::from_static("close"));
    } else if keep && asked.is_http10 && !says_connection {
        head.field(&CONNECTION, &HeaderValue::from_static("keep-alive"));
    }
    keep_spare_fields(mem::take(&mut response.headers));
    match is_dated {
        true => output.gathered.extend_from_slice(b"\r\n"),
        false => end_head(&mut output.gathered, false, SystemTime::now()),
    }
    if let Some(frame) = frame {
        framing.encoder.frame(frame, output);
    }
    Begun { encoder: framing.encoder, keep }
}

fn lists_close(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| lists(value.as_bytes(), b"close"))
}

/// What of a request bears on its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFacts {
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    pub(super) is_http10: bool,
    /// Whether the client may send another request.
    pub(super) keep: bool,
    /// It asks to change the protocol.
    pub(super) upgrade: bool,
    /// Its body comes once the client has been told to continue.
    pub(super) expects_continue: bool,
    pub(super) takes_trailers: bool,
    pub(super) framing: Framing,
}

/// A map with room for more fields is not kept for another request.
const SPARE_FIELDS_MAX: usize = 128;

/// As many maps are kept as requests are mostly under way at once on one core.
const SPARES_MAX: usize = 64;

thread_local! {
    /// The memory of maps whose fields have been written, for those of other requests.
    static SPARES: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// The memory of fields that have been written, for those of the next request.
pub(super) fn spare_fields() -> HeaderMap {
    SPARES.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps the memory of fields that are written.
fn keep_spare_fields(mut fields: HeaderMap) {
    if (1..=SPARE_FIELDS_MAX).contains(&fields.capacity()) {
        fields.clear();
        // When the thread ends, nobody needs it.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() < SPARES_MAX {
                spares.push(fields);
            }
        });
    }
}

/// How a body is framed, and the field that says so.
struct BodyFraming {
    encoder: Encoder,
    field: Option<(HeaderName, HeaderValue)>,
}

impl BodyFraming {
    fn of(
        headers: &HeaderMap,
        length: Option<u64>,
        has_body: bool,
        may_chunk: bool,
        asked: &RequestFacts,
    ) -> Self {
        let said = headers.get(CONTENT_LENGTH).filter(|value| decimal(value.as_bytes()).is_some());
        let field = |value: &HeaderValue| Some((CONTENT_LENGTH, value.clone()));
        if !has_body {
            // What a body would have been like, to a HEAD alone; its length is the service's to say.
            let field = match (said, length) {
                (Some(said), _) if asked.is_head => field(said),
                (None, Some(length @ 1..)) if asked.is_head => field(&length.into()),
                _ => None,
            };
            return Self { encoder: Encoder::Length(0), field };
        }
        if may_chunk && headers.contains_key(TRANSFER_ENCODING) {
            return Self::chunked(headers, asked);
        }
        match (length, said) {
            (Some(length), _) => {
                Self { encoder: Encoder::Length(length), field: field(&length.into()) }
            }
            (None, Some(said)) => {
                let length = decimal(said.as_bytes()).unwrap_or_default();
                Self { encoder: Encoder::Length(length), field: field(said) }
            }
            (None, None) if may_chunk => Self::chunked(headers, asked),
            (None, None) => Self { encoder: Encoder::UntilClose, field: None },
        }
    }

    fn chunked(headers: &HeaderMap, asked: &RequestFacts) -> Self {
        let listed = headers.get_all(TRAILER).iter().filter_map(|value| value.to_str().ok());
        let names = listed.flat_map(|value| value.split(','));
        let trailers = match asked.takes_trailers {
            true => names.filter_map(|name| name.trim().parse().ok()).collect(),
            false => Vec::new(),
        };
        let field = Some((TRANSFER_ENCODING, HeaderValue::from_static("chunked")));
        Self { encoder: Encoder::Chunked { trailers }, field }
    }
}
