//! The generator against real services. Runs last some tenths of a second of
//! real time: a load generator is a thing of clocks.

#![allow(clippy::unwrap_used, reason = "in a test, what does not hold should fail loudly")]

mod closed_loop;
mod service;

use std::future::{pending, ready};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use service::{Service, status};
use tamarisk_load::{
    ClosedLoop, OpenLoop, Plan, PlanBuilder, Report, RetryAfter, RunError, Schedule, Spacing,
    Spread, Workload, run,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn level(base: f64, changes: &[&str], lasting: Duration) -> Schedule {
    let changes = changes.iter().map(|change| change.parse().unwrap()).collect();
    Schedule::new(base, changes, Some(lasting)).unwrap()
}

fn users(users: Schedule) -> ClosedLoop {
    ClosedLoop {
        users,
        think: ms(10),
        after_reject: ms(10),
        retry_after: RetryAfter::Ignore,
        spread: Spread::default(),
        resend: None,
    }
}

fn constant(rate: f64, lasting: Duration) -> OpenLoop {
    OpenLoop {
        rate: level(rate, &[], lasting),
        spacing: Spacing::Constant,
        connections_max: Some(1000),
    }
}

fn closed(service: &Service, closed: ClosedLoop) -> PlanBuilder {
    Plan::builder(Workload::Closed(closed), vec![service.url("/").parse().unwrap()])
}

fn open(service: &Service, open: OpenLoop) -> PlanBuilder {
    Plan::builder(Workload::Open(open), vec![service.url("/").parse().unwrap()])
}

async fn report(plan: PlanBuilder) -> Report {
    let report = run(plan.build().unwrap(), pending(), |_| {}).await.unwrap();
    check_accounts(&report);
    report
}

/// Whatever happened, the books balance: overall, by phase and over time.
fn check_accounts(report: &Report) {
    let total = &report.total;
    let ended = total.completed + total.rejected + total.failed;
    assert_eq!(total.offered, ended + total.unfinished);
    assert_eq!(total.failed, total.errors.values().sum::<u64>());
    assert_eq!(total.offered, report.phases.iter().map(|p| p.summary.offered).sum::<u64>());
    assert_eq!(total.offered, report.series.iter().map(|i| i.offered).sum::<u64>());
    assert_eq!(total.completed, report.series.iter().map(|i| i.completed).sum::<u64>());
    assert_eq!(total.rejected, report.series.iter().map(|i| i.rejected).sum::<u64>());
    assert_eq!(total.failed, report.series.iter().map(|i| i.failed).sum::<u64>());
    assert!(report.series.windows(2).all(|pair| pair[0].start < pair[1].start));
}

/// A service that answers at once, except that nothing gets through from
/// `begin` to `end` after its first request.
async fn stalling(begin: Duration, end: Duration) -> Service {
    let first = Arc::new(Mutex::new(None));
    service::http(move |_| {
        let since_first = first.lock().unwrap().get_or_insert_with(Instant::now).elapsed();
        async move {
            if (begin..end).contains(&since_first) {
                tokio::time::sleep(end - since_first).await;
            }
            status(200)
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stall_delays_every_request_that_was_due_in_it() {
    let service = stalling(ms(100), ms(500)).await;
    let report = report(open(&service, constant(250.0, ms(600))).target(ms(200))).await;
    // 250/s: 150 in all, 100 of them in the stall; half of those wait for longer
    // than half of it. A request at either edge, and a slow machine, may differ.
    assert_eq!(report.total.completed, 150);
    let late = report.total.completed - report.total.good;
    assert!((45..=80).contains(&late), "{late} late");
    assert!(report.total.latency.max >= 0.38, "{:?}", report.total.latency);
    assert!(report.total.latency.p50 >= 0.05, "{:?}", report.total.latency);
}

/// A listener with room for two connections that have not been accepted, and a
/// while before it accepts any: the kernel drops the others' first packets, and
/// they try again after a second.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn latency_runs_from_when_a_request_was_due_and_response_time_from_when_it_was_sent() {
    let service = service::late_to_accept(1, ms(100)).await;
    let report = report(open(&service, constant(100.0, ms(100))).drain(ms(2500))).await;
    let total = &report.total;
    assert_eq!((total.completed, total.latency.count, total.response.count), (10, 10, 10));
    assert!(total.connect.max > 0.9, "{:?}", total.connect);
    assert!(total.latency.max > 0.9, "{:?}", total.latency);
    assert!(total.response.max < 0.5, "{:?}", total.response);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_closed_loop_waits_a_stall_out() {
    let service = stalling(ms(100), ms(500)).await;
    let report = report(closed(&service, users(level(2.0, &[], ms(600)))).target(ms(200))).await;
    // Each of the two users has one request in the stall, and no more.
    assert_eq!(report.total.completed - report.total.good, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_open_loop_sends_as_many_as_the_rate_says_on_any_number_of_threads() {
    let service = service::http(|_| async { status(200) }).await;
    for threads in 1..=3 {
        let report = report(open(&service, constant(400.0, ms(250))).threads(threads)).await;
        assert_eq!((report.total.offered, report.total.completed), (100, 100));
    }
    assert_eq!(service.requests(), 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_for_which_no_connection_is_free_are_counted_as_not_sent() {
    let service = service::http(|_| async {
        tokio::time::sleep(ms(60)).await;
        status(200)
    })
    .await;
    let few = OpenLoop { connections_max: Some(2), ..constant(200.0, ms(300)) };
    let report = report(open(&service, few)).await;
    assert_eq!(report.total.offered, 60);
    // Two connections of at least 60 ms a request take at most 10 of the 60.
    assert!(report.total.completed <= 10, "{}", report.total.completed);
    assert_eq!(report.total.errors["not sent"], 60 - report.total.completed);
    assert_eq!(service.connections(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_that_were_due_and_never_sent_count_however_the_run_ends() {
    let service = service::http(|_| async { status(200) }).await;
    let torrent = OpenLoop { connections_max: Some(4), ..constant(1e7, ms(100)) };
    let plan = || open(&service, torrent.clone()).threads(1).drain(ms(0));
    let total = report(plan()).await.total;
    assert_eq!(total.offered, 1_000_000);
    assert!(total.errors["not sent"] > 0, "{:?}", total.errors);
    let stop = async { tokio::time::sleep(ms(50)).await };
    let stopped = run(plan().build().unwrap(), stop, |_| {}).await.unwrap();
    check_accounts(&stopped);
    let due = 1e7 * stopped.total.seconds;
    assert!(stopped.total.offered as f64 >= due - 1.0, "{} of {due}", stopped.total.offered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_spike_brings_users_and_takes_them_away_again() {
    let service = service::http(|_| async {
        tokio::time::sleep(ms(20)).await;
        status(200)
    })
    .await;
    let crowd = users(level(2.0, &["spike 12@200ms..400ms"], ms(600)));
    let plan = closed(&service, crowd).interval(ms(100)).threads(2).build().unwrap();
    let mut inside_max = vec![];
    let report =
        run(plan, pending(), |_| inside_max.push(service.take_inside_max())).await.unwrap();
    check_accounts(&report);
    assert_eq!(report.phases.len(), 3);
    assert!(inside_max[0] <= 2, "{inside_max:?}");
    assert!(inside_max[2] > 2 && inside_max.iter().all(|n| *n <= 12), "{inside_max:?}");
    assert!(inside_max[5] <= 2, "{inside_max:?}");
    for phase in &report.phases {
        assert!(phase.fairness.unwrap() > 0.8, "{phase:?}");
    }
    assert!(report.phases[1].summary.throughput > report.phases[0].summary.throughput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn users_wait_after_a_rejection() {
    let service = service::http(|_| async { status(503) }).await;
    let patient = ClosedLoop { after_reject: ms(5000), ..users(level(3.0, &[], ms(200))) };
    let report = report(closed(&service, patient)).await;
    assert_eq!((report.total.offered, report.total.rejected), (3, 3));
    assert_eq!(report.total.rejection.count, 3);
    assert_eq!(report.total.latency.count, 0, "a rejection is no answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn users_honour_retry_after_if_they_are_told_to() {
    let service = service::http(|_| async {
        let mut busy = status(429);
        busy.headers_mut().insert("retry-after", "5".parse().unwrap());
        busy
    })
    .await;
    let polite = ClosedLoop { retry_after: RetryAfter::Honour, ..users(level(3.0, &[], ms(200))) };
    assert_eq!(report(closed(&service, polite)).await.total.rejected, 3);
    let rude = users(level(3.0, &[], ms(200)));
    assert!(report(closed(&service, rude)).await.total.rejected > 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn users_send_again_when_an_answer_is_late_and_late_answers_count() {
    let service = service::http(|_| async {
        tokio::time::sleep(ms(400)).await;
        status(200)
    })
    .await;
    let run = async |resend| {
        let users = ClosedLoop { resend, ..users(level(1.0, &[], ms(600))) };
        report(closed(&service, users)).await.total
    };
    // A request each 100 ms, whose answers come after 400 ms: none is lost.
    let hasty = run(Some(ms(100))).await;
    assert!((5..=6).contains(&hasty.offered), "{}", hasty.offered);
    assert_eq!(hasty.completed, hasty.offered);
    // Those who are answered in time wait.
    assert_eq!(run(Some(ms(500))).await.offered, 2);
    assert_eq!(run(None).await.offered, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connection_carries_as_many_requests_as_asked_and_announces_its_end() {
    let closes = Arc::new(Mutex::new(vec![]));
    let record = Arc::clone(&closes);
    let service = service::http(move |request| {
        record.lock().unwrap().push(request.headers().contains_key("connection"));
        async { status(200) }
    })
    .await;
    let one = users(level(1.0, &[], ms(300)));
    let plan = closed(&service, one).requests_per_connection(NonZeroU32::new(5).unwrap());
    let report = report(plan).await;
    assert!(report.total.completed >= 6, "{}", report.total.completed);
    assert_eq!(service.connections(), report.total.completed.div_ceil(5));
    assert_eq!(report.total.connect.count, service.connections());
    for (index, close) in closes.lock().unwrap().iter().enumerate() {
        assert_eq!(*close, index % 5 == 4, "request {index}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_are_kept_alive_unless_told_otherwise() {
    let service = service::http(|_| async { status(200) }).await;
    let report = report(closed(&service, users(level(4.0, &[], ms(200))))).await;
    assert!(report.total.completed > 8);
    assert_eq!(service.connections(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_hangs_up_between_requests_is_no_error() {
    let service = service::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let report = report(closed(&service, users(level(2.0, &[], ms(200))))).await;
    assert_eq!(report.total.failed, 0, "{:?}", report.total.errors);
    assert_eq!(report.total.completed, service.requests());
    assert_eq!(service.connections(), service.requests());
    assert_eq!(report.total.bytes, 2 * report.total.completed);
}

/// How many bytes a body has whose answer comes in `pieces`, and that two users need no more
/// connections than themselves.
async fn check_kept_alive(pieces: &'static [&'static [u8]], body_bytes: u64) {
    let service = service::pieces(pieces).await;
    let report = report(closed(&service, users(level(2.0, &[], ms(150))))).await;
    assert_eq!(report.total.failed, 0, "{:?}", report.total.errors);
    assert!(report.total.completed > 4, "{}", report.total.completed);
    assert_eq!(report.total.bytes, body_bytes * report.total.completed);
    assert_eq!(service.connections(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_answer_in_many_pieces_leaves_the_connection_open() {
    check_kept_alive(
        &[b"HTTP/1.1 200", b" OK\r\nContent-Length: 1", b"1\r\n\r\nhello", b", ", b"worl"],
        11,
    )
    .await;
    check_kept_alive(
        &[
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: ",
            b"chunked\r\n\r\n5\r\nhel",
            b"lo\r",
            b"\n6\r",
            b"\n world\r\n0\r\nA: b\r\n",
            b"\r\n",
        ],
        11,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_bodies_are_counted_to_the_last_byte() {
    /// More than is read at once of any answer, and more than a socket holds at first.
    const BODY_BYTES: usize = 3_000_001;
    let piece: &'static [u8] = vec![b'0'; BODY_BYTES].leak();
    let pieces = |pieces: &[&'static [u8]]| &*pieces.to_vec().leak();
    let length: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3000001\r\n\r\n";
    check_kept_alive(pieces(&[length, piece]), BODY_BYTES as u64).await;
    let chunked: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2dc6c1\r\n";
    let again: &[u8] = b"\r\n2DC6C1;x=y\r\n";
    let end: &[u8] = b"\r\n0\r\n\r\n";
    let chunks = pieces(&[chunked, piece, again, piece, end]);
    check_kept_alive(chunks, 2 * BODY_BYTES as u64).await;
    let until_close: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
    let service = service::raw([until_close, piece].concat().leak()).await;
    let report = report(closed(&service, users(level(1.0, &[], ms(200))))).await;
    assert_eq!(report.total.failed, 0, "{:?}", report.total.errors);
    assert!(report.total.completed > 1, "{}", report.total.completed);
    assert_eq!(report.total.bytes, BODY_BYTES as u64 * report.total.completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_that_ends_with_its_connection_is_complete() {
    let service = service::raw(b"HTTP/1.1 200 OK\r\n\r\nhello").await;
    let report = report(closed(&service, users(level(2.0, &[], ms(150))))).await;
    assert_eq!(report.total.failed, 0, "{:?}", report.total.errors);
    assert!(report.total.completed > 4, "{}", report.total.completed);
    assert_eq!(report.total.bytes, 5 * report.total.completed);
    assert_eq!(service.connections(), report.total.completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_nobody_asked_for_is_no_answer_to_the_next_request() {
    let service = service::pieces(&[b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 500 Oh\r\n"]);
    let service = service.await;
    // Time for the rest to come before the next request.
    let slow = ClosedLoop { think: ms(150), ..users(level(1.0, &[], ms(550))) };
    let report = report(closed(&service, slow)).await;
    assert_eq!(report.total.failed, 0, "{:?}", report.total.errors);
    assert!(report.total.completed > 2, "{}", report.total.completed);
    assert_eq!(service.connections(), report.total.completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_body_arrives_whole() {
    /// More than the sockets of both ends hold.
    const BODY_BYTES: usize = 24 << 20;
    let service = service::http(|request| async move {
        status(if request.body().len() == BODY_BYTES { 200 } else { 400 })
    })
    .await;
    let patient = ClosedLoop { think: ms(5000), ..users(level(1.0, &[], ms(100))) };
    let plan = closed(&service, patient).method(http::Method::POST).body(vec![7; BODY_BYTES]);
    let report = report(plan.drain(ms(10_000))).await;
    assert_eq!((report.total.completed, report.total.failed), (1, 0), "{:?}", report.total.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_answer_may_come_before_the_request_has_gone_out() {
    let answer = b"HTTP/1.1 413 Too Long\r\nContent-Length: 0\r\n\r\n";
    let service = service::hasty(answer).await;
    let plan = closed(&service, users(level(1.0, &[], ms(500))))
        .method(http::Method::POST)
        .body(vec![7; 24 << 20]);
    let report = report(plan).await;
    assert!(report.total.failed > 1, "{}", report.total.failed);
    assert_eq!(report.total.errors["status 413"], report.total.failed, "{:?}", report.total.errors);
    assert_eq!(service.connections(), report.total.failed, "half a request is on each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn failures_are_told_apart() {
    let one = || users(level(1.0, &[], ms(100)));
    let check = |report: Report, kind: &str| {
        assert_eq!(report.total.completed, 0);
        assert!(report.total.failed > 0);
        assert_eq!(report.total.errors[kind], report.total.failed, "{:?}", report.total.errors);
    };
    let hangs_up = service::raw(b"").await;
    check(report(closed(&hangs_up, one())).await, "connection closed");
    let cut_short = service::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
    check(report(closed(&cut_short, one())).await, "connection closed");
    let chunked =
        service::raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf").await;
    check(report(closed(&chunked, one())).await, "connection closed");
    let no_chunk =
        service::raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n").await;
    check(report(closed(&no_chunk, one())).await, "malformed answer");
    let no_http = service::raw(b"220 mail.example ESMTP ready\r\n\r\n").await;
    check(report(closed(&no_http, one())).await, "malformed answer");
    let broken = service::http(|_| async { status(500) }).await;
    check(report(closed(&broken, one())).await, "status 500");
    let silent = service::http(|_| pending()).await;
    check(report(closed(&silent, one()).timeout(ms(50))).await, "timed out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_port_where_nobody_listens_is_not_hammered() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = Service { address: listener.local_addr().unwrap(), seen: Arc::default() };
    drop(listener);
    let restless =
        ClosedLoop { think: ms(0), after_reject: ms(0), ..users(level(1.0, &[], ms(250))) };
    let report = report(closed(&nobody, restless)).await;
    assert_eq!(report.total.errors["connection refused"], report.total.offered);
    assert!((1..=3).contains(&report.total.offered), "{}", report.total.offered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn method_headers_and_body_arrive() {
    let service = service::http(|request| async move {
        let right = request.method() == http::Method::POST
            && request.headers()["x-shop"] == "shoes"
            && request.headers()["content-length"] == "5"
            && request.body().as_ref() == b"hello";
        status(if right { 200 } else { 400 })
    })
    .await;
    let plan = closed(&service, users(level(1.0, &[], ms(50))))
        .method(http::Method::POST)
        .header("x-shop".parse().unwrap(), "shoes".parse().unwrap())
        .body("hello");
    let report = report(plan).await;
    assert!(report.total.completed > 0);
    assert_eq!(report.total.failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_interrupted_run_reports_what_there_was() {
    let service = service::http(|_| async { status(200) }).await;
    let plan = closed(&service, users(level(1.0, &["spike 9@50s..60s"], ms(100_000))));
    let stop = tokio::time::sleep(ms(200));
    let report = run(plan.build().unwrap(), stop, |_| {}).await.unwrap();
    check_accounts(&report);
    assert!(report.interrupted);
    assert_eq!(report.phases.len(), 1, "the spike never came");
    assert!((0.15..5.0).contains(&report.total.seconds), "{}", report.total.seconds);
    assert!(report.total.completed > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_under_way_at_the_end_are_unfinished_business() {
    let service = service::http(|_| pending()).await;
    let report = report(closed(&service, users(level(3.0, &[], ms(100)))).drain(ms(50))).await;
    assert_eq!((report.total.offered, report.total.unfinished), (3, 3));
}

#[tokio::test]
async fn more_users_than_descriptors_are_rejected_up_front() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let service = Service { address: listener.local_addr().unwrap(), seen: Arc::default() };
    let crowd = users(level(10_000_000.0, &[], ms(100)));
    let error = run(closed(&service, crowd).build().unwrap(), pending(), |_| {}).await.unwrap_err();
    assert!(matches!(error, RunError::Descriptors(_)), "{error}");
}

#[tokio::test]
async fn a_name_without_an_address_is_an_error() {
    let workload = Workload::Closed(users(level(1.0, &[], ms(100))));
    let plan = Plan::builder(workload, vec!["http://no-such-host.invalid/".parse().unwrap()]);
    let error = run(plan.build().unwrap(), pending(), |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot resolve the host `no-such-host.invalid`");
}

#[tokio::test]
async fn a_run_that_is_stopped_while_its_host_is_looked_up_does_not_begin() {
    let workload = Workload::Closed(users(level(1.0, &[], ms(100))));
    let plan = Plan::builder(workload, vec!["http://no-such-host.invalid/".parse().unwrap()]);
    let error = run(plan.build().unwrap(), ready(()), |_| {}).await.unwrap_err();
    assert!(matches!(error, RunError::Stopped), "{error}");
}
