//! What the status port shows.

use crate::support;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::support::{Recorder, any_port, curl, exchange, options, within};
use serde_json::Value;
use tamarisk_control::Ratio;
use tamarisk_laws::ResourceBounds;
use tamarisk_observe::RequestId;
use tamarisk_observe::status::{self, Board, Rejection, Rejections};
use tamarisk_protect::Running;
use tamarisk_proxy::RequestBuffering;
use tamarisk_server::DrainTrigger;
use tamarisk_server::guard::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn shown() -> (Running, String) {
    let mut options = options(Recorder::ok().await.address);
    options.front.status = Some(any_port());
    // A request without its body is under way.
    options.upstreams[0].request_buffering = RequestBuffering::Off;
    let running = tamarisk_protect::start(options).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for _ in 0..3 {
        assert!(exchange(running.local_addr(), request).await.ends_with("ok"));
    }
    let url = format!("http://{}", running.status_addr().unwrap());
    (running, url)
}

/// Shows `board` for the rest of the test; where.
async fn show(board: Board) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let board = Arc::new(board);
    tokio::spawn(async move {
        let (_open, drain) = DrainTrigger::new();
        status::serve(move || Arc::clone(&board), listener, drain).await;
    });
    url
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
    assert_eq!(status["responses"], serde_json::json!({ "200": 3 }));
    assert!(class["response_at_percentile_seconds"].as_f64().unwrap() < 10.0);
    let verdict = stage["verdict"]["text"].as_str().unwrap();
    assert!(verdict.starts_with("Healthy: ") || verdict.starts_with("Idle: "), "{verdict}");
    assert_eq!(status["verdict"], stage["verdict"], "there is no other stage");
    assert_eq!(status["verdict"]["level"], "ok");
}

