//! Any tower service behind a gate, in one line.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tamarisk_http_gate::{self, Details, Form, Hold, Message, timeout};
use tamarisk_stage::{Entry, Gate, GatePermit};
use tower::{Layer, Service};

/// Puts an HTTP service (of axum, tonic, hyper) behind a gate.
///
/// A request that the gate does not let through is answered with 503 and
/// `Retry-After`; the service never sees it. One with a deadline, of its own
/// (`X-Request-Timeout`, `grpc-timeout`) or of its [`Entry`], is ended at it, with 504.
///
/// # Examples
/// ```
/// # use axum::{Router, routing::get};
/// # use tamarisk_stage::StageBuilder;
/// use tamarisk_tower::StageLayer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = StageBuilder::new("shop").workers(64).gate()?;
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(StageLayer::new(gate));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StageLayer<C = fn(&Parts) -> Entry> {
    gate: Gate,
    classify: C,
}

/// The service that a [`StageLayer`] makes.
#[derive(Clone)]
pub struct StageService<S, C = fn(&Parts) -> Entry> {
    inner: S,
    gate: Gate,
    classify: C,
}

impl StageLayer {
    /// Every request enters `gate` as its default class, with the deadline that
    /// its own head names.
    pub fn new(gate: Gate) -> Self {
        Self { gate, classify: |_| Entry::new() }
    }
}

impl<C> StageLayer<C> {
    /// As what each request enters, by its head.
    pub fn classify<D: Fn(&Parts) -> Entry>(self, classify: D) -> StageLayer<D> {
        StageLayer { gate: self.gate, classify }
    }
}

impl<S, C: Clone> Layer<S> for StageLayer<C> {
    type Service = StageService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        StageService { inner, gate: self.gate.clone(), classify: self.classify.clone() }
    }
}

impl<S, C, A, B> Service<Request<A>> for StageService<S, C>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    C: Fn(&Parts) -> Entry,
    A: Send + 'static,
    B: Body<Data = Bytes>,
{
    type Response = Response<StageBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let mut entry = (self.classify)(&parts);
        if let Some(timeout) = timeout(&parts.headers) {
            entry = entry.timeout(timeout);
        }
        let form = Form::of(&parts.method, &parts.headers);
        let request = Request::from_parts(parts, body);
        let gate = self.gate.clone();
        // The service that was made ready is the one to be called.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(async move {
            let permit = match gate.enter(entry).await {
                Ok(permit) => permit,
                Err(refused) => {
                    return Ok(tamarisk_http_gate::refused(&refused, form, Details::default()));
                }
            };
            let Some(answered) = in_time(inner.call(request), left(&gate, &permit)).await else {
                return Ok(OVERDUE.answer(form));
            };
            match answered {
                Ok(answer) => Ok(hold(answer, permit)),
                Err(error) => {
                    permit.fail();
                    Err(error)
                }
            }
        })
    }
}

const OVERDUE: Message =
    Message::new(StatusCode::GATEWAY_TIMEOUT, "overdue", "the deadline of the request has passed");

fn left(gate: &Gate, permit: &GatePermit) -> Option<Duration> {
    permit.deadline().map(|deadline| deadline.since(gate.clock().now()))
}

/// `None` if the time was over first.
async fn in_time<F: Future>(work: F, time: Option<Duration>) -> Option<F::Output> {
    match time {
        Some(time) => tokio::time::timeout(time, work).await.ok(),
        None => Some(work.await),
    }
}

fn hold<B: Body<Data = Bytes>>(answer: Response<B>, permit: GatePermit) -> Response<StageBody<B>> {
    let status = answer.status();
    let failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let failure = failed.then(|| format!("answered {}", status.as_u16()));
    answer.map(|body| {
        let mut hold = Hold::new(permit, failure);
        if body.is_end_stream() {
            hold.ends();
        }
        StageBody { source: Source::Service { body, hold } }
    })
}

pin_project! {
    /// The body of an answer of a [`StageService`]: the service's, or a refusal.
    pub struct StageBody<B> {
        #[pin]
        source: Source<B>,
    }
}

pin_project! {
    #[project = Projected]
    enum Source<B> {
        Service { #[pin] body: B, hold: Hold },
        Fixed { bytes: Bytes },
    }
}

impl<B> From<Bytes> for StageBody<B> {
    fn from(bytes: Bytes) -> Self {
        Self { source: Source::Fixed { bytes } }
    }
}

impl<B: Body<Data = Bytes>> Body for StageBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let (mut body, hold) = match self.project().source.project() {
            Projected::Service { body, hold } => (body, hold),
            Projected::Fixed { bytes } if bytes.is_empty() => return Poll::Ready(None),
            Projected::Fixed { bytes } => {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))));
            }
        };
        let polled = body.as_mut().poll_frame(cx);
        hold.follow(&polled, cx);
        if body.is_end_stream() {
            hold.ends();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Service { body, .. } => body.is_end_stream(),
            Source::Fixed { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Service { body, .. } => body.size_hint(),
            Source::Fixed { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
