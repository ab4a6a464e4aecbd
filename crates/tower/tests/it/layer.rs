//! Ordinary tower services behind a gate.
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use http::{Extensions, Request, Response, StatusCode};
use http_body_util::BodyExt;
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Class, ClassId, Classes, Decision, Priority, Reason, Rejection,
    Target, Timestamp,
};
use tamarisk_stage::{Clock, Entry, Gate, StageBuilder};
use tamarisk_tower::{ClientAddress, StageLayer};
use tonic::transport::server::TcpConnectInfo;
use tower::{Layer, Service, ServiceExt};

fn gate() -> Gate {
    StageBuilder::new("test").workers(8).clock(Clock::runtime()).gate().unwrap()
}

async fn ask<S, B>(service: &mut S, path: &str) -> Response<B>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
{
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    service.call(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
}

/// Says no to everyone, for a while.
struct Never;

impl AdmissionLaw for Never {
    fn name(&self) -> &'static str {
        "never"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        let rejection = Rejection::new(Reason::PredictedLate);
        Decision::Reject(rejection.retry_after(Duration::from_millis(2500)))
    }
}

/// Tells of the client of each request, 0 if it is not known.
struct Flows(mpsc::Sender<u64>);

impl AdmissionLaw for Flows {
    fn name(&self) -> &'static str {
        "flows"
    }

    fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        self.0.send(arrival.flow).unwrap();
        Decision::Admit
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_one_of_its_clients_as_far_as_the_server_tells() {
    let (sender, flows) = mpsc::channel();
    let gate = StageBuilder::new("test").workers(8).law(Flows(sender)).gate().unwrap();
    let stated = Entry::new().flow("an account");
    let layer = StageLayer::new(gate).trusted_proxies(|peer| peer.is_loopback());
    let layer = layer.classify(
        move |head| {
            if head.uri.path() == "/account" { stated } else { Entry::new() }
        },
    );
    let mut service = layer.layer(Router::new().fallback(|| async { "hello" }));
    let mut flow_of = async |path: &str, extension: Extensions, forwarded: &str| {
        let mut request = Request::get(path).header("x-forwarded-for", forwarded);
        *request.extensions_mut().unwrap() = extension;
        let request = request.body(Body::empty()).unwrap();
        let _ = service.call(request).await.unwrap();
        flows.recv().unwrap()
    };
    let axum = |peer: &str| {
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
        extensions
    };
    let tonic = |peer: &str| {
        let remote_addr = Some(peer.parse().unwrap());
        let mut extensions = Extensions::new();
        extensions.insert(TcpConnectInfo { local_addr: None, remote_addr });
        extensions
    };
    let own = |client: &str| {
        let mut extensions = axum("192.0.2.9:9");
        extensions.insert(ClientAddress(client.parse().unwrap()));
        extensions
    };
    let one = flow_of("/", axum("192.0.2.1:1"), "").await;
    assert_ne!(one, 0);
    assert_eq!(flow_of("/", axum("192.0.2.1:2"), "192.0.2.2").await, one, "not a trusted proxy");
    assert_eq!(flow_of("/", axum("127.0.0.1:2"), "192.0.2.2, 192.0.2.1").await, one);
    assert_eq!(flow_of("/", tonic("192.0.2.1:1"), "").await, one);
    assert_eq!(flow_of("/", own("192.0.2.1"), "").await, one);
    assert_ne!(flow_of("/", axum("192.0.2.2:1"), "").await, one);
    let network = flow_of("/", axum("[2001:db8::1]:1"), "").await;
    assert_eq!(flow_of("/", axum("[2001:db8::2]:1"), "").await, network, "one customer");
    assert_eq!(flow_of("/", Extensions::new(), "").await, 0);
    let account = flow_of("/account", axum("192.0.2.1:1"), "").await;
    assert_eq!(flow_of("/account", axum("192.0.2.2:1"), "").await, account, "as stated");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_inside_until_its_answer_has_been_read() {
    let gate = gate();
    let router = Router::new().route("/", get(|| async { "hello" }));
    let mut service = StageLayer::new(gate.clone()).layer(router);
    let answer = ask(&mut service, "/").await;
    assert_eq!(gate.observe().total().running, 1);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    let accounts = gate.observe().total();
    assert_eq!((accounts.completed, accounts.inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_is_complete_without_its_body() {
    let gate = gate();
    let router = Router::new().route("/", get(|| async { "hello" }));
    // As a server sees it: it has a router around the layer, or drops the body itself.
    let router = router.layer(StageLayer::new(gate.clone()));
    let request = Request::head("/").body(Body::empty()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    drop(answer);
    let accounts = gate.observe().total();
    assert_eq!((accounts.completed, accounts.inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_is_abandoned() {
    let gate = gate();
    let router = Router::new().route("/", get(|| async { "hello" }));
    let mut service = StageLayer::new(gate.clone()).layer(router);
    drop(ask(&mut service, "/").await);
    let accounts = gate.observe().total();
    assert_eq!((accounts.abandoned, accounts.inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_503_and_says_when_to_come_again() {
    let gate = StageBuilder::new("test").law(Never).gate().unwrap();
    let unreachable = Router::new().route("/", get(|| async { unreachable!() as &'static str }));
    let mut service = StageLayer::new(gate).layer(unreachable);
    let answer = ask(&mut service, "/").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["retry-after"], "3");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"503: too busy"), "{body:?}");
}

#[tokio::test(start_paused = true)]
async fn errors_by_status_are_failures() {
    let gate = gate();
    let router = Router::new()
        .route("/500", get(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
        .route("/429", get(|| async { StatusCode::TOO_MANY_REQUESTS }))
        .route("/404", get(|| async { StatusCode::NOT_FOUND }));
    let mut service = StageLayer::new(gate.clone()).layer(router);
    for path in ["/500", "/429", "/404"] {
        ask(&mut service, path).await.into_body().collect().await.unwrap();
    }
    let accounts = gate.observe().total();
    assert_eq!((accounts.failed, accounts.completed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_work() {
    let gate = gate();
    let slow = Router::new().route("/", get(std::future::pending::<()>));
    let layer = StageLayer::new(gate.clone());
    let mut service = layer.classify(|_| Entry::new().timeout(Duration::from_secs(2))).layer(slow);
    let answer = ask(&mut service, "/").await;
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(gate.observe().total().terminated, 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_can_shorten_the_deadline_of_the_operator_and_not_extend_it() {
    let slow = Router::new().route("/", get(std::future::pending::<()>));
    let layer = StageLayer::new(gate());
    let mut service = layer.classify(|_| Entry::new().timeout(Duration::from_secs(2))).layer(slow);
    for (name, asked, ended_after) in [
        ("x-request-timeout", "60s", 2),
        ("x-request-timeout", "1s", 1),
        ("grpc-timeout", "60S", 2),
        ("grpc-timeout", "1S", 1),
    ] {
        let began = tokio::time::Instant::now();
        let request = Request::get("/").header(name, asked).body(Body::empty()).unwrap();
        let answer = service.call(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(began.elapsed(), Duration::from_secs(ended_after), "{name}: {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_enters_as_the_class_that_its_head_gives_it() {
    let target = Target::p90(Duration::from_secs(1)).unwrap();
    let class =
        |name: &str, priority| Class { name: name.into(), target, priority: Priority(priority) };
    let classes = Classes::new(vec![class("all", 1), class("paid", 0)]).unwrap();
    let gate = StageBuilder::new("test").workers(8).classes(classes).gate().unwrap();
    let router = Router::new().fallback(get(|| async { "hello" }));
    let by_path = |head: &http::request::Parts| {
        Entry::new().class(ClassId::new(usize::from(head.uri.path().starts_with("/paid"))))
    };
    let mut service = StageLayer::new(gate.clone()).classify(by_path).layer(router);
    for path in ["/", "/paid", "/paid/x"] {
        ask(&mut service, path).await.into_body().collect().await.unwrap();
    }
    let completed: Vec<_> =
        gate.observe().classes.iter().map(|class| class.accounts.completed).collect();
    assert_eq!(completed, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_leaves_the_gate_after_a_while_and_a_long_body_after_64_kib() {
    let gate = gate();
    let router = Router::new()
        .route(
            "/stream",
            get(|| async {
                Body::from_stream(
                    futures_util::stream::pending::<Result<&'static str, Infallible>>(),
                )
            }),
        )
        .route(
            "/long",
            get(|| async {
                let part =
                    futures_util::stream::once(async { Ok::<_, Infallible>(vec![0; 65_537]) });
                let silence = futures_util::stream::pending();
                Body::from_stream(futures_util::StreamExt::chain(part, silence))
            }),
        );
    let mut service = StageLayer::new(gate.clone()).layer(router);
    let mut stream = ask(&mut service, "/stream").await.into_body();
    let mut long = ask(&mut service, "/long").await.into_body();
    assert_eq!(long.frame().await.unwrap().unwrap().into_data().unwrap().len(), 65_537);
    assert_eq!((gate.observe().total().completed, gate.observe().total().running), (1, 1));
    let six_seconds = tokio::time::timeout(Duration::from_secs(6), stream.frame());
    assert!(six_seconds.await.is_err());
    assert_eq!((gate.observe().total().completed, gate.observe().total().running), (2, 0));
}
