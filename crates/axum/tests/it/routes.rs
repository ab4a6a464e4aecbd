//! Stages behind a router, asked as a server asks it and over a socket.

use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tamarisk_axum::{RequestEntry, Service, StageError, answers};
use tamarisk_stage::{Clock, Context, Entry, Graph, Stage, StageBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

fn described(name: &str) -> StageBuilder {
    Stage::builder(name).workers(1).clock(Clock::runtime())
}

async fn ask(router: &Router, path: &str, timeout: &str, body: &str) -> Response<Body> {
    let request = Request::post(path)
        .header("x-request-timeout", timeout)
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap();
    router.clone().oneshot(request).await.unwrap()
}

async fn text(answer: Response<Body>) -> String {
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Doubles; errs at 1 and never ends at 3.
async fn double(
    Json(number): Json<u32>,
    _: Context,
) -> Result<Json<u32>, tamarisk_stage::BoxError> {
    match number {
        1 => Err("the secret of the operator".into()),
        3 => std::future::pending().await,
        _ => Ok(Json(2 * number)),
    }
}

#[tokio::test(start_paused = true)]
async fn answers_errors_deadlines_and_malformed_bodies_have_their_statuses() {
    let stage = described("double").handler(double).unwrap();
    let router = Router::new().route("/", post(answers(&stage)));
    let answer = ask(&router, "/", "1s", "21").await;
    assert_eq!((answer.status(), text(answer).await), (StatusCode::OK, "42".to_owned()));

    let answer = ask(&router, "/", "1s", "1").await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!text(answer).await.contains("secret"));
    assert_eq!(stage.observe().last_failure.as_deref(), Some("the secret of the operator"));

    let began = tokio::time::Instant::now();
    assert_eq!(ask(&router, "/", "1s", "3").await.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(began.elapsed(), Duration::from_secs(1));

    assert_eq!(ask(&router, "/", "1s", "what?").await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(stage.observe().total().offered, 3, "the stage never saw the last one");
}

/// What a caller did wrong, or what broke.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum ItemError {
    #[error("there is no item {0}")]
    NotFound(u32),
    #[error("the database is down")]
    Database,
}

impl IntoResponse for ItemError {
    fn into_response(self) -> Response<Body> {
        let status = match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Database => StatusCode::BAD_GATEWAY,
        };
        (status, self.to_string()).into_response()
    }
}

fn find(number: u32) -> Result<u32, ItemError> {
    match number {
        1 => Err(ItemError::NotFound(1)),
        2 => Err(ItemError::Database),
        _ => Ok(number),
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_a_response_is_the_answer_through_several_stages() {
    let items = described("items")
        .expects(|error: &ItemError| matches!(error, ItemError::NotFound(_)))
        .handler(async |number: u32, _: Context| match number {
            3 => Err("of another type".into()),
            _ => Ok(find(number)?),
        })
        .unwrap();
    let front = described("front")
        .handler({
            let items = items.clone();
            async move |number: u32, cx: Context| Ok(cx.call(&items, number).await?)
        })
        .unwrap();
    let error = front.call(1).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&ItemError::NotFound(1)));

    let route = answers(&front).map(|Json(number)| number, Json).errors(ItemError::clone);
    let router = Router::new().route("/", post(route));
    for (number, status, said) in [
        ("1", 404, "there is no item 1"),
        ("2", 502, "the database is down"),
        ("3", 500, "the service failed"),
        ("4", 200, "4"),
    ] {
        let answer = ask(&router, "/", "1s", number).await;
        assert_eq!(answer.status(), status);
        assert!(text(answer).await.contains(said));
    }
    tokio::task::yield_now().await;
    for stage in [&items, &front] {
        let total = stage.observe().total();
        assert_eq!((total.completed, total.failed), (3, 2), "a 404 is a completed answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_in_the_second_stage_is_503_with_retry_after() {
    let back = described("back").queue_capacity(1).handler(double).unwrap();
    let front = described("front")
        .event_handler({
            let back = back.clone();
            async move |request: tamarisk_stage::Request<Json<u32>, Json<u32>>, cx: Context| {
                cx.forward(&back, request.body, request.reply);
                Ok(())
            }
        })
        .unwrap();
    let router = Router::new().route("/", post(answers(&front)));
    for _ in 0..2 {
        let router = router.clone();
        tokio::spawn(async move { ask(&router, "/", "9s", "3").await });
        // The first runs, the second waits, and fills the queue.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let answer = ask(&router, "/", "9s", "4").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers().contains_key("retry-after"));
    assert!(text(answer).await.contains(r#""error":"queue_full""#));
    assert_eq!(back.observe().total().rejected, 1);
    assert_eq!(front.observe().total().completed, 3);
}

#[tokio::test(start_paused = true)]
async fn requests_are_of_the_class_that_their_head_gives_them() {
    let stage = described("double").classes(["gold", "bronze"]).handler(double).unwrap();
    let gold = stage.class("gold").unwrap();
    let route = answers(&stage).classify(move |head| {
        let is_gold = head.uri.path() == "/gold";
        if is_gold { Entry::new().class(gold) } else { Entry::new() }
    });
    let router = Router::new().fallback(route);
    for path in ["/gold", "/gold", "/any"] {
        assert_eq!(ask(&router, path, "1s", "4").await.status(), StatusCode::OK);
    }
    tokio::task::yield_now().await;
    let completed = |name: &str| {
        let observed = stage.observe();
        observed.classes.iter().find(|class| class.name == name).unwrap().accounts.completed
    };
    assert_eq!((completed("gold"), completed("bronze")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_can_shorten_the_deadline_of_the_operator_and_not_extend_it() {
    let stage = described("double").handler(double).unwrap();
    let route = answers(&stage).classify(|_| Entry::new().timeout(Duration::from_secs(2)));
    let router = Router::new().route("/", post(route));
    for (asked, ended_after) in [("60s", 2), ("1s", 1)] {
        let began = tokio::time::Instant::now();
        assert_eq!(ask(&router, "/", asked, "3").await.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(began.elapsed(), Duration::from_secs(ended_after), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_axum_may_call_stages_itself() {
    let stage = described("double").handler(double).unwrap();
    let handler = async move |RequestEntry(entry): RequestEntry, body: Json<u32>| {
        Ok::<_, StageError>(stage.call_as(body, entry).await?)
    };
    let router = Router::new().route("/", post(handler));
    assert_eq!(text(ask(&router, "/", "1s", "4").await).await, "8");
    assert_eq!(ask(&router, "/", "1s", "3").await.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn a_service_serves_until_it_is_told_to_stop_and_drains() {
    let stage = described("double").handler(double).unwrap();
    let router = Router::new().route("/", post(answers(&stage)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = Service::new().stage(&stage);
    let serving = tokio::spawn(service.serve_until(listener, router, async {
        let _ = stopped.await;
    }));
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
        content-length: 2\r\nconnection: close\r\n\r\n21";
    client.write_all(request).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n42"), "{answer}");
    stop.send(()).unwrap();
    let reports = serving.await.unwrap().unwrap();
    assert!(reports.len() == 1 && reports[0].is_clean(), "{reports:?}");
    let rejected = stage.call(Json(4)).await.unwrap_err();
    assert!(rejected.rejection().is_some(), "{rejected}");
}

#[tokio::test]
async fn a_service_drains_and_profiles_the_stages_that_a_graph_has_by_then() {
    let graph = std::sync::Arc::new(Graph::new());
    let doubling = || async |Json(n): Json<u64>, _: Context| Ok(Json(2 * n));
    graph.add(&described("gone").handler(doubling()).unwrap()).unwrap();
    let service = Service::new().stage(&graph);
    #[cfg(feature = "status")]
    let file = std::env::temp_dir().join(format!("tamarisk-service-{}", std::process::id()));
    #[cfg(feature = "status")]
    let service = service.profile(&file);
    let late = described("late").handler(doubling()).unwrap();
    graph.add(&late).unwrap();
    graph.remove("gone", Duration::from_secs(1)).await.unwrap();
    assert_eq!(late.call(Json(4)).await.unwrap().0, 8);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    #[cfg(feature = "status")]
    let written = file.clone();
    let reports = service.serve_until(listener, Router::new(), async move {
        // The profiler's first line is written by a thread of its own.
        #[cfg(feature = "status")]
        while !std::fs::read_to_string(&written).is_ok_and(|text| text.contains('\n')) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let reports = reports.await.unwrap();
    let names: Vec<_> = reports.iter().map(|report| report.stage.as_str()).collect();
    assert_eq!(names, ["late"]);
    assert!(late.call(Json(4)).await.is_err(), "it is drained");
    #[cfg(feature = "status")]
    {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"late\"") && !text.contains("\"gone\""), "{text}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[cfg(feature = "status")]
#[tokio::test]
async fn the_status_port_says_whether_a_profile_is_written() {
    let stage = described("double").handler(double).unwrap();
    let file = std::env::temp_dir().join(format!("tamarisk-profile-{}", std::process::id()));
    // The port is free again when the service asks for it.
    let unused = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let status = unused();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = Service::new().stage(&stage).status(status.to_string()).profile(&file);
    let (said, says) = tokio::sync::oneshot::channel();
    let serving = service.serve_until(listener, Router::new(), async move {
        let mut client = tokio::net::TcpStream::connect(status).await.unwrap();
        let request =
            format!("GET /profile HTTP/1.1\r\nhost: {status}\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        said.send(answer).unwrap();
    });
    serving.await.unwrap();
    let answer = says.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"on\":true"), "{answer}");
    std::fs::remove_file(&file).unwrap();
}

#[cfg(feature = "status")]
#[tokio::test]
async fn the_status_port_is_unhealthy_as_soon_as_the_drain_starts() {
    use tokio::net::{TcpListener, TcpStream};

    let stage = described("double").handler(double).unwrap();
    let router = Router::new().route("/", post(answers(&stage)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let status = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, shown) = (listener.local_addr().unwrap(), status.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = Service::new().stage(&stage).status_on(status);
    let serving = tokio::spawn(service.serve_until(listener, router, async {
        let _ = stopped.await;
    }));
    let is_healthy = async || {
        let mut client = TcpStream::connect(shown).await.unwrap();
        let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer.starts_with("HTTP/1.1 200")
    };
    assert!(is_healthy().await);
    // A request that never ends keeps the drain going.
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
        content-length: 1\r\n\r\n3";
    client.write_all(head).await.unwrap();
    while stage.observe().total().running == 0 {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    // It has half of the time that the drain has.
    let turned = async { while is_healthy().await {} };
    tokio::time::timeout(Duration::from_secs(5), turned).await.unwrap();
    assert!(!serving.is_finished(), "it drains");
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn all_stages_together_have_ten_seconds_to_finish() {
    let stages: Vec<_> =
        ["one", "two", "three"].map(|name| described(name).handler(double).unwrap()).into();
    let mut service = Service::new();
    for stage in &stages {
        service = service.stage(stage);
        let stage = stage.clone();
        tokio::spawn(async move { stage.call(Json(3)).await });
    }
    tokio::task::yield_now().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let began = tokio::time::Instant::now();
    let reports =
        service.serve_until(listener, Router::new(), std::future::ready(())).await.unwrap();
    assert_eq!(reports.len(), 3);
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
    // One after another they would have thirty.
    assert!(began.elapsed() <= Duration::from_secs(20), "{:?}", began.elapsed());
}
