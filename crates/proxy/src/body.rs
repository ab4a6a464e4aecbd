use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tamarisk_http_gate::{Hold, READY_BYTES};

use super::delivery::{Delivery, Frames, Rest, Way, length};
use super::line::{Line, LineError};

/// Of an answer that is no longer than this nothing is counted: it is what a connection to
/// an upstream reads at first.
const SHORT_BYTES: usize = 8 * 1024;

/// The body of an answer: the upstream's, passed on as it comes, or one of ours.
pub struct ProxyBody(Source);

enum Source {
    Fixed(Bytes),
    /// All of it is there.
    Whole {
        frames: Frames,
        left: Option<u64>,
    },
    /// It is long, or has not come to its end.
    Delivery {
        delivery: Box<Delivery>,
        left: Option<u64>,
    },
}

/// How far an answer is that has been read as far as it goes without waiting.
enum Ahead {
    Whole,
    Part,
    Broken(LineError),
}

impl ProxyBody {
    /// The body of the answer on `line`, which goes back to its pool when the body has been read
    /// to its end. What has come of it is read here and now: whether the client takes it
    /// is not the upstream's business.
    pub(super) async fn passing(mut line: Box<Line>, mut hold: Hold, way: Way<'_>) -> Self {
        let left = line.left();
        let mut frames = Frames::default();
        let read = |cx: &mut Context<'_>| read_ahead(&mut line, &mut hold, &mut frames, cx);
        let rest = match poll_once(read).await {
            Ahead::Whole => {
                way.reach.give_back(line);
                if frames.bytes() <= SHORT_BYTES {
                    return Self(Source::Whole { frames, left });
                }
                Rest::None
            }
            Ahead::Part => Rest::Line(line),
            Ahead::Broken(error) => Rest::Error(error),
        };
        let delivery = Box::new(Delivery::start(frames, rest, hold, &way));
        Self(Source::Delivery { delivery, left })
    }

    /// Whether it is a message of ours, and nothing that the upstream has said.
    pub fn is_ours(&self) -> bool {
        matches!(self.0, Source::Fixed(_))
    }
}

async fn poll_once<T>(poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut poll = Some(poll);
    poll_fn(|cx| Poll::Ready(poll.take().expect("it is ready at once")(cx))).await
}

/// Reads an answer as far as it goes without waiting, and no further than it counts.
fn read_ahead(
    line: &mut Line,
    hold: &mut Hold,
    frames: &mut Frames,
    cx: &mut Context<'_>,
) -> Ahead {
    loop {
        if line.left() == Some(0) {
            hold.ends();
            return Ahead::Whole;
        }
        if !hold.is_held() || frames.bytes() >= READY_BYTES {
            return Ahead::Part;
        }
        let polled = line.poll_frame(cx);
        if polled.is_pending() {
            return Ahead::Part;
        }
        hold.follow(&polled, cx);
        match polled {
            Poll::Ready(Some(Ok(frame))) => frames.push(frame),
            Poll::Ready(Some(Err(error))) => return Ahead::Broken(error),
            Poll::Ready(None) | Poll::Pending => {}
        }
    }
}

impl From<Bytes> for ProxyBody {
    fn from(bytes: Bytes) -> Self {
        Self(Source::Fixed(bytes))
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = LineError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LineError>>> {
        let (polled, left) = match &mut self.get_mut().0 {
            Source::Fixed(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Source::Fixed(bytes) => {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))));
            }
            Source::Whole { frames, left } => (Poll::Ready(frames.pop().map(Ok)), left),
            Source::Delivery { delivery, left } => (delivery.poll_frame(cx), left),
        };
        if let (Some(left), Poll::Ready(Some(Ok(frame)))) = (left, &polled) {
            *left = left.saturating_sub(length(frame) as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Fixed(bytes) => bytes.is_empty(),
            Source::Whole { frames, .. } => frames.is_empty(),
            Source::Delivery { left, .. } => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Fixed(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Whole { frames, .. } if frames.is_empty() => SizeHint::with_exact(0),
            Source::Whole { left, .. } | Source::Delivery { left, .. } => {
                left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
