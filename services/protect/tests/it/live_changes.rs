//! Targets and laws that change under load, over the status port and by a new file: no
//! request is lost or disturbed by either.

use crate::support;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Recorder, any_port, curl, exchange, options, within};
use serde_json::{Value, json};
use tamarisk_catalogue::ByName;
use tamarisk_control::{Class, ClassId, Classes, Priority, Target, Weight};
use tamarisk_laws::Laws;
use tamarisk_observe::profile::ProfileOptions;
use tamarisk_observe::status::TokenSource;
use tamarisk_protect::{Options, Running};
use tempfile::{NamedTempFile, TempPath};
use tokio::net::TcpListener;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A service that answers after 5 ms.
async fn slow_service() -> std::net::SocketAddr {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        "done"
    };
    support::axum(axum::Router::new().route("/", axum::routing::get(slow))).await
}

/// The options with a status port whose token stands in a file, which goes when it is dropped.
fn changeable(mut options: Options) -> (Options, TempPath) {
    let token = NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    options.front.status = Some(any_port());
    options.front.status_token = Some(TokenSource::File(token.to_path_buf()));
    (options, token)
}

fn url(running: &Running) -> String {
    format!("http://{}/targets", running.status_addr().unwrap())
}

/// The answer's status and its body.
async fn change(url: &str, method: &str, token: Option<&str>, body: &str) -> (String, String) {
    let bearer = format!("Authorization: Bearer {}", token.unwrap_or_default());
    let mut arguments = vec!["-X", method, "-d", body, "-w", "\n%{http_code}", url];
    if token.is_some() {
        arguments.extend(["-H", &bearer]);
    }
    let answer = curl(&arguments).await;
    let (text, status) = answer.rsplit_once('\n').unwrap();
    (status.to_owned(), text.to_owned())
}

fn p90(millis: u64) -> Target {
    Target::p90(Duration::from_millis(millis)).unwrap()
}

/// Clients that ask one request after another until told to stop: how many were answered.
struct Crowd {
    stop: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<(u64, u64)>>,
}

impl Crowd {
    fn start(address: std::net::SocketAddr, clients: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let (mut served, mut rejected) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                    let answer = exchange(address, request).await;
                    match answer.get(9..12) {
                        Some("200") => served += 1,
                        Some("503") => rejected += 1,
                        _ => panic!("a request got no proper answer: {answer:?}"),
                    }
                }
                (served, rejected)
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { stop, clients }
    }

    async fn stop(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut served, mut rejected) = (0, 0);
        for client in self.clients {
            let (of_client, rejected_to) = within(client).await.unwrap();
            served += of_client;
            rejected += rejected_to;
        }
        (served, rejected)
    }
}

