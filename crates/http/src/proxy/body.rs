use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::line::Line;
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
    body: Incoming,
    line: Option<Box<Line>>,
    reach: Arc<Reach>,
    hold: Hold,
}

impl ProxyBody {
    /// The body of an answer that came over `line`, which goes back to the pool
    /// of `reach` when the body has been read to its end.
    pub(super) fn passing(body: Incoming, line: Box<Line>, reach: Arc<Reach>, hold: Hold) -> Self {
        let mut passage = Passage { body, line: Some(line), reach, hold };
        if passage.body.is_end_stream() {
            passage.finish();
        }
        Self(Source::Upstream(passage))
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
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Asking the body tells the connection, driven next, to read on; only
        // driving it can bring something. So the body itself need wake nobody.
        let mut quiet = Context::from_waker(Waker::noop());
        let mut polled = Pin::new(&mut self.body).poll_frame(&mut quiet);
        if polled.is_pending() {
            let Some(line) = &mut self.line else { return Poll::Pending };
            line.drive(cx);
            polled = Pin::new(&mut self.body).poll_frame(&mut quiet);
        }
        self.hold.follow(&polled, cx);
        match &polled {
            Poll::Ready(Some(Err(_))) => self.line = None,
            Poll::Ready(None) => self.finish(),
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() || self.body.is_end_stream() => {
                self.finish();
            }
            _ => {}
        }
        polled
    }

    fn finish(&mut self) {
        self.hold.ends();
        if let Some(line) = self.line.take() {
            self.reach.give_back(line);
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
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
            Source::Upstream(passage) => passage.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Fixed(text) => SizeHint::with_exact(text.len() as u64),
            Source::Upstream(passage) => passage.body.size_hint(),
        }
    }
}
