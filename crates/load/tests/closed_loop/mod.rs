//! Users of a closed loop: how long they wait, how much they have under way, and one that panics.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Response};
use tamarisk_load::{
    ClosedLoop, EmulatedUser, Population, RequestType, RetryAfter, RunError, Spread, UserRequest,
    run,
};

use super::{closed, level, ms, report, users};
use crate::service::{self, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn users_pause_after_an_error_that_is_an_answer_as_after_a_rejection() {
    let service = service::http(|_| async { status(404) }).await;
    let restless = ClosedLoop { after_reject: ms(2), ..users(level(1.0, &[], ms(1000))) };
    let report = report(closed(&service, restless)).await;
    assert_eq!(report.total.errors["status 404"], report.total.failed);
    assert!(report.total.failed > 10, "{}", report.total.failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_who_honours_a_retry_after_comes_back_before_it_is_over() {
    let service = service::http(|_| async {
        let mut busy = status(429);
        busy.headers_mut().insert("retry-after", "1".parse().unwrap());
        busy
    })
    .await;
    let polite = ClosedLoop {
        retry_after: RetryAfter::Honour,
        spread: Spread::new(1.0).unwrap(),
        ..users(level(20.0, &[], ms(900)))
    };
    let report = report(closed(&service, polite)).await;
    assert_eq!((report.total.offered, report.total.rejected), (20, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_partly_open_user_has_a_hundred_requests_under_way_at_most() {
    let requests = Arc::new(AtomicU64::new(0));
    // One in fifty is answered at once, the others never.
    let service = service::http(move |_| {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        async move {
            if number % 50 != 49 {
                pending::<()>().await;
            }
            status(200)
        }
    })
    .await;
    let hasty = ClosedLoop { resend: Some(ms(5)), ..users(level(1.0, &[], ms(5000))) };
    let report = report(closed(&service, hasty).drain(ms(0))).await;
    assert!(report.total.completed > 0);
    let most = service.take_inside_max();
    assert!((51..=100).contains(&most), "{most}");
}

/// Users who do not survive an answer.
#[derive(Debug)]
struct Fragile {
    types: [RequestType; 1],
    classes: [String; 1],
}

struct FragileUser;

impl Population for Fragile {
    fn request_types(&self) -> &[RequestType] {
        &self.types
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn user(&self, _number: usize) -> Box<dyn EmulatedUser> {
        Box::new(FragileUser)
    }
}

impl EmulatedUser for FragileUser {
    fn class(&self) -> usize {
        0
    }

    fn next_request(&mut self) -> UserRequest {
        UserRequest {
            request_type: 0,
            method: Method::GET,
            path: PathAndQuery::from_static("/"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    fn read(&mut self, _answer: &Response<Vec<u8>>) -> Result<(), &'static str> {
        panic!("not what this user expected");
    }

    fn begin_again(&mut self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_user_that_panics_ends_the_run_with_an_error() {
    let service = service::http(|_| async { status(200) }).await;
    let page = RequestType { name: "page".to_owned(), target: None };
    let fragile = Fragile { types: [page], classes: ["all".to_owned()] };
    let plan = closed(&service, users(level(2.0, &[], ms(1000)))).population(Arc::new(fragile));
    let error = run(plan.build().unwrap(), pending(), |_| {}).await.unwrap_err();
    assert!(matches!(error, RunError::Thread(_)), "{error}");
}
