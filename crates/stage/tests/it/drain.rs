//! Draining: nothing new comes in, what is inside ends, and the report says how.

use std::time::Duration;

use tamarisk_control::Reason;
use tamarisk_stage::{DrainReport, Entry, Envelope, Phase};
use tokio::time::{Instant, sleep};

use crate::rig::{self, accounts, at_desk, described, settle, until};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_drain_rejects_the_new_and_finishes_the_old() {
    let (stage, mut desk) = at_desk(described("old"));
    let sink = stage.sink();
    sink.send_many(0..4);
    let start = Instant::now();
    let ending = async {
        settle().await;
        assert_eq!(sink.try_send(9).unwrap_err().rejection.reason, Reason::Draining);
        assert_eq!(stage.observe().phase, Phase::Draining);
        for event in 0..4 {
            let case = desk.next().await;
            sleep(Duration::from_secs(1)).await;
            if event == 2 { case.fail() } else { case.complete() }
        }
    };
    let (report, ()) = tokio::join!(stage.drain(PATIENCE), ending);
    let expected = DrainReport { stage: "old".into(), finished: 4, ..Default::default() };
    assert_eq!(report, expected);
    assert!(report.is_clean());
    assert_eq!(start.elapsed(), Duration::from_secs(4), "it waits no longer than it must");
    assert_eq!(stage.observe().phase, Phase::Closed);
    assert_eq!(sink.try_send(9).unwrap_err().rejection.reason, Reason::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stage_with_nothing_inside_drains_at_once() {
    let (stage, _desk) = at_desk(described("idle"));
    let start = Instant::now();
    assert!(stage.drain(PATIENCE).await.is_clean());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(stage.drain(PATIENCE).await.is_clean(), "and a second time");
}

#[tokio::test(start_paused = true)]
async fn after_its_time_a_drain_cuts_the_queue_and_what_runs() {
    let (stage, mut desk) = at_desk(described("cut").workers(2).batch(1));
    stage.sink().send_many(0..6);
    let ending = async {
        desk.next().await.complete();
        sleep(PATIENCE / 2).await;
    };
    let start = Instant::now();
    let (report, ()) = tokio::join!(stage.drain(PATIENCE), ending);
    assert_eq!(start.elapsed(), PATIENCE);
    let cut = DrainReport { stage: "cut".into(), ..DrainReport::default() };
    let expected = DrainReport { finished: 1, dropped: 3, terminated: 2, ..cut };
    assert_eq!(report, expected);
    assert!(!report.is_clean());
    assert_eq!(accounts(&stage).inside(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_holds_and_has_not_begun_is_cut_with_the_queue() {
    let (stage, mut desk) = at_desk(described("cut"));
    stage.sink().send_many(0..6);
    settle().await;
    let report = stage.drain(PATIENCE).await;
    assert_eq!((report.dropped, report.terminated, report.left), (5, 1, 0));
    assert_eq!(desk.begun().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_report_tells_what_was_too_late_from_what_was_finished() {
    let (stage, mut desk) = at_desk(described("late").batch(1));
    let due = |event, secs| Envelope::new(event, Entry::new().timeout(Duration::from_secs(secs)));
    stage.sink().send_many([due(0, 2), due(1, 1), due(2, 9)]);
    let ending = async {
        let first = desk.next().await;
        let last = desk.next().await;
        assert_eq!(last.event, 2);
        last.complete();
        assert!(first.is_over());
    };
    let (report, ()) = tokio::join!(stage.drain(PATIENCE), ending);
    assert_eq!((report.finished, report.dropped, report.terminated), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn events_of_places_reserved_before_are_part_of_the_report() {
    let (stage, mut desk) = at_desk(described("promised").batch(1));
    let places: Vec<_> = (0..3).map(|_| stage.sink().reserve(Entry::new()).unwrap()).collect();
    let ending = async {
        settle().await;
        for (event, place) in (0..).zip(places) {
            place.send(event).unwrap();
        }
        desk.next().await.complete();
    };
    let (report, ()) = tokio::join!(stage.drain(PATIENCE), ending);
    assert_eq!((report.finished, report.dropped, report.terminated), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_ended_is_reported_as_left() {
    let (stage, mut desk) = at_desk(described("stubborn").batch(1));
    stage.sink().send_many(0..2);
    let case = desk.next().await;
    let shield = case.cx.shield();
    let start = Instant::now();
    let report = stage.drain(PATIENCE).await;
    assert_eq!((report.dropped, report.left), (1, 1));
    assert!(start.elapsed() <= PATIENCE + Duration::from_secs(1), "a moment's grace, no more");
    assert_eq!(accounts(&stage).running, 1);
    drop(shield);
    settle().await;
    assert_eq!(accounts(&stage).inside(), 0);
}

#[tokio::test]
async fn a_drain_ends_blocking_work_at_its_checkpoint() {
    let stage = described("blocking")
        .threads(tamarisk_stage::blocking_fn(|_event: u32, cx: tamarisk_stage::Context| {
            loop {
                cx.checkpoint()?;
                std::thread::yield_now();
            }
        }))
        .unwrap();
    stage.sink().send_many(0..3);
    until(|| !stage.running().is_empty()).await;
    let report = stage.drain(Duration::ZERO).await;
    // A busy machine may not let the thread come to its checkpoint in time.
    assert_eq!((report.dropped, report.terminated + report.left), (2, 1));
    until(|| accounts(&stage).terminated == 1).await;
}

#[tokio::test(start_paused = true)]
async fn two_drains_at_once_both_end() {
    let (stage, mut desk) = at_desk(described("twice"));
    stage.sink().send_many(0..2);
    let ending = async {
        desk.next().await.complete();
        desk.next().await.complete();
    };
    let (one, other, ()) = tokio::join!(stage.drain(PATIENCE), stage.drain(PATIENCE), ending);
    assert_eq!((one.finished, other.finished), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_stage_closed_while_it_drains_ends_the_drain() {
    let (stage, _desk) = at_desk(described("closed"));
    stage.sink().send_many(0..2);
    let start = Instant::now();
    let closing = async {
        sleep(Duration::from_secs(1)).await;
        stage.close();
    };
    let (report, ()) = tokio::join!(stage.drain(PATIENCE), closing);
    assert_eq!((report.dropped, report.terminated), (1, 1));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn workers_of_a_closed_stage_are_gone() {
    let (handlers, mut desk) = rig::desk();
    let stage = described("gone").workers(3).tasks(handlers).unwrap();
    settle().await;
    stage.close();
    drop(stage);
    settle().await;
    // Their handlers held the only senders.
    assert!(desk.begun().is_empty());
    assert!(desk.is_deserted());
}
