//! The body of a proxied response: of the upstream, or our own.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tamarisk_http_gate::{Hold, READY_BYTES};

use crate::answer::delivery::{Delivery, Frames, Recipient, Rest, length};
use crate::exchange_error::ExchangeError;
use crate::upstream::answer_reader::SHORT_BYTES;
use crate::upstream::connection::UpstreamConnection;

/// The body of an answer: the upstream's, passed on as it comes, or one of ours.
pub struct ProxyBody(ProxyBodySource);

enum ProxyBodySource {
    /// It is short, and is there in one piece.
    Fixed { bytes: Bytes, is_ours: bool },
    /// All of it is there.
    Whole { frames: Frames, left: Option<u64> },
    /// It is long, or has not come to its end.
    Delivery { delivery: Box<Delivery>, left: Option<u64> },
}

/// How far an answer is that has been read as far as it goes without waiting.
enum Ahead {
    Whole,
    Part,
    Broken(ExchangeError),
}

impl ProxyBody {
    /// A short body of the upstream's, complete.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(ProxyBodySource::Fixed { bytes, is_ours: false })
    }

    /// The body of the answer on `connection`, which goes back to its pool when the body has been read
    /// to its end. What has come of it is read here and now: whether the client takes it
    /// is not the upstream's business.
    pub(crate) fn passing(
        mut connection: Box<UpstreamConnection>,
        mut hold: Hold,
        recipient: Recipient<'_>,
        cx: &mut Context<'_>,
    ) -> Self {
        let left = connection.left();
        let mut frames = Frames::default();
        let rest = match read_ahead(&mut connection, &mut hold, &mut frames, cx) {
            Ahead::Whole => {
                recipient.upstream_client.give_back(connection);
                if frames.bytes() <= SHORT_BYTES {
                    return Self(ProxyBodySource::Whole { frames, left });
                }
                Rest::None
            }
            Ahead::Part => Rest::Connection(connection),
            Ahead::Broken(error) => Rest::Error(error),
        };
        let delivery = Box::new(Delivery::start(frames, rest, hold, &recipient));
        Self(ProxyBodySource::Delivery { delivery, left })
    }

    /// Whether it is a message of ours, and nothing that the upstream has said.
    pub fn is_ours(&self) -> bool {
        matches!(self.0, ProxyBodySource::Fixed { is_ours: true, .. })
    }
}

/// Reads an answer as far as it goes without waiting, and no further than it counts.
fn read_ahead(
    connection: &mut UpstreamConnection,
    hold: &mut Hold,
    frames: &mut Frames,
    cx: &mut Context<'_>,
) -> Ahead {
    loop {
        if connection.left() == Some(0) {
            hold.ends();
            return Ahead::Whole;
        }
        if !hold.is_held() || frames.bytes() >= READY_BYTES {
            return Ahead::Part;
        }
        let polled = connection.poll_frame(cx);
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
        Self(ProxyBodySource::Fixed { bytes, is_ours: true })
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let (polled, left) = match &mut self.get_mut().0 {
            ProxyBodySource::Fixed { bytes, .. } if bytes.is_empty() => return Poll::Ready(None),
            ProxyBodySource::Fixed { bytes, .. } => {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))));
            }
            ProxyBodySource::Whole { frames, left } => (Poll::Ready(frames.pop().map(Ok)), left),
            ProxyBodySource::Delivery { delivery, left } => (delivery.poll_frame(cx), left),
        };
        if let (Some(left), Poll::Ready(Some(Ok(frame)))) = (left, &polled) {
            *left = left.saturating_sub(length(frame) as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            ProxyBodySource::Fixed { bytes, .. } => bytes.is_empty(),
            ProxyBodySource::Whole { frames, .. } => frames.is_empty(),
            ProxyBodySource::Delivery { left, .. } => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            ProxyBodySource::Fixed { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            ProxyBodySource::Whole { frames, .. } if frames.is_empty() => SizeHint::with_exact(0),
            ProxyBodySource::Whole { left, .. } | ProxyBodySource::Delivery { left, .. } => {
                left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
