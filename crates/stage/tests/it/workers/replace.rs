//! Handlers, replaced while the stage runs.

use std::time::Duration;

use tamarisk_control::{AdmissionLaw, Arrival, Backlog, Concurrency, Decision, Timestamp};
use tamarisk_stage::{Context, Stage, stage_fn};

use crate::rig::{self, Law, Seen, accounts, at_desk, described, settle, until};

#[tokio::test(start_paused = true)]
async fn the_new_handlers_take_over_the_queue_and_the_old_ones_finish_what_they_hold() {
    let (stage, mut old) = at_desk(described("replaced").batch(1));
    stage.sink().send_many(0..3);
    let held = old.next().await;
    let (handlers, mut new) = rig::desk();
    stage.replace_with_tasks(handlers).unwrap();
    assert_eq!(new.next().await.event, 1);
    settle().await;
    assert!(!held.is_over());
    held.complete();
    settle().await;
    assert!(old.begun().is_empty());
    assert_eq!(accounts(&stage).completed, 1);
}

#[tokio::test(start_paused = true)]
async fn events_of_replaced_handlers_can_still_be_seen_and_ended() {
    let (stage, mut old) = at_desk(described("replaced").batch(1));
    stage.sink().send_many(0..2);
    let held = old.next().await;
    let (handlers, mut new) = rig::desk();
    stage.replace_with_tasks(handlers).unwrap();
    let fresh = new.next().await;
    let mut running: Vec<_> = stage.running().into_iter().map(|running| running.id).collect();
    running.sort_by_key(|id| *id != held.cx.id());
    assert_eq!(running, [held.cx.id(), fresh.cx.id()]);
    assert!(stage.terminate(held.cx.id()));
    settle().await;
    assert!(held.is_over() && !fresh.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_drain_cuts_what_replaced_handlers_still_run() {
    let (stage, mut old) = at_desk(described("replaced"));
    stage.sink().try_send(1).unwrap();
    let held = old.next().await;
    let (handlers, _new) = rig::desk();
    stage.replace_with_tasks(handlers).unwrap();
    let report = stage.drain(Duration::from_secs(1)).await;
    assert!(held.is_over());
    assert_eq!((report.terminated, report.left), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn as_many_workers_start_anew_as_there_were_and_with_the_same_batching() {
    let law = Law::default();
    let (stage, _desk) =
        at_desk(described("replaced").workers_between(1..=4).batch(1).law(law.clone()));
    // What a law wants in progress is its own affair, and no number of workers.
    law.script().limit = Some(Concurrency::new(16));
    stage.set_workers(3).unwrap();
    stage.set_batch(2);
    settle().await;
    let (handlers, mut new) = rig::desk();
    stage.replace_with_tasks(handlers).unwrap();
    settle().await;
    stage.sink().send_many(0..40);
    settle().await;
    assert_eq!(new.begun().len(), 3);
    assert_eq!(accounts(&stage).running, 6);
    assert_eq!(stage.set_workers(4), Ok(4));
    settle().await;
    assert_eq!(new.begun().len(), 1);
}

#[tokio::test]
async fn tasks_are_replaced_by_threads_and_back_without_losing_an_event() {
    let (first, second, third) = (Seen::new(), Seen::new(), Seen::new());
    let stage: Stage<u32> = described("moving").workers(2).batch(2).tasks(first.notes()).unwrap();
    let sink = stage.sink();
    sink.send_many(0..100);
    until(|| first.all().len() > 10).await;
    sink.send_many(100..200);
    stage.replace_with_threads(second.notes()).unwrap();
    assert_eq!(stage.observe().runs, "threads");
    sink.send_many(200..300);
    until(|| !second.all().is_empty()).await;
    stage.replace_with_tasks(third.notes()).unwrap();
    assert_eq!(stage.observe().runs, "tasks");
    sink.send_many(300..400);
    until(|| accounts(&stage).completed == 400).await;
    let mut all = [first.all(), second.all(), third.all()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..400).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_law_is_replaced_live() {
    let (stage, _desk) = at_desk(described("law"));
    let strict = Law::default();
    strict.script().rejects =
        Some(tamarisk_control::Rejection::new(tamarisk_control::Reason::RateExceeded));
    assert!(stage.sink().try_send(1).is_ok());
    stage.set_law(Box::new(strict));
    assert!(stage.sink().try_send(1).is_err());
}

/// A law that observes its stage when it is dropped.
struct Observes {
    stage: Stage<u32>,
    seen: Seen<Option<&'static str>>,
}

impl AdmissionLaw for Observes {
    fn name(&self) -> &'static str {
        "observes"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }
}

impl Drop for Observes {
    fn drop(&mut self) {
        let (stage, (tell, told)) = (self.stage.clone(), std::sync::mpsc::channel());
        // In a thread, because a locked stage would block this one indefinitely.
        std::thread::spawn(move || tell.send(stage.observe().law));
        self.seen.push(told.recv_timeout(Duration::from_secs(5)).ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_law_is_dropped_without_the_lock_of_the_stage() {
    let (stage, _desk) = at_desk(described("law"));
    let seen = Seen::new();
    stage.set_law(Box::new(Observes { stage: stage.clone(), seen: seen.clone() }));
    stage.set_law(Box::new(Law::default()));
    assert_eq!(seen.all(), [Some("scripted")]);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_a_single_threaded_stage_survives_a_replacement() {
    let seen = Seen::new();
    let slowly = || {
        let noted = seen.clone();
        stage_fn(move |event: u32, _cx: Context| {
            let noted = noted.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(u64::from(event % 3))).await;
                noted.push(event);
                Ok(())
            }
        })
    };
    let stage = described("single").single_threaded().workers(3).batch(4).tasks(slowly()).unwrap();
    for round in 0..10 {
        stage.sink().send_many(round * 10..(round + 1) * 10);
        tokio::time::sleep(Duration::from_millis(7)).await;
        stage.replace_with_tasks(slowly()).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.all(), (0..100).collect::<Vec<_>>());
}
