//! What the access log says of requests to upstreams.

use std::fs;
use std::time::Duration;

use crate::support::{Recorder, curl, exchange, options, within};
use serde_json::Value;
use tamarisk_observe::access_log::{LogFormat, LogOptions, LogTarget};
use tamarisk_protect::{Options, Running};
use tamarisk_proxy::classify::{PathPrefix, Route, Routes};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A proxy that writes its access log to this file.
async fn logging(mut options: Options, format: LogFormat) -> (Running, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    options.log = Some(LogOptions { to: LogTarget::File(file.path().to_owned()), format });
    (tamarisk_protect::start(options).await.unwrap(), file)
}

/// The log of what `requests` come to, which are sent one after the other.
async fn log_of(options: Options, format: LogFormat, requests: &[&[&str]]) -> String {
    let (running, file) = logging(options, format).await;
    let url = format!("http://{}/a", running.local_addr());
    for arguments in requests {
        curl(&[*arguments, &[&url]].concat()).await;
    }
    exchange(running.local_addr(), "\x01\r\n\r\n").await;
    running.shutdown(Duration::from_secs(20)).await;
    fs::read_to_string(file.path()).unwrap()
}

#[tokio::test]
async fn a_line_says_how_a_request_was_admitted_and_what_became_of_it() {
    let upstream = Recorder::ok().await;
    let requests: [&[&str]; 3] = [
        &["-H", "X-Request-Id: mine-1"],
        // Nothing can be answered in no time.
        &["-H", "X-Request-Timeout: 0"],
        &["-X", "TRACE"],
    ];
    let log = log_of(options(upstream.address), LogFormat::Json, &requests).await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [answered, rejected, turned_away, malformed] = &lines[..] else { panic!("{log}") };
    for line in [answered, rejected, turned_away] {
        assert_eq!((&line["route"], &line["class"]), (&"/".into(), &"default".into()), "{log}");
        assert_eq!(line["stage"], "upstream");
    }
    assert_eq!((&answered["outcome"], &answered["reason"]), (&"completed".into(), &Value::Null));
    assert_eq!(answered["request_id"], "mine-1");
    let time = |line: &Value, name: &str| line[name].as_f64();
    assert!(time(answered, "queued_seconds").unwrap() < 5.0);
    let upstream = time(answered, "upstream_seconds").unwrap();
    assert!(upstream > 0.0 && upstream <= time(answered, "duration_seconds").unwrap(), "{log}");

    assert_eq!(rejected["status"], 503);
    let why = (&rejected["outcome"], &rejected["reason"]);
    assert_eq!(why, (&"rejected".into(), &"predicted_late".into()));
    assert_eq!(rejected["request_id"].as_str().unwrap().len(), 32);
    assert_eq!(rejected["upstream_seconds"], Value::Null);

    assert_eq!(turned_away["status"], 501);
    let why = (&turned_away["outcome"], &turned_away["reason"]);
    assert_eq!(why, (&Value::Null, &"method".into()));
    assert_eq!(malformed["rejected"], "malformed request line", "{log}");
}

#[tokio::test]
async fn a_request_that_no_route_takes_is_found_by_its_id() {
    let mut options = options(Recorder::ok().await.address);
    let elsewhere = Route { path: PathPrefix::new("/b"), ..Route::everything(0) };
    options.routes = Routes::new(vec![elsewhere]);
    let requests: [&[&str]; 1] = [&["-H", "X-Request-Id: mine-2"]];
    let log = log_of(options.clone(), LogFormat::Json, &requests).await;
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&line["status"], &line["request_id"]), (&404.into(), &"mine-2".into()), "{log}");
    assert_eq!((&line["outcome"], &line["reason"]), (&Value::Null, &"no_route".into()), "{log}");
    assert!(["route", "class", "stage"].iter().all(|key| line[*key].is_null()), "{log}");

    let log = log_of(options, LogFormat::Combined, &requests).await;
    let line = log.lines().next().unwrap();
    assert!(line.contains("\"GET /a HTTP/1.1\" 404 "), "{log}");
    let end = " route=- class=- stage=- outcome=- reason=no_route id=mine-2 queued=- upstream=-";
    assert!(line.ends_with(end), "{log}");
}

