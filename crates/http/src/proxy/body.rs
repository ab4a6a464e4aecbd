use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::line::{Line, LineError};
use super::upstream::Reach;
use crate::hold::Hold;

/// The body of an answer: the upstream's, passed on as it comes, or one of ours.
pub struct ProxyBody(Source);

enum Source {
    Fixed(&'static str),
    Upstream(Passage),
}

/// An answer on its way, with what it takes up until its end.
struct Passage {
    line: Option<Box<Line>>,
    reach: Arc<Reach>,
    hold: Hold,
}

impl ProxyBody {
    /// The body of the answer on `line`, which goes back to the pool of `reach`
    /// when the body has been read to its end.
    pub(super) fn passing(line: Box<Line>, reach: Arc<Reach>, hold: Hold) -> Self {
        let mut passage = Passage { line: Some(line), reach, hold };
        passage.finish_if_done();
        Self(Source::Upstream(passage))
    }

    /// Whether it is a message of ours, and nothing that the upstream has said.
    pub fn is_ours(&self) -> bool {
        matches!(self.0, Source::Fixed(_))
    }
}

impl From<&'static str> for ProxyBody {
    fn from(text: &'static str) -> Self {
        Self(Source::Fixed(text))
    }
}

impl Passage {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LineError>>> {
        let Some(line) = &mut self.line else { return Poll::Ready(None) };
        let polled = line.poll_frame(cx);
        self.hold.follow(&polled, cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Err(_))) => self.line = None,
            Poll::Ready(_) => self.finish_if_done(),
        }
        polled
    }

    fn finish_if_done(&mut self) {
        if let Some(line) = self.line.take_if(|line| line.left() == Some(0)) {
            self.hold.ends();
            self.reach.give_back(line);
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = LineError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LineError>>> {
        match &mut self.get_mut().0 {
            Source::Fixed("") => Poll::Ready(None),
            Source::Fixed(text) => {
                let bytes = Bytes::from_static(std::mem::take(text).as_bytes());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Source::Upstream(passage) => passage.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Fixed(text) => text.is_empty(),
            Source::Upstream(passage) => passage.line.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Fixed(text) => SizeHint::with_exact(text.len() as u64),
            Source::Upstream(passage) => match passage.line.as_ref().map(|line| line.left()) {
                Some(None) => SizeHint::default(),
                Some(Some(left)) => SizeHint::with_exact(left),
                None => SizeHint::with_exact(0),
            },
        }
    }
}