#[tokio::test]
async fn requests_are_rejected_while_a_resource_is_scarce() {
    // An idle stage rejects nothing: one request is under way.
    let held = axum::routing::any(std::future::pending::<()>);
    let upstream = support::axum(axum::Router::new().route("/held", held)).await;
    let mut options = options(upstream);
    options.front.status = Some(any_port());
    // No process uses less of the memory.
    let bound = Ratio::new(1e-6).unwrap();
    options.upstreams[0].resources = ResourceBounds::new().memory(bound);
    let running = tamarisk_protect::start(options).await.unwrap();
    let mut under_way = TcpStream::connect(running.local_addr()).await.unwrap();
    under_way.write_all(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let rejected = within(async {
        loop {
            let answer = exchange(running.local_addr(), request).await;
            if answer.starts_with("HTTP/1.1 503") {
                return answer;
            }
        }
    })
    .await;
    assert!(rejected.contains("too busy: a resource is scarce"), "{rejected}");
    let url = format!("http://{}/status", running.status_addr().unwrap());
    let status: Value = serde_json::from_str(&curl(&[&url]).await).unwrap();
    assert_eq!(status["stages"][0]["rejections"]["resource_scarce"], 1);
    let readings = status["stages"][0]["law"]["readings"].as_array().unwrap();
    let names: Vec<_> = readings.iter().map(|reading| reading["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"memory_in_use_ratio"), "{names:?}");
}

#[tokio::test]
async fn the_graph_is_drawn_with_what_has_crossed() {
    let (_running, url) = shown().await;
    let svg = curl(&[&format!("{url}/graph.svg")]).await;
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for text in [">upstream<", ">outside<", ">3<", ">3 completed<"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    let dot = curl(&[&format!("{url}/graph.dot")]).await;
    assert!(dot.contains("0 [label=\"upstream\\ngate · 0 of "), "{dot}");
    assert!(dot.contains("1 -> 0 [label=\"3\\n"), "{dot}");
    let head = curl(&["-I", &format!("{url}/graph.svg")]).await;
    assert!(head.contains("image/svg+xml"), "{head}");
    let nothing = curl(&[&format!("{url}/profile")]).await;
    assert!(nothing.starts_with("404: no profile is written: name a file"), "{nothing}");
}

#[tokio::test]
async fn prometheus_finds_every_family_described_once_and_every_sample_in_one() {
    let (_running, url) = shown().await;
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    assert!(metrics.contains(
        "tamarisk_outcomes_total{stage=\"upstream\",class=\"default\",outcome=\"completed\"} 3\n"
    ));
    let mut families = BTreeSet::new();
    let (mut current, mut is_histogram) = ("", false);
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(families.insert(name), "{name} twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            (current, is_histogram) = (name, kind == "histogram");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffix = name.strip_prefix(current).unwrap();
            assert_eq!(is_histogram, ["_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            assert!(is_histogram || suffix.is_empty(), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(families.len() > 10);
}

#[tokio::test]
async fn prometheus_finds_histograms_responses_and_the_process() {
    let (_running, url) = shown().await;
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    for time in ["queue", "service", "response"] {
        let labels = "stage=\"upstream\",class=\"default\"";
        let name = format!("\ntamarisk_{time}_time_seconds");
        for line in [
            format!("{name}_bucket{{{labels},le=\"60\"}} 3\n"),
            format!("{name}_bucket{{{labels},le=\"+Inf\"}} 3\n"),
            format!("{name}_count{{{labels}}} 3\n"),
            format!("{name}_sum{{{labels}}} "),
        ] {
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        "tamarisk_responses_total{code=\"200\"} 3\n",
        &format!("tamarisk_build_info{{version=\"{version}\"}} 1\n"),
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    if cfg!(target_os = "linux") {
        for name in [
            "cpu_seconds_total",
            "resident_memory_bytes",
            "virtual_memory_bytes",
            "open_fds",
            "max_fds",
            "start_time_seconds",
            "threads",
        ] {
            assert!(metrics.contains(&format!("\nprocess_{name} ")), "{name}: {metrics}");
        }
    }
}

/// What Prometheus' own tool has to say, which knows the format and the naming conventions.
#[tokio::test]
async fn promtool_has_no_objections() {
    let (_running, url) = shown().await;
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    let mut promtool = tokio::process::Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut checked = match promtool.stderr(Stdio::piped()).spawn() {
        Ok(checked) => checked,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Not by `eprintln!`, whose output is hidden when a test passes.
            let skipped =
                "skipped: promtool is not installed (Debian's package `prometheus` has it)\n";
            std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
            return;
        }
        Err(error) => panic!("promtool does not start: {error}"),
    };
    checked.stdin.take().unwrap().write_all(metrics.as_bytes()).await.unwrap();
    let output = within(checked.wait_with_output()).await.unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{metrics}");
}

#[tokio::test]
async fn the_history_of_every_stage_is_kept_whether_anybody_looks_or_not() {
    let (_running, url) = shown().await;
    let history = async || -> Value {
        serde_json::from_str(&curl(&[&format!("{url}/history")]).await).unwrap()
    };
    let sampled = async {
        loop {
            let seen = history().await;
            if seen["stages"][0]["completed_per_second"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
            {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let seen = within(sampled).await;
    assert_eq!(seen["interval_seconds"], 1.0);
    let stage = &seen["stages"][0];
    assert_eq!(stage["name"], "upstream");
    let series = stage.as_object().unwrap().iter().filter(|(key, _)| *key != "name");
    let lengths: BTreeSet<_> = series.map(|(_, all)| all.as_array().unwrap().len()).collect();
    assert_eq!(lengths.len(), 1, "{stage}");
    assert_eq!(stage["target_seconds"][0], 10.0);
}

#[tokio::test]
async fn the_history_survives_boards_that_are_made_anew() {
    let gate = tamarisk_stage::StageBuilder::new("app").gate().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/history", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (_open, drain) = DrainTrigger::new();
        status::serve(move || Arc::new(Board::new().gate(&gate)), listener, drain).await;
    });
    let kept = async {
        loop {
            let seen: Value = serde_json::from_str(&curl(&[&url]).await).unwrap();
            let samples = seen["stages"][0]["running"].as_array().map_or(0, Vec::len);
            if samples >= 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(kept).await;
}

#[tokio::test]
async fn the_latest_rejections_are_shown_one_by_one() {
    let rejections = Rejections::default();
    let url = show(Board::new().rejections(&rejections)).await;
    let shown = async || -> Value {
        serde_json::from_str(&curl(&[&format!("{url}/rejections")]).await).unwrap()
    };
    assert_eq!(shown().await, serde_json::json!({ "rejections": [] }));
    for id in ["first", "second"] {
        rejections.push(Rejection {
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500),
            client: [192, 0, 2, 7].into(),
            route: "/search".into(),
            stage: "shop".into(),
            class: "\"paying\"".into(),
            reason: "queue_full",
            id: RequestId::new(id),
        });
    }
    let seen = shown().await;
    assert_eq!(seen["rejections"][1]["id"], "first");
    let latest = serde_json::json!({
        "at_seconds": 1_700_000_000.5,
        "client": "192.0.2.7",
        "route": "/search",
        "stage": "shop",
        "class": "\"paying\"",
        "reason": "queue_full",
        "id": "second",
    });
    assert_eq!(seen["rejections"][0], latest);
}

#[tokio::test]
async fn clients_that_leave_no_time_change_neither_the_verdict_nor_the_latest_rejections() {
    let (running, url) = shown().await;
    let get = async |path: &str| -> Value {
        serde_json::from_str(&curl(&[&format!("{url}/{path}")]).await).unwrap()
    };
    // The verdict is on what comes after the first sample.
    let sampled = async {
        while get("history").await["stages"] == serde_json::json!([]) {
            tokio::task::yield_now().await;
        }
    };
    within(sampled).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout: 0\r\nConnection: close\r\n\r\n";
    for _ in 0..100 {
        let answer = exchange(running.local_addr(), request).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    let status = get("status").await;
    assert_eq!(status["verdict"]["level"], "ok", "{status}");
    assert_eq!(status["stages"][0]["total"]["rejected"], 100, "they are counted");
    assert_eq!(get("rejections").await, serde_json::json!({ "rejections": [] }));
}

#[tokio::test]
async fn the_verdict_says_that_requests_fail() {
    // Nothing listens there.
    let mut options = options(SocketAddr::from(([127, 0, 0, 1], 9)));
    options.front.status = Some(any_port());
    let running = tamarisk_protect::start(options).await.unwrap();
    let url = format!("http://{}/status", running.status_addr().unwrap());
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let failing = async {
        loop {
            assert!(exchange(running.local_addr(), request).await.starts_with("HTTP/1.1 502"));
            let status: Value = serde_json::from_str(&curl(&[&url]).await).unwrap();
            if status["verdict"]["level"] == "bad" {
                return status["verdict"]["text"].as_str().unwrap().to_owned();
            }
        }
    };
    let text = within(failing).await;
    assert!(text.starts_with("Failing: 100 % of the requests in the last "), "{text}");
}

#[tokio::test]
async fn the_page_brings_all_it_needs() {
    let (_running, url) = shown().await;
    let answer = curl(&["-i", &url]).await;
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(!page.contains("http://") || page.matches("http://www.w3.org/2000/svg").count() == 1);
    assert!(!page.contains("https://") && !page.contains("src="));
    // Names come from the configuration and from clients: they are shown as text.
    for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!page.contains(markup), "{markup}");
    }
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
    assert_eq!(within(shutdown).await.unwrap(), 0);
}

#[tokio::test]
async fn silent_bodies_do_not_shut_out_who_asks_for_the_health() {
    let (running, url) = shown().await;
    let address = running.status_addr().unwrap();
    let mut silent = Vec::new();
    for _ in 0..300 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = "POST /targets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        silent.push(client);
    }
    let answered = async {
        while curl(&[&format!("{url}/health")]).await != "ok\n" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within(answered).await;
}

#[tokio::test]
async fn what_else_is_counted_is_shown_under_its_name() {
    let board = Board::new().counter("log_lines_lost", "Lines that were not written.", || 7);
    let url = show(board).await;
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
async fn an_answer_that_forbids_names_every_way_to_allow() {
    let url = show(Board::new()).await;
    let forbidden = curl(&["-X", "PATCH", "-d", "{}", &format!("{url}/targets")]).await;
    assert!(forbidden.starts_with("403: ") && forbidden.contains("status_token"), "{forbidden}");
    assert!(forbidden.contains("`--status-token-file`"), "{forbidden}");
    let misdirected = curl(&["-H", "host: evil.example", &url]).await;
    assert!(misdirected.starts_with("421: ") && misdirected.contains("status_hosts"));
    assert!(misdirected.contains("`--status-host`"), "{misdirected}");
}

#[tokio::test]
async fn who_is_rejected_before_there_is_a_request_is_counted() {
    let mut options = options(SocketAddr::from(([127, 0, 0, 1], 9)));
    let limits = Limits::default().head(300).head_time(Duration::from_millis(100));
    options.front.server = options.front.server.limits(limits).connections_max(1);
    options.front.status = Some(any_port());
    let running = tamarisk_protect::start(options).await.unwrap();
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
        "connections_flooded": 0,
        "connections_gave_way": 0,
        "connections_turned_away": 1,
        "panics": 0,
        "requests_malformed": 2,
        "requests_too_large": 1,
        "requests_too_slow": 1,
    });
    assert_eq!(status["counters"], expected);
    let metrics = curl(&[&format!("{url}/metrics")]).await;
    assert!(metrics.contains("\ntamarisk_requests_malformed_total 2\n"), "{metrics}");
}