fn assert_balanced(running: &Running, (served, rejected): (u64, u64)) {
    let total = running.gates()[0].observe().total();
    assert!(total.balance(), "{total:?}");
    assert_eq!(total.offered, served + rejected, "{total:?}");
    assert_eq!(total.completed, served, "{total:?}");
    assert_eq!((total.queued, total.running, total.failed), (0, 0, 0), "{total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_change_over_the_status_port_under_load_and_every_request_is_answered() {
    let (options, _token) = changeable(options(slow_service().await));
    let running = tamarisk_protect::start(options).await.unwrap();
    let (url, crowd) = (url(&running), Crowd::start(running.local_addr(), 16));
    for round in 0..20 {
        let millis = if round % 2 == 0 { 20 } else { 2000 };
        let body = json!({ "upstream": { "default": { "p90": format!("{millis}ms") } } });
        let (status, text) = change(&url, "PATCH", Some(TOKEN), &body.to_string()).await;
        assert_eq!(status, "200", "{text}");
        let seen = running.gates()[0].observe().classes[0].target;
        assert_eq!(seen, Duration::from_millis(millis));
    }
    let answers = crowd.stop().await;
    assert!(answers.0 > 100, "{answers:?}");
    assert_balanced(&running, answers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_and_laws_of_new_options_change_under_load_and_every_request_is_answered() {
    let options = options(slow_service().await);
    let mut running = tamarisk_protect::start(options.clone()).await.unwrap();
    let crowd = Crowd::start(running.local_addr(), 16);
    let mut lawful = options.clone();
    lawful.upstreams[0].classes = Classes::single(p90(300));
    let laws = Laws::new().admission("predict-gate-trim", &[]).unwrap();
    let laws = laws.workers("fixed", &[("workers_count", 4.0)]).unwrap();
    lawful.upstreams[0].laws = laws.quality("degradation", &[]).unwrap();
    for _ in 0..10 {
        let reloaded = running.reload(&lawful);
        assert_eq!(reloaded.needs_restart, [""; 0]);
        assert_eq!(reloaded.changed.len(), 2, "{reloaded:?}");
        let seen = running.gates()[0].observe();
        assert_eq!((seen.law, seen.workers), ("predict-gate-trim", 4));
        tokio::time::sleep(Duration::from_millis(30)).await;
        running.reload(&options);
        assert_eq!(running.gates()[0].observe().law, "work-limit");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let answers = crowd.stop().await;
    assert!(answers.0 > 100, "{answers:?}");
    assert_balanced(&running, answers);
}

#[tokio::test]
async fn only_who_has_the_token_changes_anything() {
    let open = options(Recorder::ok().await.address);
    let mut closed = open.clone();
    closed.front.status = Some(any_port());
    let body = r#"{"upstream": {"default": {"p90": "1s"}}}"#;

    let running = tamarisk_protect::start(closed).await.unwrap();
    let (status, text) = change(&url(&running), "PATCH", Some(TOKEN), body).await;
    assert_eq!(status, "403");
    assert!(text.contains("status_token ="), "{text}");

    let (open, _token) = changeable(open);
    let running = tamarisk_protect::start(open).await.unwrap();
    for token in [None, Some(""), Some("wrong"), Some(&TOKEN[1..])] {
        let (status, _) = change(&url(&running), "PATCH", token, body).await;
        assert_eq!(status, "401", "{token:?}");
    }
    assert_eq!(running.gates()[0].observe().classes[0].target, Duration::from_secs(10));
    let shown: Value = serde_json::from_str(&curl(&[&url(&running)]).await).unwrap();
    assert_eq!(shown, json!({ "upstream": { "default": { "p90": "10s" } } }));
    let (status, text) = change(&url(&running), "PUT", Some(TOKEN), body).await;
    assert_eq!(status, "200", "{text}");
    assert_eq!(text.trim(), r#"{"upstream":{"default":{"p90":"1s"}}}"#);
    assert_eq!(running.gates()[0].observe().classes[0].target, Duration::from_secs(1));
}

#[tokio::test]
async fn what_cannot_be_a_target_is_rejected_whole_with_the_reason() {
    let mut options = options(Recorder::ok().await.address);
    let class = |name: &str| Class { name: name.into(), target: p90(1000), priority: Priority(1) };
    options.upstreams[0].classes = Classes::new(vec![class("default"), class("gold")]).unwrap();
    let (options, _token) = changeable(options);
    let running = tamarisk_protect::start(options).await.unwrap();
    for (method, body, status, reason) in [
        ("PATCH", "{", "400", "invalid JSON"),
        ("PATCH", "[]", "422", "not an object"),
        ("PATCH", r#"{"upstraem": {}}"#, "422", r#"did you mean "upstream""#),
        ("PATCH", r#"{"upstream": {"silver": {"p90": "1s"}}}"#, "422", "known: default, gold"),
        ("PATCH", r#"{"upstream": {"gold": {"p9": "1s"}}}"#, "422", "not a percentile"),
        ("PATCH", r#"{"upstream": {"gold": {"p90": 1}}}"#, "422", "not a time"),
        ("PATCH", r#"{"upstream": {"gold": {"p90": "1x"}}}"#, "422", "1x"),
        ("PATCH", r#"{"upstream": {"gold": {"p90": "0s"}}}"#, "422", "24h"),
        ("PATCH", r#"{"upstream": {"gold": {}}}"#, "422", "0 targets"),
        ("PATCH", r#"{"upstream": {"gold": {"p90": "2s"}, "default": 7}}"#, "422", "not an object"),
        ("PUT", r#"{"upstream": {"gold": {"p90": "2s"}}}"#, "422", r#""default" of "upstream""#),
        ("PUT", "{}", "422", r#"the stage "upstream" is missing"#),
        ("DELETE", "", "405", "PATCH"),
    ] {
        let (found, text) = change(&url(&running), method, Some(TOKEN), body).await;
        assert_eq!(found, status, "{body}: {text}");
        assert!(text.contains(reason), "{body}: {text}");
    }
    let long = " ".repeat(70_000);
    assert_eq!(change(&url(&running), "PATCH", Some(TOKEN), &long).await.0, "413");
    for class in running.gates()[0].observe().classes {
        assert_eq!(class.target, Duration::from_secs(1), "{}", class.name);
    }
}

#[tokio::test]
async fn who_has_the_token_switches_the_profile() {
    let folder = std::env::temp_dir().join(format!("tamarisk-switched-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("profile.jsonl");
    let (mut options, _token) = changeable(options(slow_service().await));
    options.front.profile =
        Some(ProfileOptions { interval: Duration::from_millis(10), ..ProfileOptions::new(&file) });
    let running = tamarisk_protect::start(options).await.unwrap();
    let url = format!("http://{}/profile", running.status_addr().unwrap());
    let shown = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (status, text) = change(&url, "PUT", None, "{\"on\": false}").await;
    assert!(status == "401" && text.starts_with("401"), "{status} {text}");
    let (status, text) = change(&url, "PUT", Some(TOKEN), "{\"off\": true}").await;
    assert_eq!((&*status, &*text), ("422", "422: give `{\"on\": true}` or `{\"on\": false}`\n"));
    let (status, text) = change(&url, "PUT", Some(TOKEN), "{\"on\": false}").await;
    assert_eq!((&*status, &shown(&text)["on"]), ("200", &false.into()), "{text}");
    let (_, text) = change(&url, "PUT", Some(TOKEN), "{\"on\": true}").await;
    assert_eq!(
        (&shown(&text)["on"], &shown(&text)["interval_seconds"]),
        (&true.into(), &0.01.into())
    );
    let line = within(async {
        loop {
            let text = std::fs::read_to_string(&file).unwrap();
            if let Some((line, _)) = text.split_once('\n') {
                return shown(line);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(line["stages"][0]["name"], "upstream");
    drop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_token_that_is_missing_or_weak_stops_the_start() {
    let mut options = options(Recorder::ok().await.address);
    options.front.status_token = Some(TokenSource::File("/no/such/token".into()));
    let error = tamarisk_protect::start(options).await.err().unwrap().to_string();
    assert!(error.contains("/no/such/token"), "{error}");
}

#[tokio::test]
async fn a_reload_takes_a_new_token_over_and_keeps_the_one_before_if_there_is_none() {
    const NEW: &str = "fedcba9876543210fedcba9876543210";
    let (options, token) = changeable(options(Recorder::ok().await.address));
    let mut running = tamarisk_protect::start(options.clone()).await.unwrap();
    let url = url(&running);
    let allowed = async |token| {
        let body = r#"{"upstream": {"default": {"p90": "1s"}}}"#;
        change(&url, "PATCH", Some(token), body).await.0
    };
    std::fs::write(&token, NEW).unwrap();
    assert_eq!([allowed(TOKEN).await, allowed(NEW).await], ["200", "401"], "not read before");
    running.reload(&options);
    assert_eq!([allowed(TOKEN).await, allowed(NEW).await], ["401", "200"]);
    for unfit in ["short", ""] {
        std::fs::write(&token, unfit).unwrap();
        running.reload(&options);
        assert_eq!(allowed(NEW).await, "200", "{unfit:?} is none");
    }
    token.close().unwrap();
    running.reload(&options);
    assert_eq!(allowed(NEW).await, "200");
}

#[tokio::test]
async fn what_cannot_change_on_the_way_is_named_and_stays() {
    let options = options(Recorder::ok().await.address);
    let mut running = tamarisk_protect::start(options.clone()).await.unwrap();
    assert_eq!(running.reload(&options), tamarisk_service::Reloaded::default());
    let mut other = options.clone();
    other.front.listen = TcpListener::bind(any_port()).await.unwrap().local_addr().unwrap();
    other.upstreams[0].origin = "http://127.0.0.1:9".parse().unwrap();
    let weight = Weight::new(3).unwrap();
    other.upstreams[0].classes = Classes::single(p90(700)).weighted(ClassId::DEFAULT, weight);
    let reloaded = running.reload(&other);
    assert_eq!(reloaded.changed, [r#""upstream": p90 10 s → p90 700 ms"#]);
    let restart = ["listen", r#"url of "upstream""#, r#"the weight of "default" of "upstream""#];
    assert_eq!(reloaded.needs_restart, restart);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(exchange(running.local_addr(), request).await.ends_with("ok"));
    assert_eq!(running.gates()[0].observe().classes[0].target, Duration::from_millis(700));
}

#[tokio::test]
async fn quality_goes_with_each_request_where_a_law_rules_it() {
    let upstream = Recorder::ok().await;
    let mut options = options(upstream.address);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Quality: 9\r\nConnection: close\r\n\r\n";
    let without = tamarisk_protect::start(options.clone()).await.unwrap();
    exchange(without.local_addr(), request).await;
    assert!(upstream.heard().await.to_lowercase().contains("x-quality: 9\r\n"));

    options.upstreams[0].laws = Laws::new().quality("degradation", &[]).unwrap();
    options.front.status = Some(any_port());
    let running = tamarisk_protect::start(options).await.unwrap();
    exchange(running.local_addr(), request).await;
    let heard = upstream.heard().await.to_lowercase();
    assert_eq!(heard.matches("x-quality: 9\r\n").count(), 1, "a client's own is not passed on");
    assert!(heard.contains("x-quality: 1.00\r\n"), "{heard}");

    let status = format!("http://{}", running.status_addr().unwrap());
    let shown: Value = serde_json::from_str(&curl(&[&format!("{status}/status")]).await).unwrap();
    let stage = &shown["stages"][0];
    assert_eq!(stage["quality_ratio"], 1.0);
    let law = json!({ "name": "degradation", "knobs": { "quality_least_ratio": 0.25 } });
    assert_eq!(stage["laws"]["quality"], law);
    let metrics = curl(&[&format!("{status}/metrics")]).await;
    assert!(metrics.contains("tamarisk_quality_ratio{stage=\"upstream\"} 1\n"), "{metrics}");
    assert!(metrics.contains("name=\"quality_least_ratio\"} 0.25\n"), "{metrics}");
}
