//! The service as hyper sees it: what the guard refused is answered here.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use super::departure::{Debt, Owed};
use super::pace::Pace;
use super::tunnel::{Slot, Tunnel};
use crate::guard::{Notice, Sideband, Verdict, Violation};

/// The service of one HTTP/1 connection.
pub(super) struct Screen<S> {
    pub(super) service: S,
    pub(super) sideband: Arc<Sideband>,
    pub(super) tunnel: Slot,
    pub(super) pace: Pace,
    pub(super) debt: Debt,
    /// How many there have been.
    pub(super) requests: Cell<u64>,
}

impl<S, B> Service<Request<Incoming>> for Screen<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = S::Error;
    type Future = Screened<S::Future>;

    #[inline]
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let number = self.requests.get() + 1;
        self.requests.set(number);
        let owed = (!request.body().is_end_stream()).then(|| self.debt.incur());
        match self.sideband.notice(number) {
            Notice::Ordinary => Screened::Ordinary {
                answer: self.service.call(request),
                sideband: Arc::clone(&self.sideband),
                pace: self.pace.clone(),
                _owed: owed,
            },
            Notice::Upgrade => Screened::Upgrade {
                connect: request.method() == Method::CONNECT,
                answer: self.service.call(request),
                sideband: Arc::clone(&self.sideband),
                tunnel: self.tunnel.clone(),
                _owed: owed,
            },
            Notice::Refused(violation) => Screened::Refused { violation },
        }
    }
}

pin_project! {
    /// The answer of a [`Screen`].
    #[project = Projected]
    pub(super) enum Screened<F> {
        Ordinary {
            #[pin]
            answer: F,
            sideband: Arc<Sideband>,
            pace: Pace,
            _owed: Option<Owed>,
        },
        Upgrade {
            #[pin]
            answer: F,
            connect: bool,
            sideband: Arc<Sideband>,
            tunnel: Slot,
            _owed: Option<Owed>,
        },
        Refused { violation: Violation },
    }
}

impl<F, B, E> Future for Screened<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Either<B, Full<Bytes>>>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match self.project() {
            Projected::Ordinary { answer, sideband, pace, .. } => {
                let mut answer = ready!(answer.poll(cx))?;
                if pace.is_parting() {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                let pause = pace.answered(answer.extensions());
                if !pause.is_zero() {
                    sideband.pause(pause);
                }
                answer
            }
            Projected::Upgrade { answer, connect, sideband, tunnel, .. } => {
                let answer = ready!(answer.poll(cx)).inspect_err(|_| {
                    sideband.decide(Verdict::Resume);
                })?;
                let status = answer.status();
                let granted =
                    status == StatusCode::SWITCHING_PROTOCOLS || (*connect && status.is_success());
                if let Some(found) = answer.extensions().get::<Tunnel>() {
                    tunnel.fill(found);
                }
                sideband.decide(if granted { Verdict::Tunnel } else { Verdict::Resume });
                answer
            }
            Projected::Refused { violation } => {
                return Poll::Ready(Ok(refusal(*violation).map(Either::Right)));
            }
        };
        Poll::Ready(Ok(answer.map(Either::Left)))
    }
}

/// The answer to a request that was refused for its framing.
fn refusal(violation: Violation) -> Response<Full<Bytes>> {
    let status = violation.status();
    let text = format!("{}: {violation}\n", status.as_u16());
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
