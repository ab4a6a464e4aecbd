//! The bytes of an answer: from memory, from the disk as they are sent, or of parts.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tamarisk_stage::{CallError, Request, Sink};

use crate::files::Chunk;

/// What is read at once of a file that is not held: enough that the disk does not
/// seek for little, and all that one answer holds in memory.
const CHUNK_BYTES: u64 = 64 * 1024;

type ChunkSink = Sink<Request<Chunk, io::Result<Bytes>>>;
type Reading = Pin<Box<dyn Future<Output = Result<io::Result<Bytes>, CallError>> + Send>>;

/// The body of an answer.
#[derive(Default)]
pub struct SiteBody {
    parts: VecDeque<Part>,
    reading: Option<Reading>,
}

/// Bytes one after the other.
pub(crate) enum Part {
    Held(Bytes),
    OnDisk { file: Arc<File>, at: u64, left: u64, chunk: ChunkSink },
}

impl SiteBody {
    pub(crate) fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: parts.into_iter().filter(|part| part.left() > 0).collect(), reading: None }
    }

    pub(crate) fn held(bytes: Bytes) -> Self {
        Self::of([Part::Held(bytes)])
    }

    fn left(&self) -> u64 {
        self.parts.iter().map(Part::left).sum()
    }
}

impl Part {
    fn left(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::OnDisk { left, .. } => *left,
        }
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let Some(part) = this.parts.front_mut() else { return Poll::Ready(None) };
        let Part::OnDisk { file, at, left, chunk } = part else {
            let Some(Part::Held(bytes)) = this.parts.pop_front() else {
                unreachable!("it is held")
            };
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        };
        let reading = this.reading.get_or_insert_with(|| {
            let length = CHUNK_BYTES.min(*left) as usize;
            let (chunk, wanted) =
                (chunk.clone(), Chunk { file: Arc::clone(file), at: *at, length });
            Box::pin(async move { chunk.call(wanted).await })
        });
        let read = ready!(reading.as_mut().poll(cx));
        this.reading = None;
        let read = read.map_err(io::Error::other).flatten();
        if let Ok(bytes) = &read {
            *at += bytes.len() as u64;
            *left -= bytes.len() as u64;
        }
        if read.is_err() || *left == 0 {
            this.parts.pop_front();
        }
        Poll::Ready(Some(read.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