/// What there is in the end.
async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    within(async {
        loop {
            match look() {
                Some(seen) => return seen,
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_outcome_of_an_answer_whose_client_leaves_is_that_of_the_accounts() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options(upstream.local_addr().unwrap());
    let (running, file) = logging(options, LogFormat::Json).await;
    // Of a long answer there is less than counts as ready, or more.
    for (length, outcome) in [(10_000, "abandoned"), (200_000, "completed")] {
        let mut client = TcpStream::connect(running.local_addr()).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let (mut asked, _) = upstream.accept().await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
        let answer = [&head[..], &vec![b'a'; length]].concat();
        asked.write_all(&answer).await.unwrap();
        client.read_exact(&mut vec![0; length]).await.unwrap();
        drop(client);
        let line =
            until(|| fs::read_to_string(file.path()).unwrap().lines().last().map(str::to_owned));
        let line: Value = serde_json::from_str(&line.await).unwrap();
        assert_eq!(line["outcome"], outcome, "{line}");
        fs::write(file.path(), "").unwrap();
    }
    let total = || running.observe()[0].total();
    let accounts = until(|| Some(total()).filter(|accounts| accounts.inside() == 0)).await;
    assert_eq!((accounts.abandoned, accounts.completed), (1, 1));
}

#[tokio::test]
async fn an_upstream_that_stops_within_its_answer_has_failed_because_it_is_silent() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options(upstream.local_addr().unwrap());
    options.upstreams[0].stall_time = Duration::from_millis(200);
    let (running, file) = logging(options, LogFormat::Json).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = tokio::spawn(exchange(running.local_addr(), request));
    let (mut asked, _) = upstream.accept().await.unwrap();
    asked.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").await.unwrap();
    assert!(answer.await.unwrap().ends_with("\r\n\r\nabc"));
    let line = until(|| fs::read_to_string(file.path()).unwrap().lines().last().map(str::to_owned));
    let line: Value = serde_json::from_str(&line.await).unwrap();
    let why = (&line["outcome"], &line["reason"]);
    assert_eq!(why, (&"failed".into(), &"silent".into()), "{line}");
    let seen = &running.observe()[0];
    assert_eq!((seen.total().failed, seen.total().inside()), (1, 0));
    assert_eq!(seen.last_failure.as_deref(), Some("stopped within its answer"));
}

#[tokio::test]
async fn what_has_failed_in_the_log_has_failed_in_the_accounts() {
    let answers = [
        ("200 OK", "", "completed"),
        ("500 Internal Server Error", "", "failed"),
        // As it is where there are no messages, and so no trailers.
        ("200 OK", "Content-Type: application/grpc\r\ngrpc-status: 14\r\n", "failed"),
        ("200 OK", "Content-Type: application/grpc\r\ngrpc-status: 0\r\n", "completed"),
    ];
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options(upstream.local_addr().unwrap());
    let (running, file) = logging(options, LogFormat::Json).await;
    for (status, fields, _) in answers {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = tokio::spawn(exchange(running.local_addr(), request));
        let (mut asked, _) = upstream.accept().await.unwrap();
        let head =
            format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n");
        asked.write_all(head.as_bytes()).await.unwrap();
        assert!(answer.await.unwrap().contains(status));
    }
    let total = running.observe()[0].total();
    assert_eq!((total.completed, total.failed), (2, 2));
    running.shutdown(Duration::from_secs(20)).await;
    let log = fs::read_to_string(file.path()).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let outcomes: Vec<_> = lines.map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(outcomes, answers.map(|(_, _, outcome)| outcome), "{log}");
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_told_in_the_log_and_the_status() {
    let gone = Recorder::ok().await.address;
    // Nobody listens there any more.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options(gone);
    options.upstreams[0].origin = format!("http://{}", free.local_addr().unwrap()).parse().unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let running = tamarisk_protect::start(options.clone()).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(exchange(running.local_addr(), request).await.starts_with("HTTP/1.1 502"));
    let seen = &running.observe()[0];
    assert_eq!(seen.last_failure.as_deref(), Some(&*format!("cannot connect to {address}")));

    let log = log_of(options, LogFormat::Combined, &[&[]]).await;
    let line = log.lines().next().unwrap();
    let expected = "\" 502 ";
    assert!(line.contains(expected), "{log}");
    let expected = " route=/ class=default stage=upstream outcome=failed reason=unreachable id=";
    assert!(line.contains(expected), "{log}");
}
