//! Overflow: what a stage rejects goes to another service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Recorder, any_port, axum, curl, exchange, read_until, within};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::routing::any;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tamarisk_observe::access_log::{LogFormat, LogOptions, LogTarget};
use tamarisk_protect::{Options, Running, config};
use tamarisk_stage::Accounts;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A service that answers as often as it is told to.
struct Held {
    address: SocketAddr,
    answers: Arc<Semaphore>,
}

impl Held {
    async fn start() -> Self {
        let answers = Arc::new(Semaphore::new(0));
        let told = Arc::clone(&answers);
        let held = Router::new().fallback(any(async move || {
            told.acquire().await.unwrap().forget();
            "app."
        }));
        Self { address: axum(held).await, answers }
    }
}

/// A service that says what came.
async fn measuring() -> SocketAddr {
    let measure = async |request: Request| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        format!("overflow: {method} {path}, {} bytes, sum {sum}.", body.len())
    };
    axum(Router::new().fallback(any(measure))).await
}

/// Options for a service that is sent one request at a time, and `lines` about it besides.
fn options(app: SocketAddr, lines: &str) -> Options {
    let text = format!(
        "listen = \"127.0.0.1:0\"\nstatus = \"127.0.0.1:0\"\ncores = 1\np90 = \"20s\"\n\
         [upstreams.app]\nurl = \"http://{app}\"\nworkers = 1\n\
         admission = {{ law = \"threshold\", queued_count = 0 }}\n{lines}\n"
    );
    config::parse("protect.toml", &text).unwrap()
}

fn to(overflow: SocketAddr) -> String {
    format!("overflow = \"http://{overflow}\"")
}

/// Protection of a service whose only place is taken until it is told to answer.
struct Overloaded {
    running: Running,
    app: Held,
    inside: TcpStream,
}

impl Overloaded {
    async fn start(lines: &str) -> Self {
        Self::with(lines, |_| {}).await
    }

    async fn with(lines: &str, change: impl FnOnce(&mut Options)) -> Self {
        let app = Held::start().await;
        let mut options = options(app.address, lines);
        change(&mut options);
        Self::of(tamarisk_protect::start(options).await.unwrap(), app).await
    }

    async fn of(running: Running, app: Held) -> Self {
        let mut inside = TcpStream::connect(running.local_addr()).await.unwrap();
        inside.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(&running, 0, |accounts| accounts.running == 1).await;
        Self { running, app, inside }
    }

    async fn get(&self, path: &str) -> String {
        exchange(self.running.local_addr(), get(path)).await
    }

    /// The accounts of the stage and of its overflow, if there is one.
    fn accounts(&self) -> Vec<Accounts> {
        let accounts: Vec<_> =
            self.running.gates().iter().map(|gate| gate.observe().total()).collect();
        assert!(accounts.iter().all(Accounts::balance), "{accounts:?}");
        accounts
    }

