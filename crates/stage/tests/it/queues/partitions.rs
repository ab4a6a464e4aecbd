//! Order per key, and one event at a time for each.

use std::collections::HashMap;
use std::time::Duration;

use tamarisk_stage::{Context, Entry, Envelope, blocking_fn, stage_fn};
use tokio::time::{Instant, sleep};

use crate::rig::{Seen, accounts, at_desk, described, settle, until};

fn keyed(key: u32, event: u32) -> Envelope<u32> {
    Envelope::new(event, Entry::new().flow(key))
}

#[tokio::test(start_paused = true)]
async fn events_of_one_key_run_one_at_a_time_and_in_order() {
    let (stage, mut desk) = at_desk(described("keyed").partitioned().workers(4).batch(1));
    stage.sink().send_many([keyed(7, 1), keyed(7, 2), keyed(7, 3)]);
    settle().await;
    let mut begun = desk.begun();
    assert_eq!(begun.len(), 1);
    for event in [1, 2, 3] {
        let case = begun.pop().unwrap();
        assert_eq!(case.event, event);
        case.complete();
        settle().await;
        begun = desk.begun();
    }
    assert_eq!(accounts(&stage).completed, 3);
}

#[tokio::test(start_paused = true)]
async fn events_of_different_keys_run_side_by_side() {
    let (stage, mut desk) = at_desk(described("keyed").partitioned().workers(4));
    stage.sink().send_many((0..12).map(|event| keyed(event % 3, event)));
    settle().await;
    let mut events = desk.events();
    events.sort_unstable();
    assert_eq!(events, [0, 1, 2], "the first of each key, and a worker to spare");
}

#[tokio::test(start_paused = true)]
async fn a_slow_key_holds_nobody_else_up() {
    let (stage, mut desk) = at_desk(described("keyed").partitioned().workers(2).batch(1));
    stage.sink().send_many([keyed(1, 10), keyed(1, 11), keyed(2, 20), keyed(2, 21), keyed(3, 30)]);
    settle().await;
    let mut begun = desk.begun();
    begun.sort_by_key(|case| case.event);
    let _slow = begun.remove(0);
    let mut events = Vec::new();
    while let Some(case) = begun.pop() {
        events.push(case.event);
        case.complete();
        settle().await;
        begun.extend(desk.begun());
    }
    events.sort_unstable();
    assert_eq!(events, [20, 21, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_its_key_in_order() {
    let (stage, mut desk) = at_desk(described("keyed").partitioned().workers(3).batch(2));
    stage.sink().send_many((0..6).map(|event| keyed(1, event)));
    for event in 0..6 {
        let case = desk.next().await;
        assert_eq!(case.event, event);
        match event % 4 {
            0 => case.fail(),
            1 => case.panic(),
            2 => assert!(stage.terminate(case.cx.id())),
            _ => case.complete(),
        }
    }
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.failed, accounts.terminated, accounts.completed), (4, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_single_threaded_stage_runs_one_event_at_a_time_however_many_workers() {
    let seen = Seen::new();
    let noted = seen.clone();
    let start = Instant::now();
    let stage = described("single")
        .single_threaded()
        .workers(4)
        .batch(3)
        .tasks(stage_fn(move |event: u32, _cx: Context| {
            let noted = noted.clone();
            async move {
                sleep(Duration::from_millis(10)).await;
                noted.push((event, start.elapsed().as_millis() as u32));
                Ok(())
            }
        }))
        .unwrap();
    stage.sink().send_many((0..20).map(|event| keyed(event, event)));
    sleep(Duration::from_secs(1)).await;
    let expected: Vec<_> = (0..20).map(|event| (event, (event + 1) * 10)).collect();
    assert_eq!(seen.all(), expected);
}

#[tokio::test]
async fn threads_keep_the_order_of_each_key() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("keyed")
        .partitioned()
        .workers(4)
        .batch(3)
        .threads(blocking_fn(move |event: u32, _cx: Context| {
            noted.push(event);
            std::thread::yield_now();
            Ok(())
        }))
        .unwrap();
    for event in 0..2000 {
        stage.sink().try_send(keyed(event % 10, event)).unwrap();
    }
    until(|| accounts(&stage).completed == 2000).await;
    let mut latest: HashMap<u32, u32> = HashMap::new();
    for event in seen.all() {
        let before = latest.insert(event % 10, event);
        assert!(before.is_none_or(|before| before + 10 == event), "{before:?} before {event}");
    }
}
