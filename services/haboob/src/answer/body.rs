//! The bytes of an answer: from memory, from the disk as they are sent, or from a service
//! behind.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tamarisk_proxy::ProxyBody;
use tamarisk_server::read_size;

use crate::page::memory_file::MemoryFile;
use crate::page::page_file::PageFile;
use crate::page::page_file::ReadInto;

/// What is read at once of a file that is not held, where the connection sets no lower limit:
/// enough that the disk does not seek for little, and all that one answer holds in memory.
const CHUNK_BYTES: usize = 64 * 1024;

/// The size of the next read of a file with this many bytes `left`.
fn next_read(left: u64) -> u64 {
    left.min(read_size(CHUNK_BYTES) as u64)
}

type Reading = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

/// The body of an answer.
#[derive(Default)]
pub struct SiteBody {
    source: BodySource,
}

enum BodySource {
    Page(PageBody),
    /// Boxed, because it is larger and comes less often.
    Upstream(Box<ProxyBody>),
}

impl Default for BodySource {
    fn default() -> Self {
        Self::Page(PageBody::default())
    }
}

impl SiteBody {
    pub(crate) fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        let mut parts = parts.into_iter().filter(|part| part.left() > 0);
        let page = PageBody { part: parts.next(), others: parts.collect(), reading: None };
        Self { source: BodySource::Page(page) }
    }

    pub(crate) fn held(bytes: Bytes) -> Self {
        Self::of([Part::Held(bytes)])
    }

    pub(crate) fn passing(body: ProxyBody) -> Self {
        Self { source: BodySource::Upstream(Box::new(body)) }
    }

    /// All of it, if that is one piece in memory.
    pub(crate) fn into_held(self) -> Option<Bytes> {
        match self.source {
            BodySource::Page(PageBody { part: Some(Part::Held(bytes)), others, .. })
                if others.is_empty() =>
            {
                Some(bytes)
            }
            _ => None,
        }
    }
}

impl From<Bytes> for SiteBody {
    fn from(bytes: Bytes) -> Self {
        Self::held(bytes)
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.source {
            BodySource::Page(body) => body.poll_frame(cx),
            BodySource::Upstream(body) => {
                Pin::new(&mut **body).poll_frame(cx).map_err(io::Error::from)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Page(body) => body.part.is_none(),
            BodySource::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Page(body) => SizeHint::with_exact(body.left()),
            BodySource::Upstream(body) => body.size_hint(),
        }
    }
}

/// Parts of pages; most bodies have one.
#[derive(Default)]
struct PageBody {
    part: Option<Part>,
    others: VecDeque<Part>,
    reading: Option<Reading>,
}

/// Bytes one after the other.
pub(crate) enum Part {
    Held(Bytes),
    InMemory { file: Arc<MemoryFile>, at: u64, left: u64 },
    File { file: Arc<PageFile>, at: u64, left: u64 },
}

impl Part {
    fn left(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::InMemory { left, .. } | Self::File { left, .. } => *left,
        }
    }
}

impl PageBody {
    fn left(&self) -> u64 {
        self.part.iter().chain(&self.others).map(Part::left).sum()
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (file, at, left) = match &mut self.part {
            Some(Part::File { file, at, left }) => (file, at, left),
            Some(Part::Held(bytes)) => {
                let bytes = mem::take(bytes);
                self.part = self.others.pop_front();
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Some(Part::InMemory { file, at, left }) => {
                let length = next_read(*left);
                let read = file.read(*at, length as usize);
                (*at, *left) = (*at + length, *left - length);
                if read.is_err() || *left == 0 {
                    self.part = self.others.pop_front();
                }
                return Poll::Ready(Some(read.map(Frame::data)));
            }
            None => return Poll::Ready(None),
        };
        let read = match &mut self.reading {
            Some(reading) => ready!(reading.as_mut().poll(cx)),
            None => {
                let length = next_read(*left);
                match file.read_at_once(*at, length as usize).transpose() {
                    Some(read) => read,
                    None => {
                        let asked = Box::pin(file.ask(*at..*at + length, ReadInto::Answer));
                        ready!(self.reading.insert(asked).as_mut().poll(cx))
                    }
                }
            }
        };
        self.reading = None;
        if let Ok(bytes) = &read {
            *at += bytes.len() as u64;
            *left -= bytes.len() as u64;
        }
        if read.is_err() || *left == 0 {
            self.part = self.others.pop_front();
        }
        Poll::Ready(Some(read.map(Frame::data)))
    }
}