    /// The request that took the place is answered as if nothing had been.
    async fn end(mut self) {
        self.app.answers.add_permits(1);
        read_until(&mut self.inside, "app.").await;
        let accounts = self.accounts();
        assert_eq!((accounts[0].completed, accounts[0].inside()), (1, 0), "{accounts:?}");
        drop(self.inside);
        self.running.shutdown(Duration::from_secs(5)).await;
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
}

async fn until(running: &Running, gate: usize, holds: impl Fn(&Accounts) -> bool) {
    within(async {
        while !holds(&running.gates()[gate].observe().total()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn assert_rejected(answer: &str) {
    let head = answer.to_lowercase();
    assert!(head.starts_with("http/1.1 503 "), "{answer}");
    assert!(
        head.contains("\r\nretry-after: 1\r\n")
            && head.contains("too busy; try again in 1 s (queue_full, "),
        "{answer}"
    );
}

#[tokio::test]
async fn what_the_stage_rejects_the_overflow_answers() {
    let overflow = Recorder::ok().await;
    let overloaded = Overloaded::start(&to(overflow.address)).await;
    let answer = overloaded.get("/a?b=c").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok"), "{answer}");
    let heard = overflow.heard().await;
    assert!(heard.starts_with("GET /a?b=c HTTP/1.1\r\nhost: shop.example\r\n"), "{heard}");
    // The rules for fields are those of any upstream.
    for line in
        ["x-forwarded-for: 127.0.0.1", "via: 1.1 tamarisk", "x-request-id: ", "x-overflow: 1"]
    {
        assert!(heard.contains(&format!("\r\n{line}")), "{line}: {heard}");
    }
    assert!(!heard.contains("connection: close"), "{heard}");
    let [app, other] = overloaded.accounts()[..] else { panic!("there are two stages") };
    assert_eq!((app.offered, app.rejected, app.running), (2, 1, 1), "{app:?}");
    assert_eq!((other.offered, other.completed), (1, 1), "{other:?}");
    overloaded.end().await;
}

#[tokio::test]
async fn an_overflow_that_is_down_leaves_the_ordinary_rejection() {
    let closed = TcpListener::bind(any_port()).await.unwrap().local_addr().unwrap();
    let overloaded = Overloaded::start(&to(closed)).await;
    assert_rejected(&overloaded.get("/").await);
    let accounts = overloaded.accounts();
    assert_eq!((accounts[0].rejected, accounts[1].failed), (1, 1), "{accounts:?}");
    overloaded.end().await;
}

#[tokio::test]
async fn an_overflow_that_is_slow_holds_few_and_those_not_for_long() {
    let slow = Recorder::start("never", "").await;
    let lines = format!(
        "overflow = {{ url = \"http://{}\", limit = 2, answer_time = \"1s\" }}",
        slow.address
    );
    let overloaded = Overloaded::start(&lines).await;
    let address = overloaded.running.local_addr();
    let waiting = [(); 2].map(|()| tokio::spawn(exchange(address, get("/"))));
    until(&overloaded.running, 1, |accounts| accounts.running == 2).await;
    let start = Instant::now();
    for _ in 0..20 {
        assert_rejected(&overloaded.get("/").await);
    }
    // All of them before the first of those two: nobody waits for a place.
    assert_eq!(overloaded.accounts()[1].running, 2, "after {:?}", start.elapsed());
    for answer in waiting {
        assert_rejected(&within(answer).await.unwrap());
    }
    let accounts = overloaded.accounts();
    assert_eq!(slow.connections.load(std::sync::atomic::Ordering::SeqCst), 2);
    assert_eq!((accounts[1].rejected, accounts[1].failed), (20, 2), "{accounts:?}");
    assert_eq!((accounts[0].rejected, accounts[1].inside()), (22, 0), "{accounts:?}");
    overloaded.end().await;
}

/// A body that does not stay in memory, and what the overflow says of it.
fn long() -> (Vec<u8>, String) {
    let body: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    let answer = format!("overflow: POST /form, {} bytes, sum {sum}.", body.len());
    (body, answer)
}

#[tokio::test]
async fn bodies_arrive_whole_buffered_or_as_they_come_over_either_version() {
    let (body, expected) = long();
    for buffering in ["memory-and-file", "off"] {
        let lines = format!("request_buffering = \"{buffering}\"\n{}", to(measuring().await));
        let overloaded = Overloaded::start(&lines).await;
        let address = overloaded.running.local_addr();
        let head = |length: &str| {
            let asked = "POST /form HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
            format!("{asked}{length}\r\n\r\n").into_bytes()
        };
        let known = [head(&format!("Content-Length: {}", body.len())), body.clone()].concat();
        let size = format!("{:x}\r\n", body.len()).into_bytes();
        let chunks = [head("Transfer-Encoding: chunked"), size, body.clone()].concat();
        for request in [known, [chunks, b"\r\n0\r\n\r\n".to_vec()].concat()] {
            let answer = exchange(address, request).await;
            assert!(answer.ends_with(&expected), "{buffering}: {answer}");
        }
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (client, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let posts = (0..8).map(|_| {
            let (mut client, body) = (client.clone(), Full::new(Bytes::from(body.clone())));
            async move {
                let request = http::Request::post("http://a/form").body(body).unwrap();
                let answer = client.send_request(request).await.unwrap();
                answer.into_body().collect().await.unwrap().to_bytes()
            }
        });
        for answer in within(futures_util::future::join_all(posts)).await {
            assert_eq!(answer, expected, "{buffering}");
        }
        assert_eq!(overloaded.accounts()[1].completed, 10, "{buffering}");
        drop(client);
        overloaded.end().await;
    }
}

#[tokio::test]
async fn an_overflow_without_an_address_is_no_mistake() {
    let overloaded = Overloaded::start("overflow = \"http://no-such-host.invalid\"").await;
    assert_rejected(&overloaded.get("/").await);
    overloaded.end().await;
}

#[tokio::test]
async fn who_breaks_off_may_have_done_what_must_not_be_done_again() {
    let breaking = TcpListener::bind(any_port()).await.unwrap();
    let overflow = breaking.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = breaking.accept().await {
            read_until(&mut connection, "\r\n\r\n").await;
        }
    });
    for buffering in ["memory-and-file", "off"] {
        let lines = format!("request_buffering = \"{buffering}\"\n{}", to(overflow));
        let overloaded = Overloaded::start(&lines).await;
        let address = overloaded.running.local_addr();
        let head = "/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
        assert_rejected(&exchange(address, format!("PUT {head}hello")).await);
        let answer = exchange(address, format!("POST {head}hello")).await.to_lowercase();
        assert!(answer.starts_with("http/1.1 502 "), "{buffering}: {answer}");
        assert!(!answer.contains("retry-after"), "{buffering}: {answer}");
        assert_eq!(overloaded.accounts()[1].failed, 2, "{buffering}");
        overloaded.end().await;
    }
}

#[tokio::test]
async fn who_sends_its_body_slowly_keeps_its_place_for_as_long_as_an_answer_may_take() {
    let slow = Recorder::start("never", "").await;
    let lines = format!(
        "request_buffering = \"off\"\n\
         overflow = {{ url = \"http://{}\", limit = 1, answer_time = \"1s\" }}",
        slow.address
    );
    let overloaded = Overloaded::start(&lines).await;
    let address = overloaded.running.local_addr();
    let half = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nConnection: close\r\n\r\nhalf";
    let sending = tokio::spawn(exchange(address, half));
    until(&overloaded.running, 1, |accounts| accounts.running == 1).await;
    assert_rejected(&overloaded.get("/").await);
    let answer = within(sending).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let accounts = overloaded.accounts();
    assert_eq!((accounts[1].rejected, accounts[1].failed), (1, 1), "{accounts:?}");
    overloaded.end().await;
}

#[tokio::test]
async fn a_client_with_a_malformed_body_is_told_so() {
    let lines = format!("request_buffering = \"off\"\n{}", to(measuring().await));
    let overloaded = Overloaded::start(&lines).await;
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n";
    let answer = exchange(overloaded.running.local_addr(), request).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(overloaded.accounts()[1].terminated, 1);
    overloaded.end().await;
}

#[tokio::test]
async fn what_is_rejected_because_this_proxy_is_short_of_something_is_not_sent_on() {
    // No process uses less of the memory.
    let lines = format!("resources = {{ memory = 0.000001 }}\n{}", to(measuring().await));
    let overloaded = Overloaded::start(&lines).await;
    // Until it has been read the stage has no place only, and the overflow answers.
    within(async { while !overloaded.get("/").await.contains("a resource is scarce") {} }).await;
    let before = overloaded.accounts()[1].offered;
    for _ in 0..5 {
        assert!(overloaded.get("/").await.contains("a resource is scarce"));
    }
    assert_eq!(overloaded.accounts()[1].offered, before);
    overloaded.end().await;
}

#[tokio::test]
async fn two_that_overflow_into_each_other_send_a_request_on_once() {
    let [one, two] = [Held::start().await, Held::start().await];
    // The first is told where the second is, and that by a reload where the first is.
    let second = tamarisk_protect::start(options(two.address, "")).await.unwrap();
    let first = options(one.address, &to(second.local_addr()));
    let first = tamarisk_protect::start(first).await.unwrap();
    let mut second = second;
    let reloaded = second.reload(&options(two.address, &to(first.local_addr())));
    assert_eq!(reloaded.changed, [r#"the overflow of "app""#]);
    let first = Overloaded::of(first, one).await;
    let second = Overloaded::of(second, two).await;
    assert_rejected(&first.get("/").await);
    let [at_first, at_second] = [first.accounts(), second.accounts()];
    // Its own place, and one request; the second has none to send back.
    assert_eq!((at_first[0].offered, at_first[1].failed), (2, 1), "{at_first:?}");
    assert_eq!((at_second[0].offered, at_second[0].rejected), (2, 1), "{at_second:?}");
    assert_eq!(at_second[1].offered, 0, "{at_second:?}");
    first.end().await;
    second.end().await;
}

#[tokio::test]
async fn a_request_without_time_left_is_not_sent_on() {
    let overflow = Recorder::ok().await;
    let overloaded = Overloaded::start(&to(overflow.address)).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout: 0\r\nConnection: close\r\n\r\n";
    let answer = exchange(overloaded.running.local_addr(), request).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(overflow.heard().await, "");
    overloaded.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_back() {
    let slow = Recorder::start("never", "").await;
    let lines =
        format!("overflow = {{ url = \"http://{}\", answer_time = \"300ms\" }}", slow.address);
    let overloaded = Overloaded::start(&lines).await;
    let mut client = TcpStream::connect(overloaded.running.local_addr()).await.unwrap();
    client.write_all(get("/").as_bytes()).await.unwrap();
    until(&overloaded.running, 1, |accounts| accounts.running == 1).await;
    drop(client);
    until(&overloaded.running, 1, |accounts| accounts.abandoned == 1).await;
    overloaded.end().await;
}

#[tokio::test]
async fn a_reload_sets_changes_and_removes_it_and_nothing_is_lost() {
    let [one, two] = [Recorder::ok().await, Recorder::ok().await];
    let mut overloaded = Overloaded::start("").await;
    assert_rejected(&overloaded.get("/").await);
    let app = overloaded.app.address;
    let set = |lines: &str, running: &mut Running| {
        let changed = running.reload(&options(app, lines)).changed;
        assert_eq!(changed, [r#"the overflow of "app""#]);
    };
    set(&to(one.address), &mut overloaded.running);
    assert!(overloaded.get("/1").await.ends_with("ok"));
    let url = format!("http://{}/status", overloaded.running.status_addr().unwrap());
    let status: Value = serde_json::from_str(&curl(&[&url]).await).unwrap();
    assert_eq!(status["stages"][1]["name"], "app overflow", "the page shows it at once");
    set(&to(two.address), &mut overloaded.running);
    assert!(overloaded.get("/2").await.ends_with("ok"));
    assert!(two.heard().await.starts_with("GET /2 ") && !one.heard().await.contains("GET /2 "));
    assert_eq!(overloaded.accounts()[1].completed, 2, "its accounts go on");
    let narrow = format!("overflow = {{ url = \"http://{}\", limit = 1 }}", two.address);
    set(&narrow, &mut overloaded.running);
    assert_eq!(overloaded.running.gates()[1].observe().workers, 1);
    set("", &mut overloaded.running);
    assert_rejected(&overloaded.get("/").await);
    assert_eq!(overloaded.accounts().len(), 1);
    let same = overloaded.running.reload(&options(app, ""));
    assert_eq!(same, tamarisk_service::Reloaded::default());
    // Until the next start the service is where the file has its overflow.
    let moved = overloaded.running.reload(&options(two.address, &to(app)));
    let expected = format!(
        "the overflow of \"app\" is http://{app}, the service itself; give the URL of another service"
    );
    assert_eq!(moved.needs_restart, [r#"url of "app""#, &expected]);
    overloaded.end().await;
}

#[tokio::test]
async fn it_is_counted_apart_and_the_log_says_which_requests_it_took() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let overloaded = Overloaded::with(&to(measuring().await), |options| {
        let to = LogTarget::File(file.path().to_owned());
        options.log = Some(LogOptions { to, format: LogFormat::Json });
    })
    .await;
    assert!(overloaded.get("/elsewhere").await.contains("overflow: GET /elsewhere"));
    let url = format!("http://{}", overloaded.running.status_addr().unwrap());
    let status: Value = serde_json::from_str(&curl(&[&format!("{url}/status")]).await).unwrap();
    assert_eq!(status["stages"][0]["total"]["rejected"], 1, "{status}");
    assert_eq!(status["stages"][1]["total"]["completed"], 1, "{status}");
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    for line in [
        "tamarisk_outcomes_total{stage=\"app\",class=\"default\",outcome=\"rejected\"} 1\n",
        "tamarisk_outcomes_total{stage=\"app overflow\",class=\"default\",outcome=\"completed\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // The overflow's arrivals come from the stage that rejected them.
    let graph = curl(&[&format!("{url}/graph.dot")]).await;
    assert!(graph.contains("0 -> 1 ") && !graph.contains("2 -> 1 "), "{graph}");
    let rejections = curl(&[&format!("{url}/rejections")]).await;
    assert!(rejections.contains("queue_full"), "{rejections}");
    overloaded.end().await;
    let log = std::fs::read_to_string(file.path()).unwrap();
    let line = log.lines().find(|line| line.contains("/elsewhere")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["stage"], &line["status"]), (&"app".into(), &200.into()), "{line}");
    let outcome = (&line["outcome"], &line["reason"]);
    assert_eq!(outcome, (&"overflowed".into(), &"queue_full".into()), "{line}");
    assert!(line["upstream_seconds"].as_f64().unwrap() > 0.0, "{line}");
}

#[tokio::test]
async fn requests_of_a_low_priority_overflow_first() {
    let app = axum(Router::new().fallback(any(async || {
        tokio::time::sleep(Duration::from_millis(20)).await;
        "app."
    })));
    let text = format!(
        "listen = \"127.0.0.1:0\"\ncores = 1\np90 = \"200ms\"\n\
         [upstreams.app]\nurl = \"http://{}\"\nadmission = \"predict-gate-trim\"\nworkers = 2\n{}\n\
         [classes.gold]\nany = [{{ path = \"/gold\" }}]\npriority = 0\n",
        app.await,
        to(measuring().await)
    );
    let options = config::parse("protect.toml", &text).unwrap();
    let running = tamarisk_protect::start(options).await.unwrap();
    let address = running.local_addr();
    // One in ten is of high priority: far fewer than the service can take.
    let clients = (0..40).map(|client| async move {
        let mut answered = (0_u32, 0_u32);
        let path = if client % 10 == 0 { "/gold" } else { "/" };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            let answer = exchange(address, get(path)).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            match answer.ends_with("app.") {
                true => answered.0 += 1,
                false => answered.1 += 1,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        (path, answered)
    });
    let seen = futures_util::future::join_all(clients).await;
    let sum = |of: &str| {
        let of = seen.iter().filter(|(path, _)| *path == of);
        of.fold((0, 0), |(app, other), (_, (a, o))| (app + a, other + o))
    };
    let (gold, rest) = (sum("/gold"), sum("/"));
    assert!(gold.0 > 9 * gold.1 && gold.0 > 50, "gold: {gold:?}, the rest: {rest:?}");
    assert!(rest.1 > rest.0, "the rest: {rest:?}");
    let accounts: Vec<_> = running.gates().iter().map(|gate| gate.observe().total()).collect();
    assert!(accounts.iter().all(Accounts::balance), "{accounts:?}");
    assert_eq!(accounts[1].completed, u64::from(gold.1 + rest.1));
    running.shutdown(Duration::from_secs(5)).await;
}
