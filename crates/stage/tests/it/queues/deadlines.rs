//! Events that wait too long in the queue.

use std::time::Duration;

use tamarisk_stage::{CallError, Context, Entry, Envelope, Request, TrySink, stage_fn};
use tokio::time::{Instant, sleep, timeout};

use crate::rig::{Law, accounts, at_desk, described, settle};

/// The governor's tick.
const TICK: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn an_overdue_event_is_dropped_when_its_turn_comes() {
    let (stage, mut desk) = at_desk(described("late").batch(1));
    let due = Entry::new().timeout(Duration::from_millis(5));
    stage.sink().send_many([Envelope::new(1, Entry::new()), Envelope::new(2, due)]);
    let first = desk.next().await;
    tokio::time::advance(Duration::from_millis(5)).await;
    first.complete();
    settle().await;
    assert!(desk.begun().is_empty());
    assert_eq!(accounts(&stage).dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn an_overdue_event_need_not_wait_for_its_turn_to_be_told() {
    let stage = described("late")
        .batch(1)
        .tasks(stage_fn(|_request: Request<(), ()>, _cx: Context| std::future::pending()))
        .unwrap();
    let sink = stage.sink();
    let _forever = tokio::spawn({
        let sink = sink.clone();
        async move { sink.call(()).await }
    });
    settle().await;
    let start = Instant::now();
    let due = Entry::new().timeout(Duration::from_millis(30));
    assert_eq!(sink.call_as((), due).await, Err(CallError::Dropped));
    assert!(start.elapsed() <= Duration::from_millis(30) + TICK, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_request_that_hangs_is_told_in_time() {
    let stage = described("late").handler(async |(), _: Context| {
        let forever: Result<(), _> = std::future::pending().await;
        forever
    });
    let stage = stage.unwrap();
    let start = Instant::now();
    let due = Entry::new().timeout(Duration::from_millis(30));
    // Both are there before the worker takes one.
    let hangs = tokio::spawn({
        let stage = stage.clone();
        async move { stage.call(()).await }
    });
    let waits = tokio::spawn(async move { stage.call_as((), due).await });
    let told = timeout(Duration::from_secs(60), waits).await.expect("it is told at all").unwrap();
    assert_eq!(told, Err(CallError::Dropped));
    assert!(start.elapsed() <= Duration::from_millis(30) + TICK, "{:?}", start.elapsed());
    hangs.abort();
}

#[tokio::test(start_paused = true)]
async fn a_drop_makes_room_for_a_waiting_sender() {
    let (stage, mut desk) = at_desk(described("late").queue_capacity(1));
    stage.sink().try_send(1).unwrap();
    let _running = desk.next().await;
    let due = Entry::new().timeout(Duration::from_millis(150));
    stage.sink().try_send(Envelope::new(2, due)).unwrap();
    let start = Instant::now();
    stage.sink().send(3).await.unwrap();
    assert!(start.elapsed() <= Duration::from_millis(150) + TICK, "{:?}", start.elapsed());
    assert_eq!(accounts(&stage).dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_longer_than_the_law_s_patience_is_dropped() {
    let law = Law::default();
    law.script().patience = Some(Duration::from_millis(300));
    let (stage, mut desk) = at_desk(described("patient").law(law).batch(1));
    stage.sink().send_many([1, 2]);
    let _running = desk.next().await;
    sleep(Duration::from_millis(290)).await;
    assert_eq!(accounts(&stage).queued, 1);
    sleep(Duration::from_millis(15) + TICK).await;
    assert_eq!((accounts(&stage).queued, accounts(&stage).dropped), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_the_law_drops_at_the_head_of_the_queue_does_not_run() {
    let law = Law::default();
    let (stage, mut desk) = at_desk(described("dropping").law(law.clone()));
    law.script().drops = true;
    stage.sink().send_many([1, 2, 3]);
    settle().await;
    assert!(desk.begun().is_empty());
    assert_eq!(accounts(&stage).dropped, 3);
    law.script().drops = false;
    stage.sink().try_send(4).unwrap();
    assert_eq!(desk.next().await.event, 4);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_beyond_the_end_of_time_is_no_deadline() {
    let (stage, mut desk) = at_desk(described("patient"));
    let entry = Entry::new().timeout(Duration::MAX);
    stage.sink().try_send(Envelope::new(1, entry)).unwrap();
    let case = desk.next().await;
    assert_eq!((case.cx.deadline(), case.cx.time_left()), (None, None));
    tokio::time::advance(Duration::from_secs(86_400)).await;
    settle().await;
    assert!(!case.is_over());
}

/// An event that sends another as it is destroyed.
struct Hydra(Option<TrySink<Self>>);

impl Drop for Hydra {
    fn drop(&mut self) {
        if let Some(sink) = self.0.take() {
            sink.try_send(Self(None)).ok().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_worker_finds_nothing_is_not_slept_on() {
    let stage =
        described("hydra").tasks(stage_fn(|_event: Hydra, _cx: Context| async { Ok(()) })).unwrap();
    let due = Entry::new().timeout(Duration::from_millis(1));
    let head = Hydra(Some((*stage.sink()).clone()));
    stage.sink().try_send(Envelope::new(head, due)).ok().unwrap();
    tokio::time::advance(Duration::from_millis(2)).await;
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.dropped, accounts.completed, accounts.queued), (1, 1, 0));
}
