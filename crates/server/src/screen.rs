//! The service as hyper sees it: what the guard refused is answered here.

use std::cell::Cell;
use std::error::Error;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;
use tamarisk_http_gate::Refusal;

use super::at_hand::{Asked, AtHand, Hand, Prepared};
use super::client_body::ClientBody;
use super::departure::{Debt, Owed};
use super::pace::Pace;

use super::refused::Counts;
use super::tunnel::{Slot, Tunnel};
use crate::guard::{Notice, Sideband, Verdict, Violation};

/// The service of one HTTP/1 connection.
pub(super) struct Screen<S> {
    service: S,
    sideband: Arc<Sideband>,
    tunnel: Slot,
    pace: Pace,
    refused: Arc<Counts>,
    debt: Debt,
    /// How many requests there have been.
    requests: Cell<u64>,
}

impl<S> Screen<S> {
    pub(super) fn new(
        service: S,
        sideband: Arc<Sideband>,
        tunnel: Slot,
        pace: Pace,
        refused: Arc<Counts>,
        debt: Debt,
    ) -> Self {
        Self { service, sideband, tunnel, pace, refused, debt, requests: Cell::new(0) }
    }
}

/// The service is called, and never pinned.
impl<S> Unpin for Screen<S> {}

impl<S, B> Service<Request<Incoming>> for Screen<S>
where
    S: Service<Request<ClientBody>, Response = Response<B>> + AtHand,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes>,
{
    type Response = Response<ScreenedBody<B>>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Screened<S::Future>;

    #[inline]
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let number = self.requests.get() + 1;
        self.requests.set(number);
        let owed = (!request.body().is_end_stream()).then(|| self.debt.incur());
        match self.sideband.notice(number) {
            Notice::Ordinary => Screened::Ordinary {
                answer: self.service.call(request.map(ClientBody::plain)),
                open: Some(Open(Arc::clone(&self.sideband))),
                pace: self.pace.clone(),
                _owed: owed,
            },
            Notice::Upgrade => Screened::Upgrade {
                connect: request.method() == Method::CONNECT,
                answer: self.service.call(request.map(ClientBody::plain)),
                open: Some(Open(Arc::clone(&self.sideband))),
                pace: self.pace.clone(),
                tunnel: self.tunnel.clone(),
                _owed: owed,
            },
            Notice::Refused(violation) => {
                self.refused.refused(violation);
                if violation == Violation::NotHttp && number == 1 {
                    self.service.refused(violation, 0);
                    return Screened::NotHttp;
                }
                self.pace.responses().count(violation.status());
                let text = refusal_text(violation);
                self.service.refused(violation, text.len());
                Screened::Refused { violation, text }
            }
        }
    }
}

impl<S: AtHand> AtHand for Screen<S> {
    const EVER: bool = S::EVER;

    #[inline]
    fn at_hand<A>(&self, asked: &Asked<'_>, answer: impl FnOnce(Prepared<'_>) -> A) -> Hand<A> {
        let number = self.requests.get() + 1;
        if self.pace.is_parting() || self.sideband.notice(number) != Notice::Ordinary {
            return Hand::Nothing;
        }
        let mut is_refusal = false;
        let hand = self.service.at_hand(asked, |prepared| {
            is_refusal = prepared.is_refusal;
            self.pace.responses().count_line(prepared.head);
            answer(prepared)
        });
        if let Hand::Answer(_) = hand {
            self.requests.set(number);
            self.sideband.answered();
            self.sideband.pause(self.pace.answered(is_refusal));
        }
        hand
    }
}

pin_project! {
    /// The answer of a [`Screen`].
    #[project = Projected]
    pub(super) enum Screened<F> {
        Ordinary {
            #[pin]
            answer: F,
            open: Option<Open>,
            pace: Pace,
            _owed: Option<Owed>,
        },
        Upgrade {
            #[pin]
            answer: F,
            connect: bool,
            open: Option<Open>,
            pace: Pace,
            tunnel: Slot,
            _owed: Option<Owed>,
        },
        Refused { violation: Violation, text: String },
        /// Whose client would not understand an answer.
        NotHttp,
    }
}

impl<F, B, E> Future for Screened<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = Result<Response<ScreenedBody<B>>, Box<dyn Error + Send + Sync>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, open) = match self.project() {
            Projected::Ordinary { answer, open, pace, .. } => {
                let mut answer = ready!(answer.poll(cx)).map_err(Into::into)?;
                if pace.is_parting() {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                pace.responses().count(answer.status());
                let pause = pace.answered(answer.extensions().get::<Refusal>().is_some());
                if let Some(Open(sideband)) = open {
                    sideband.pause(pause);
                }
                (answer, open.take())
            }
            Projected::Upgrade { answer, connect, open, pace, tunnel, .. } => {
                let answer = ready!(answer.poll(cx));
                let open = open.take();
                let granted = answer.as_ref().is_ok_and(|answer| {
                    let status = answer.status();
                    status == StatusCode::SWITCHING_PROTOCOLS || (*connect && status.is_success())
                });
                if let Some(Open(sideband)) = &open {
                    sideband.decide(if granted { Verdict::Tunnel } else { Verdict::Resume });
                }
                let answer = answer.map_err(Into::into)?;
                pace.responses().count(answer.status());
                if let Some(found) = answer.extensions().get::<Tunnel>() {
                    tunnel.fill(found);
                }
                (answer, open)
            }
            Projected::Refused { violation, text } => {
                let body = ScreenedBody::Refusal { body: Full::from(mem::take(text)) };
                let mut answer = refusal(*violation, body);
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                return Poll::Ready(Ok(answer));
            }
            // With an error hyper closes the connection and says nothing.
            Projected::NotHttp => return Poll::Ready(Err(Violation::NotHttp.into())),
        };
        Poll::Ready(Ok(answer.map(|body| ScreenedBody::Answer { body, _open: open })))
    }
}

pin_project! {
    /// The body of an answer.
    #[project = ProjectedBody]
    pub(super) enum ScreenedBody<B> {
        /// Of the service's; it is over when hyper lets go of it.
        Answer {
            #[pin]
            body: B,
            _open: Option<Open>,
        },
        Refusal { body: Full<Bytes> },
    }
}

impl<B: Body<Data = Bytes>> Body for ScreenedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project() {
            ProjectedBody::Answer { body, .. } => body.poll_frame(cx),
            ProjectedBody::Refusal { body } => {
                Pin::new(body).poll_frame(cx).map_err(|never| match never {})
            }
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Answer { body, .. } => body.is_end_stream(),
            Self::Refusal { body } => body.is_end_stream(),
        }
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Answer { body, .. } => body.size_hint(),
            Self::Refusal { body } => body.size_hint(),
        }
    }
}

/// A request that is not answered to the end.
pub(super) struct Open(Arc<Sideband>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.answered();
    }
}

/// What a client is told that was refused for its framing.
pub(super) fn refusal_text(violation: Violation) -> String {
    format!("{}: {violation}\n", violation.status().as_u16())
}

/// The answer that tells it.
pub(super) fn refusal<B>(violation: Violation, body: B) -> Response<B> {
    let mut answer = Response::new(body);
    *answer.status_mut() = violation.status();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    answer
}
