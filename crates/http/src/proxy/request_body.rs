use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

/// How long a body waits for the upstream's `100 Continue`. Clients wait as
/// long before they give up on it (curl, one second).
const CONTINUE_TIME: Duration = Duration::from_secs(1);

/// A client's request body on its way to the upstream.
pub(super) enum RequestBody {
    /// There is none.
    Empty,
    /// It is passed on as it comes.
    Streamed(Incoming),
    /// The client waits to be asked for it, and so do we.
    Expected { body: Incoming, continued: Arc<AtomicBool>, patience: Pin<Box<Sleep>> },
}

impl RequestBody {
    /// The request with its body made ready to be sent upstream.
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        if request.body().is_end_stream() {
            return request.map(|_| Self::Empty);
        }
        if !expects_continue(&request) {
            return request.map(Self::Streamed);
        }
        let continued = Arc::new(AtomicBool::new(false));
        let mut request = request.map(|body| Self::Expected {
            body,
            continued: Arc::clone(&continued),
            patience: Box::pin(tokio::time::sleep(CONTINUE_TIME)),
        });
        hyper::ext::on_informational(&mut request, move |response| {
            if response.status() == StatusCode::CONTINUE {
                continued.store(true, Ordering::Relaxed);
            }
        });
        request
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

fn expects_continue(request: &Request<Incoming>) -> bool {
    let is_continue = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    request.headers().get(header::EXPECT).is_some_and(is_continue)
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Streamed(body) => Pin::new(body).poll_frame(cx),
            Self::Expected { body, continued, patience } => {
                // The upstream's word comes over the connection that polls us,
                // so that no other wake-up is needed.
                if !continued.load(Ordering::Relaxed) {
                    ready!(patience.as_mut().poll(cx));
                    continued.store(true, Ordering::Relaxed);
                }
                Pin::new(body).poll_frame(cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streamed(body) | Self::Expected { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streamed(body) | Self::Expected { body, .. } => body.size_hint(),
        }
    }
}
