//! Runs of emulated users against a real server on the loopback interface, which rejects, dawdles,
//! hangs up and talks nonsense at times. Runs last some seconds of real time: load is a thing of
//! clocks.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::webmail::{Asked, PASSWORD, Webmail, status};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use futures_util::stream;
use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use tamarisk_arashi_load::{Accounts, REQUEST_TYPES, WebmailUsers};
use tamarisk_load::{
    ClosedLoop, Plan, PlanBuilder, Report, RetryAfter, Schedule, Spread, Workload, run,
};

/// What the server does with a request, which it counts by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answer,
    Reject,
    /// Sends the second half of the answer after this time.
    Dawdle(Duration),
    HangUp,
    /// Sends a page without any mark.
    Nonsense,
}

/// A request that the server has seen, and when.
#[derive(Debug)]
struct Seen {
    at: Instant,
    path: String,
    has_session: bool,
}

struct Server {
    webmail: Mutex<Webmail>,
    fate: fn(u64) -> Fate,
    requests: AtomicU64,
    seen: Mutex<Vec<Seen>>,
}

impl Server {
    async fn start(fate: fn(u64) -> Fate) -> (Arc<Self>, String) {
        let server = Arc::new(Self {
            webmail: Mutex::new(Webmail::with_messages(20)),
            fate,
            requests: AtomicU64::default(),
            seen: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (server, url)
    }

    /// Requests so far that ended so.
    fn count(&self, of: impl Fn(Fate) -> bool) -> u64 {
        let requests = self.requests.load(Ordering::SeqCst);
        (0..requests).filter(|number| of((self.fate)(*number))).count() as u64
    }
}

async fn answer(
    State(server): State<Arc<Server>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let number = server.requests.fetch_add(1, Ordering::SeqCst);
    let cookie = headers.get(header::COOKIE).map_or("", |cookie| cookie.to_str().unwrap());
    let path = uri.path_and_query().unwrap().as_str();
    let seen = Seen {
        at: Instant::now(),
        path: path.to_owned(),
        has_session: cookie.contains("session="),
    };
    server.seen.lock().unwrap().push(seen);
    let fate = (server.fate)(number);
    match fate {
        Fate::Reject => {
            let mut rejected = status(StatusCode::SERVICE_UNAVAILABLE).map(Body::from);
            rejected.headers_mut().insert(header::RETRY_AFTER, "1".parse().unwrap());
            return rejected;
        }
        Fate::Nonsense => return Response::new(Body::from("<h1>It works!</h1>")),
        Fate::HangUp => {
            let pieces = stream::iter([Ok("half"), Err(std::io::Error::other("gone"))]);
            return Response::new(Body::from_stream(pieces));
        }
        Fate::Answer | Fate::Dawdle(_) => {}
    }
    let body = std::str::from_utf8(&body).unwrap();
    let asked = Asked { method: &method, path, cookie, body };
    let answer = server.webmail.lock().unwrap().answer(&asked);
    let Fate::Dawdle(time) = fate else { return answer.map(Body::from) };
    answer.map(|html| {
        let (first, second) = html.split_at(html.len() / 2);
        let pieces = [(first.to_vec(), Duration::ZERO), (second.to_vec(), time)];
        Body::from_stream(stream::unfold(pieces.into_iter(), async |mut pieces| {
            let (piece, wait) = pieces.next()?;
            tokio::time::sleep(wait).await;
            Some((Ok::<_, std::io::Error>(piece), pieces))
        }))
    })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn users(url: &str, count: f64, lasting: Duration, after_reject: Duration) -> PlanBuilder {
    let workload = Workload::Closed(ClosedLoop {
        users: Schedule::new(count, vec![], Some(lasting)).unwrap(),
        think: ms(2),
        after_reject,
        retry_after: RetryAfter::Ignore,
        spread: Spread::default(),
        resend: None,
    });
    let accounts = Accounts::numbered("user", count as usize, PASSWORD, 0.5).unwrap();
    let users = WebmailUsers::new(accounts, 3).target("search", ms(1)).unwrap();
    Plan::builder(workload, vec![url.parse().unwrap()]).population(Arc::new(users))
}

async fn report(plan: PlanBuilder) -> Report {
    run(plan.build().unwrap(), pending(), |_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_answer_is_accounted_for_once_whatever_it_is() {
    fn fate(number: u64) -> Fate {
        match number % 40 {
            7 => Fate::Reject,
            17 => Fate::Dawdle(ms(20)),
            27 => Fate::HangUp,
            37 => Fate::Nonsense,
            _ => Fate::Answer,
        }
    }
    let (server, url) = Server::start(fate).await;
    let report = report(users(&url, 16.0, ms(1500), ms(30)).target(ms(500))).await;
    let total = &report.total;
    assert_eq!((total.offered, total.unfinished), (server.requests.load(Ordering::SeqCst), 0));
    assert!(total.completed > 300, "{total:?}");
    let good = server.count(|fate| matches!(fate, Fate::Answer | Fate::Dawdle(_)));
    assert_eq!((total.completed, total.rejected), (good, server.count(|f| f == Fate::Reject)));
    // A login gets no redirect where nonsense comes, and so does a form: nothing else fails.
    let cut_off = total.errors["connection closed"];
    assert_eq!(cut_off, server.count(|fate| fate == Fate::HangUp));
    let nonsense = server.count(|fate| fate == Fate::Nonsense);
    assert_eq!(total.failed - cut_off, nonsense, "{:?}", total.errors);
    let unmarked = total.errors.keys().any(|error| error.starts_with("not a page of Arashi"));
    assert!(unmarked, "{:?}", total.errors);

    // The groups add up to the total: by type, by class, and by both.
    let sum = |class: bool, request_type: bool| -> [u64; 4] {
        let groups = report.groups.iter().filter(|group| {
            (group.class.is_some(), group.request_type.is_some()) == (class, request_type)
        });
        groups.fold([0; 4], |sum, group| {
            let found = &group.summary;
            let found = [found.offered, found.completed, found.rejected, found.failed];
            std::array::from_fn(|index| sum[index] + found[index])
        })
    };
    let all = [total.offered, total.completed, total.rejected, total.failed];
    for (class, request_type) in [(false, true), (true, false), (true, true)] {
        assert_eq!(sum(class, request_type), all, "{class} {request_type}");
    }
    let over_time = report.series.iter().flat_map(|interval| &interval.classes);
    assert_eq!(over_time.map(|class| class.offered).sum::<u64>(), total.offered);
    let names = report.groups.iter().filter_map(|group| group.request_type.as_deref());
    assert_eq!(names.take(9).collect::<Vec<_>>(), REQUEST_TYPES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rejected_user_waits_and_then_logs_in_again() {
    let fate = |number| if number == 5 { Fate::Reject } else { Fate::Answer };
    let (server, url) = Server::start(fate).await;
    let report = report(users(&url, 1.0, ms(700), ms(300))).await;
    assert_eq!(report.total.rejected, 1);
    let seen = server.seen.lock().unwrap();
    assert!(seen[5].has_session, "{seen:?}");
    let again: Vec<_> = seen[6..9].iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(again, ["/login", "/login", "/folders"]);
    assert!(!seen[6].has_session);
    let waited = seen[6].at - seen[5].at;
    assert!((ms(300)..ms(600)).contains(&waited), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_response_ends_with_its_last_byte() {
    let (_, url) = Server::start(|_| Fate::Dawdle(ms(60))).await;
    let report = report(users(&url, 2.0, ms(600), ms(300))).await;
    let latency = &report.total.latency;
    assert!(latency.count > 8 && latency.p50 >= 0.060, "{latency:?}");
    // The search has a target of its own, which it cannot keep.
    let target = |name| {
        let mut groups = report.groups.iter();
        groups.find(|group| group.request_type.as_deref() == Some(name)).unwrap().target_seconds
    };
    assert_eq!((target("search"), target("delete")), (Some(0.001), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_user_keeps_one_connection_for_as_long_as_the_server_does() {
    let (_, url) = Server::start(|_| Fate::Answer).await;
    let report = report(users(&url, 3.0, ms(400), ms(300))).await;
    assert_eq!(report.total.failed, 0, "{:?}", report.total.errors);
    assert_eq!(report.total.connect.count, 3);
}
