//! When a stream holds its place.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{OneByOne, axum, exchange, proxy, read_until, streaming_proxy, within};
use ::axum::Router;
use ::axum::body::{Body, Bytes};
use ::axum::http::StatusCode;
use ::axum::response::IntoResponse;
use ::axum::routing::any;
use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, Arrival, Backlog, Change, Decision, Moved, Timestamp};
use tamarisk_stage::{Gate, StageBuilder};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{advance, pause, resume};

/// Waits until so many run and so many are suspended.
async fn runs(gate: &Gate, running: u64, suspended: u64) {
    while {
        let total = gate.observe().total();
        (total.running, total.suspended) != (running, suspended)
    } {
        tokio::task::yield_now().await;
    }
}

async fn passes(time: Duration) {
    pause();
    advance(time).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    resume();
}

#[tokio::test]
async fn a_stream_that_sends_nothing_for_ten_seconds_lets_others_in() {
    let (send, events) = unbounded_channel::<&'static str>();
    let events = Arc::new(Mutex::new(Some(events)));
    let router = Router::new().fallback(any(async move || {
        let Some(events) = events.lock().take() else { return "other".into_response() };
        let events = futures_util::stream::unfold(events, async |mut events| {
            let event = events.recv().await?;
            Some((Ok::<_, Infallible>(Bytes::from_static(event.as_bytes())), events))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
    }));
    let gate = StageBuilder::new("narrow").law(OneByOne).gate().unwrap();
    let (address, _drain) = proxy(axum(router).await, &gate).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    send.send("data: one\n\n").unwrap();
    within(read_until(&mut client, "one\n\n")).await;

    passes(Duration::from_secs(9)).await;
    within(runs(&gate, 1, 0)).await;
    passes(Duration::from_secs(2)).await;
    within(runs(&gate, 0, 1)).await;
    let other = b"GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(exchange(address, other).await.ends_with("other"));

    send.send("data: two\n\n").unwrap();
    within(read_until(&mut client, "two\n\n")).await;
    within(runs(&gate, 1, 0)).await;
    passes(Duration::from_secs(11)).await;
    within(runs(&gate, 0, 1)).await;
    drop(send);
    within(runs(&gate, 0, 0)).await;
    assert_eq!(gate.observe().total().completed, 2);
}

/// Admits everything, and notes what changes.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Change>>>);

impl AdmissionLaw for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    fn on_move(&mut self, _: Timestamp, moved: &Moved, _: &Backlog<'_>) {
        self.0.lock().push(moved.change);
    }
}

#[tokio::test]
async fn an_error_is_not_the_first_data_of_a_stream() {
    for (status, expected) in [(200, vec![Change::FirstData]), (503, vec![]), (401, vec![])] {
        let router = Router::new().fallback(any(async move || {
            let kind = [("content-type", "text/event-stream")];
            (StatusCode::from_u16(status).unwrap(), kind, "data: one\n\n")
        }));
        let notes = Notes::default();
        let gate = StageBuilder::new("noted").workers(4).law(notes.clone()).gate().unwrap();
        let (address, _drain) = proxy(axum(router).await, &gate).await;
        let request = b"GET /events HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert!(exchange(address, request).await.contains("one"));
        assert_eq!(*notes.0.lock(), expected, "{status}");
    }
}

#[tokio::test]
async fn a_stream_whose_request_comes_in_pieces_waits_for_its_first_data_after_them() {
    let router = Router::new().fallback(any(async |_request: Bytes| {
        ([("content-type", "text/event-stream")], "data: one\n\n")
    }));
    let notes = Notes::default();
    let gate = StageBuilder::new("noted").workers(4).law(notes.clone()).gate().unwrap();
    let (address, _drain) = streaming_proxy(axum(router).await, &gate).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"POST /chat HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n").await.unwrap();
    // It keeps its place, and its time stands still.
    within(runs(&gate, 1, 0)).await;
    while notes.0.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    client.write_all(b"ping").await.unwrap();
    within(read_until(&mut client, "one\n\n")).await;
    within(runs(&gate, 0, 0)).await;
    assert_eq!(*notes.0.lock(), [Change::Suspended, Change::Resumed, Change::FirstData]);
}
