//! What the status port shows.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use support::{Recorder, any_port, curl, exchange, options, within};
use tamarisk_http::guard::Limits;
use tamarisk_http::protect::{self, Running};
use tamarisk_http::proxy::RequestBuffering;
use tamarisk_http::server::DrainTrigger;
use tamarisk_http::status::{self, Board};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn shown() -> (Running, String) {
    let mut options = options(Recorder::ok().await.address);
    options.status = Some(any_port());
    // A request without its body is under way.
    options.upstreams[0].request_buffering = RequestBuffering::Off;
    let running = protect::start(options).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for _ in 0..3 {
        assert!(exchange(running.local_addr(), request).await.ends_with("ok"));
    }
    let url = format!("http://{}", running.status_addr().unwrap());
    (running, url)
}

#[tokio::test]
async fn json_tells_every_stages_accounts_times_and_knobs() {
    let (_running, url) = shown().await;
    let status: Value = serde_json::from_str(&curl(&[&format!("{url}/status")]).await).unwrap();
    assert_eq!(status["connections"], 0);
    let stage = &status["stages"][0];
    assert_eq!((&stage["name"], &stage["runs"]), (&"upstream".into(), &"gate".into()));
    assert_eq!(stage["phase"], "open");
    assert_eq!(stage["total"]["offered"], 3);
    let class = &stage["classes"][0];
    assert_eq!(class["name"], "default");
    assert_eq!(class["target"], serde_json::json!({ "percentile_ratio": 0.9, "seconds": 10.0 }));
    assert_eq!(class["accounts"]["completed"], 3);
    assert_eq!(class["response"]["count"], 3);
    assert!(class["response"]["p90_seconds"].as_f64().unwrap() < 10.0);
    assert_eq!(stage["law"]["name"], "work-limit");
    assert!(!stage["law"]["readings"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn prometheus_finds_every_family_described_once_and_every_sample_in_one() {
    let (_running, url) = shown().await;
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    assert!(metrics.contains(
        "tamarisk_outcomes_total{stage=\"upstream\",class=\"default\",outcome=\"completed\"} 3\n"
    ));
    let mut families = BTreeSet::new();
    let mut current = "";
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(families.insert(name), "{name} twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            current = name;
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next().unwrap(), current);
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(families.len() > 10);
}

#[tokio::test]
async fn the_page_brings_all_it_needs() {
    let (_running, url) = shown().await;
    let answer = curl(&["-i", &url]).await;
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(!page.contains("http://") || page.matches("http://www.w3.org/2000/svg").count() == 1);
    assert!(!page.contains("https://") && !page.contains("src="));
    assert_eq!(curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("{url}/no")]).await, "404");
    let posted = curl(&["-d", "", "-o", "/dev/null", "-w", "%{http_code}", &url]).await;
    assert_eq!(posted, "405");
}

#[tokio::test]
async fn health_turns_bad_when_the_drain_starts() {
    let (running, url) = shown().await;
    assert_eq!(curl(&[&format!("{url}/health")]).await, "ok\n");
    // A request in flight keeps the drain going.
    let mut client = tokio::net::TcpStream::connect(running.local_addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut client, head.as_bytes()).await.unwrap();
    support::read_until(&mut client, "ok").await;
    let shutdown = tokio::spawn(running.shutdown(support::PATIENCE));
    let draining = async {
        while curl(&[&format!("{url}/health")]).await != "draining\n" {
            tokio::task::yield_now().await;
        }
    };
    within(draining).await;
    drop(client);
    assert_eq!(within(shutdown).await.unwrap().connections, 0);
}

#[tokio::test]
async fn what_else_is_counted_is_shown_under_its_name() {
    let board = Board::new().counter("log_lines_lost", "Lines that were not written.", || 7);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_open, drain) = DrainTrigger::new();
    let board = Arc::new(board);
    tokio::spawn(status::serve(move || Arc::clone(&board), listener, drain));
    let status: Value = serde_json::from_str(&curl(&[&format!("{url}/status")]).await).unwrap();
    assert_eq!(status["counters"]["log_lines_lost"], 7);
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    assert!(metrics.contains("\ntamarisk_log_lines_lost_total 7\n"), "{metrics}");
}

#[tokio::test]
async fn the_status_answers_to_no_host_name_of_others() {
    let board = Arc::new(Board::new().host("status.example"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_open, drain) = DrainTrigger::new();
    tokio::spawn(status::serve(move || Arc::clone(&board), listener, drain));
    for path in ["/", "/status", "/metrics", "/targets", "/health"] {
        let status = async |host: &str| {
            let request =
                format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = support::exchange(address, request).await;
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(status("evil.example").await, "421", "{path}");
        assert_eq!(status("localhost.evil.example:9090").await, "421", "{path}");
        for host in ["127.0.0.1", "[::1]:9090", "localhost:9090", "status.example"] {
            assert_eq!(status(host).await, "200", "{path} of {host}");
        }
    }
}

#[tokio::test]
async fn who_is_refused_before_there_is_a_request_is_counted() {
    let mut options = options(SocketAddr::from(([127, 0, 0, 1], 9)));
    let limits = Limits::default().head(300).head_time(Duration::from_millis(100));
    options.server = options.server.limits(limits).connections_max(1);
    options.status = Some(any_port());
    let running = protect::start(options).await.unwrap();
    let told = async |sent: &str| {
        let mut client = TcpStream::connect(running.local_addr()).await.unwrap();
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(client.read_to_string(&mut answer)).await.unwrap();
        // Its place is free as soon as the server has seen the end.
        drop(client);
        while running.connections() > 0 {
            tokio::task::yield_now().await;
        }
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(told("GET / HTTP/1.1\r\n\r\n").await, "400");
    assert_eq!(told("GET / HTTP/3.0\r\nhost: a\r\n\r\n").await, "505");
    let long = "x".repeat(400);
    assert_eq!(told(&format!("GET / HTTP/1.1\r\nhost: a\r\nlong: {long}\r\n\r\n")).await, "431");
    assert_eq!(told("GET / HTTP/1.1\r\nhost:").await, "408");
    let _held = TcpStream::connect(running.local_addr()).await.unwrap();
    while running.connections() == 0 {
        tokio::task::yield_now().await;
    }
    let mut second = TcpStream::connect(running.local_addr()).await.unwrap();
    second.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let mut answer = String::new();
    within(second.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");

    let url = format!("http://{}", running.status_addr().unwrap());
    let status: Value = serde_json::from_str(&curl(&[&format!("{url}/status")]).await).unwrap();
    let expected = serde_json::json!({
        "connections_turned_away": 1,
        "requests_malformed": 2,
        "requests_too_large": 1,
        "requests_too_slow": 1,
    });
    assert_eq!(status["counters"], expected);
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    assert!(metrics.contains("\ntamarisk_requests_malformed_total 2\n"), "{metrics}");
}
