//! The number of workers, changed while they work.

use std::collections::HashMap;
use std::time::Duration;

use tamarisk_stage::{BuildError, Context, Entry, Envelope, blocking_fn, stage_fn};
use tokio::time::sleep;

use crate::rig::{self, Law, Seen, accounts, at_desk, described, settle, until};

#[tokio::test(start_paused = true)]
async fn as_many_events_run_as_there_are_workers() {
    let (stage, mut desk) = at_desk(described("resized").workers_between(1..=4).batch(1));
    stage.sink().send_many(0..10);
    settle().await;
    assert_eq!(desk.begun().len(), 1);
    assert_eq!(stage.set_workers(4), Ok(4));
    settle().await;
    assert_eq!(desk.begun().len(), 3);
    assert_eq!(stage.observe().workers, 4);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_workers_stays_within_its_bounds() {
    let (stage, mut desk) = at_desk(described("bounded").workers_between(2..=3).batch(1));
    assert_eq!(stage.set_workers(0), Ok(2));
    assert_eq!(stage.set_workers(99), Ok(3));
    stage.sink().send_many(0..10);
    settle().await;
    assert_eq!(desk.begun().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_too_many_finish_what_they_hold_and_leave() {
    let (stage, mut desk) = at_desk(described("shrinking").workers_between(1..=3).batch(2));
    stage.set_workers(3).unwrap();
    stage.sink().send_many(0..6);
    settle().await;
    let cases = desk.begun();
    assert_eq!(cases.len(), 3);
    stage.set_workers(1).unwrap();
    settle().await;
    assert!(cases.iter().all(|case| !case.is_over()));
    for case in cases {
        case.complete();
    }
    settle().await;
    let cases = desk.begun();
    // Shares of ⌈6/3⌉, ⌈4/3⌉ and ⌈2/3⌉: two workers hold another event.
    assert_eq!(cases.len(), 2, "the rest of what they took");
    for case in cases {
        case.complete();
    }
    settle().await;
    stage.sink().send_many(6..10);
    settle().await;
    let mut left = desk.begun();
    assert_eq!(left.len(), 1, "one worker is left");
    while let Some(case) = left.pop() {
        case.complete();
        settle().await;
        left.extend(desk.begun());
    }
    assert_eq!(accounts(&stage).completed, 10);
}

#[tokio::test(start_paused = true)]
async fn idle_workers_leave_without_an_event_to_wake_them() {
    let law = Law::default();
    let (stage, mut desk) =
        at_desk(described("idle").workers_between(1..=8).batch(1).law(law.clone()));
    stage.set_workers(8).unwrap();
    settle().await;
    stage.set_workers(2).unwrap();
    settle().await;
    stage.sink().send_many(0..8);
    settle().await;
    assert_eq!(desk.begun().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn shrinking_and_growing_again_leaves_the_workers_that_are_wanted() {
    let (stage, mut desk) = at_desk(described("seesaw").workers_between(1..=4).batch(1));
    for workers in [4, 1, 4, 2, 3, 1, 2, 4, 3] {
        stage.set_workers(workers).unwrap();
        if workers % 2 == 0 {
            settle().await;
        }
    }
    settle().await;
    stage.sink().send_many(0..20);
    settle().await;
    assert_eq!(desk.begun().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_or_run_twice_while_tasks_come_and_go() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("busy")
        .workers_between(1..=5)
        .batch(3)
        .tasks(stage_fn(move |event: u64, _cx: Context| {
            let noted = noted.clone();
            async move {
                sleep(Duration::from_millis(1 + event % 7)).await;
                noted.push(event);
                Ok(())
            }
        }))
        .unwrap();
    for round in 0..60 {
        stage.sink().send_many(round * 5..(round + 1) * 5);
        stage.set_workers(1 + (round as u32 * 7) % 5).unwrap();
        sleep(Duration::from_millis(round % 4)).await;
    }
    sleep(Duration::from_secs(5)).await;
    let mut all = seen.all();
    all.sort_unstable();
    assert_eq!(all, (0..300).collect::<Vec<_>>());
    assert_eq!(accounts(&stage).completed, 300);
}

#[tokio::test]
async fn no_event_is_lost_or_run_twice_while_threads_come_and_go() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("busy")
        .workers_between(1..=5)
        .batch(3)
        .threads(blocking_fn(move |event: u32, _cx: Context| {
            noted.push(event);
            std::thread::yield_now();
            Ok(())
        }))
        .unwrap();
    for round in 0..200 {
        stage.sink().send_many(round * 5..(round + 1) * 5);
        stage.set_workers(1 + (round * 7) % 5).unwrap();
    }
    until(|| accounts(&stage).completed == 1000).await;
    let mut all = seen.all();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_order_of_each_key_survives_resizing() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("keyed")
        .workers_between(1..=6)
        .partitioned()
        .batch(4)
        .tasks(stage_fn(move |(key, number): (u64, u64), _cx: Context| {
            let noted = noted.clone();
            async move {
                sleep(Duration::from_millis((key * 3 + number) % 5)).await;
                noted.push((key, number));
                Ok(())
            }
        }))
        .unwrap();
    for number in 0..100 {
        for key in 0..8 {
            let event = Envelope::new((key, number), Entry::new().flow(key));
            stage.sink().try_send(event).unwrap();
        }
        stage.set_workers(1 + (number as u32 * 5) % 6).unwrap();
        sleep(Duration::from_millis(number % 3)).await;
    }
    sleep(Duration::from_secs(10)).await;
    let mut by_key: HashMap<u64, Vec<u64>> = HashMap::new();
    for (key, number) in seen.all() {
        by_key.entry(key).or_default().push(number);
    }
    assert_eq!(by_key.len(), 8);
    for numbers in by_key.values() {
        assert_eq!(numbers, &(0..100).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_cannot_work_is_not_built() {
    let (handlers, _desk) = rig::desk();
    let rejected = |builder: tamarisk_stage::StageBuilder| builder.gate().err();
    let stage = || "wrong".to_owned();
    assert_eq!(
        rejected(described("wrong").workers(0)),
        Some(BuildError::NoWorkers { stage: stage() })
    );
    #[allow(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let reversed = described("wrong").workers_between(3..=2);
    assert_eq!(rejected(reversed), Some(BuildError::NoWorkers { stage: stage() }));
    assert_eq!(
        rejected(described("wrong").queue_capacity(0)),
        Some(BuildError::NoQueue { stage: stage() })
    );
    assert_eq!(
        described("wrong").batch(0).tasks(handlers).err(),
        Some(BuildError::NoBatch { stage: stage() })
    );
}

#[tokio::test]
async fn a_stage_may_have_any_name() {
    let seen = Seen::new();
    let stage = described("nul\0 and ☂").threads(seen.notes()).unwrap();
    stage.sink().try_send(1).unwrap();
    until(|| accounts(&stage).completed == 1).await;
    assert_eq!(stage.observe().name, "nul\0 and ☂");
}
