//! A tonic service behind a gate, called by a tonic client.
use std::convert::Infallible;
use std::future::pending;
use std::task::{Context, Poll};
use std::time::Duration;

use tamarisk_stage::{Accounts, Clock, Entry, Gate, StageBuilder};
use tamarisk_tower::{StageLayer, StageService};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::{Layer, Service};

type HttpRequest = http::Request<Body>;
type HttpResponse = http::Response<Body>;

fn gate(workers: u32) -> Gate {
    StageBuilder::new("test").workers(workers).clock(Clock::runtime()).gate().unwrap()
}

fn accounts(gate: &Gate) -> Accounts {
    let total = gate.observe().total();
    assert!(total.balance(), "{total:?}");
    total
}

async fn check<S>(service: StageService<S>, about: &str) -> Result<i32, Status>
where
    S: Service<HttpRequest, Response = HttpResponse, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let origin = http::Uri::from_static("http://localhost");
    let mut client = HealthClient::with_origin(service, origin);
    let service = about.to_owned();
    client.check(HealthCheckRequest { service }).await.map(|answer| answer.into_inner().status)
}

async fn health()
-> impl Service<HttpRequest, Response = HttpResponse, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::Serving).await;
    health
}

#[tokio::test(start_paused = true)]
async fn calls_are_answered_and_accounted_for() {
    let gate = gate(8);
    let layer = StageLayer::new(gate.clone());
    assert_eq!(check(layer.layer(health().await), "shop").await.unwrap(), 1);
    let unknown = check(layer.layer(health().await), "nothing").await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let accounts = accounts(&gate);
    assert_eq!((accounts.completed, accounts.failed, accounts.inside()), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_resource_exhausted_with_a_pushback() {
    let gate = StageBuilder::new("test")
        .workers(1)
        .queue_capacity(1)
        .clock(Clock::runtime())
        .gate()
        .unwrap();
    let _holds = gate.try_enter(Entry::new()).unwrap();
    let _waits = tokio::spawn({
        let gate = gate.clone();
        async move { gate.enter(Entry::new()).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let service = StageLayer::new(gate.clone()).layer(health().await);
    let rejected = check(service, "shop").await.unwrap_err();
    assert_eq!(rejected.code(), Code::ResourceExhausted);
    assert!(rejected.message().starts_with("too busy"), "{rejected}");
    let pushback = rejected.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert!(pushback.to_str().unwrap().parse::<u32>().unwrap() >= 1000);
    assert_eq!(accounts(&gate).rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_is_unavailable() {
    let gate = gate(1);
    gate.close();
    let service = StageLayer::new(gate).layer(health().await);
    assert_eq!(check(service, "shop").await.unwrap_err().code(), Code::Unavailable);
}

/// Takes indefinitely, or answers with a status in its head.
#[derive(Clone)]
enum Bad {
    Endless,
    Failing,
    /// Is never ready.
    Busy,
}

impl Service<HttpRequest> for Bad {
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if matches!(self, Self::Busy) { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn call(&mut self, _: HttpRequest) -> Self::Future {
        match self {
            Self::Failing => Box::pin(async { Ok(Status::internal("broken").into_http()) }),
            Self::Endless | Self::Busy => Box::pin(pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_also_where_the_service_is_not_ready() {
    for bad in [Bad::Endless, Bad::Busy] {
        let gate = gate(1);
        let mut service = StageLayer::new(gate.clone()).layer(bad);
        let request = http::Request::post("http://localhost/any")
            .header("content-type", "application/grpc")
            .header("grpc-timeout", "2S")
            .body(Body::empty())
            .unwrap();
        std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
        let began = tokio::time::Instant::now();
        let answer = service.call(request).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "4");
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        assert_eq!(accounts(&gate).terminated, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_is_a_failure() {
    let gate = gate(1);
    let service = StageLayer::new(gate.clone()).layer(Bad::Failing);
    assert_eq!(check(service, "shop").await.unwrap_err().code(), Code::Internal);
    assert_eq!(accounts(&gate).failed, 1);
    let why = gate.observe().last_failure;
    assert_eq!(why.as_deref(), Some("answered with gRPC status 13"));
}
