//! An HTTP service of tower behind a gate, in one line.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tamarisk_http_gate::{
    Details, Form, Hold, Message, TrustedProxies, grpc_failure, grpc_overdue, grpc_rejected,
    is_grpc, timeout,
};
use tamarisk_stage::{EnterError, Entry, Gate, GatePermit};
use tower::{Layer, Service};

use crate::client::client_of;

/// Puts an HTTP service (of axum, tonic, hyper) behind a gate.
///
/// A request that the gate does not let through is answered with 503 and
/// `Retry-After`; the service never sees it. One with a deadline, of its own
/// (`X-Request-Timeout`, `grpc-timeout`) or of its [`Entry`], is ended at it, with 504; if it has
/// both, at the earlier one, so that a client can shorten the operator's deadline and not extend it.
/// A gRPC call gets RESOURCE_EXHAUSTED with `grpc-retry-pushback-ms`, or
/// DEADLINE_EXCEEDED.
///
/// While not all can be served, clients share equally. A client is who has an address, or an IPv6
/// network of 64 bits, if the server tells it: tonic does (feature `tonic`), axum does (feature
/// `axum`) if it is served by `into_make_service_with_connect_info::<SocketAddr>()`, and any
/// server may set the extension [`ClientAddress`](crate::ClientAddress). Otherwise, and where
/// clients are known better, state [`Entry::flow`] in [`classify`](Self::classify).
///
/// The layer itself is always ready: the service is made ready after admission, as part of
/// the request, so that a service that is not ready fills the gate and not its callers.
///
/// A request holds its place from there until its answer is ready, also while the service reads
/// the request's body: of a service that takes large or slow uploads, read the body in a layer
/// around this one, or let `tamarisk protect` stand before it, which does that.
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
    proxies: TrustedProxies,
}

/// The service that a [`StageLayer`] makes.
#[derive(Clone)]
pub struct StageService<S, C = fn(&Parts) -> Entry> {
    inner: S,
    gate: Gate,
    classify: C,
    proxies: TrustedProxies,
}

impl StageLayer {
    /// Every request enters `gate` as its default class, with the deadline that
    /// its own head names, as one of its client's.
    pub fn new(gate: Gate) -> Self {
        Self { gate, classify: |_| Entry::new(), proxies: TrustedProxies::default() }
    }
}

impl<C> StageLayer<C> {
    /// As what each request enters, by its head. A deadline that the head names
    /// counts only if it is earlier than that of the [`Entry`]. An entry that states no
    /// [flow](Entry::flow) gets the client's.
    pub fn classify<D: Fn(&Parts) -> Entry>(self, classify: D) -> StageLayer<D> {
        StageLayer { gate: self.gate, classify, proxies: self.proxies }
    }

    /// Believes peers at these addresses about whose requests they pass on: of theirs the client is
    /// the last address in `X-Forwarded-For` that is not one of these.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_stage::StageBuilder;
    /// # use tamarisk_tower::StageLayer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gate = StageBuilder::new("shop").gate()?;
    /// let layer = StageLayer::new(gate).trusted_proxies(|peer| peer.is_loopback());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn trusted_proxies(
        mut self,
        is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.proxies = TrustedProxies::new(is_trusted);
        self
    }
}

impl<S, C: Clone> Layer<S> for StageLayer<C> {
    type Service = StageService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { gate, classify, proxies } = self.clone();
        StageService { inner, gate, classify, proxies }
    }
}

impl<S, C, A, B> Service<Request<A>> for StageService<S, C>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    C: Fn(&Parts) -> Entry,
    A: Send + 'static,
    B: Body<Data = Bytes>,
{
    type Response = Response<StageBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let mut entry = (self.classify)(&parts);
        if let Some(timeout) = timeout(&parts.headers) {
            entry = entry.timeout_at_most(timeout);
        }
        if let Some(client) = client_of(&parts, &self.proxies) {
            entry = entry.flow_or(client);
        }
        let client = Client::of(&parts);
        let is_head = parts.method == Method::HEAD;
        let request = Request::from_parts(parts, body);
        let gate = self.gate.clone();
        // Made ready below: a clone need not be, where the original is.
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let permit = match gate.enter(entry).await {
                Ok(permit) => permit,
                Err(rejected) => {
                    return Ok(client.rejected(&rejected));
                }
            };
            let work = async {
                poll_fn(|cx| inner.poll_ready(cx)).await?;
                inner.call(request).await
            };
            let Some(answered) = crate::in_time(work, left(&gate, &permit)).await else {
                permit.terminate();
                return Ok(client.overdue());
            };
            match answered {
                Ok(answer) => Ok(hold(answer, is_head, permit)),
                Err(error) => {
                    permit.fail();
                    Err(error)
                }
            }
        })
    }
}

/// What kind of answer of ours a client understands.
#[derive(Clone, Copy)]
enum Client {
    Http(Form),
    Grpc,
}

impl Client {
    fn of(head: &Parts) -> Self {
        if is_grpc(&head.headers) {
            Self::Grpc
        } else {
            Self::Http(Form::of(&head.method, &head.headers))
        }
    }

    fn rejected<B: From<Bytes>>(self, rejected: &EnterError) -> Response<B> {
        match self {
            Self::Http(form) => tamarisk_http_gate::rejected(rejected, form, Details::default()),
            Self::Grpc => grpc_rejected(rejected),
        }
    }

    fn overdue<B: From<Bytes>>(self) -> Response<B> {
        match self {
            Self::Http(form) => OVERDUE.answer(form),
            Self::Grpc => grpc_overdue(),
        }
    }
}

const OVERDUE: Message =
    Message::new(StatusCode::GATEWAY_TIMEOUT, "overdue", "the deadline of the request has passed");

fn left(gate: &Gate, permit: &GatePermit) -> Option<Duration> {
    permit.deadline().map(|deadline| deadline.since(gate.clock().now()))
}

/// The answer, which holds its place until it is ready. Nobody reads the body of one to a `HEAD`.
fn hold<B: Body<Data = Bytes>>(
    answer: Response<B>,
    is_to_head: bool,
    permit: GatePermit,
) -> Response<StageBody<B>> {
    let status = answer.status();
    let failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let failure = failed.then(|| format!("answered {}", status.as_u16()));
    let failure = failure.or_else(|| grpc_failure(answer.headers()));
    answer.map(|body| {
        let mut hold = Hold::new(permit, failure);
        if is_to_head || body.is_end_stream() {
            hold.ends();
        }
        StageBody { source: Source::Service { body, hold } }
    })
}

pin_project! {
    /// The body of an answer of a [`StageService`]: the service's, or a rejection.
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
