//! A response body that writes its line of the access log when it ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::log::Entry;

/// Why the body of an answer breaks off.
pub trait BreaksOff {
    /// A word for the log.
    fn reason(&self) -> &'static str;
}

impl BreaksOff for io::Error {
    fn reason(&self) -> &'static str {
        if self.kind() == io::ErrorKind::TimedOut { "silent" } else { "broken" }
    }
}

pin_project! {
    /// The body of an answer, whose bytes are counted for a line of the access log.
    pub struct Logged<B> {
        #[pin]
        body: B,
        // The line is written when this is dropped.
        entry: Option<Box<Entry>>,
    }
}

impl<B> Logged<B> {
    /// `answer`, about which `entry` is written once it has been sent.
    pub fn answer(answer: Response<B>, entry: Option<Box<Entry>>) -> Response<Self> {
        let entry = entry.map(|mut entry| {
            entry.answered(answer.status());
            entry
        });
        answer.map(|body| Self { body, entry })
    }
}

impl<B: Body<Data = Bytes, Error: BreaksOff>> Body for Logged<B> {
    type Data = Bytes;
    type Error = B::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(cx);
        if let (Some(entry), Poll::Ready(Some(polled))) = (this.entry, &polled) {
            match polled {
                Ok(frame) => entry.sent(frame.data_ref().map_or(0, Bytes::len) as u64),
                Err(error) => entry.broke_off(error.reason()),
            }
        }
        polled
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
