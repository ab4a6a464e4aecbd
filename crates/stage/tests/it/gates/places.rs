//! Places of a gate that events give up while they run.

use std::time::Duration;

use tamarisk_control::{Change, Ending};
use tamarisk_stage::{Accounts, Discipline, Entry, Gate, GatePermit};
use tokio::time::{advance, sleep};

use crate::rig::{Law, described, settle};

const MS: Duration = Duration::from_millis(1);

fn gate(workers: u32) -> (Gate, Law) {
    let law = Law::default();
    let described = described("gate").workers(workers).law(law.clone());
    (described.discipline(Discipline::EarliestDue).gate().unwrap(), law)
}

fn accounts(gate: &Gate) -> Accounts {
    let total = gate.observe().total();
    assert!(total.balance(), "{total:?}");
    total
}

fn enter(gate: &Gate) -> GatePermit {
    gate.try_enter(Entry::new()).unwrap()
}

/// What has become of places, in order.
fn changes(law: &Law) -> Vec<Change> {
    law.script().moves.iter().map(|moved| moved.change).collect()
}

#[tokio::test(start_paused = true)]
async fn what_runs_for_too_long_gives_up_its_place_and_is_accounted_for_to_its_end() {
    let (gate, law) = gate(1);
    law.script().park_after = Some(250 * MS);
    let long = enter(&gate);
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.enter(Entry::new()).await.unwrap() }
    });
    advance(150 * MS).await;
    settle().await;
    assert_eq!((accounts(&gate).running, accounts(&gate).queued), (1, 1));
    advance(200 * MS).await;
    let next = waiting.await.unwrap();
    let now = accounts(&gate);
    assert_eq!((now.parked, now.running, now.inside()), (1, 1, 2));

    long.complete();
    assert_eq!(changes(&law), [Change::Parked, Change::ParkedEnded]);
    assert!(law.script().endings.is_empty(), "it held no place that could become free");
    next.complete();
    let now = accounts(&gate);
    assert_eq!((now.completed, now.inside()), (2, 0));
    assert_eq!(law.script().endings, [Ending::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_event_lets_others_in_and_its_pause_is_no_service() {
    let (gate, law) = gate(1);
    let mut slow = enter(&gate);
    advance(10 * MS).await;
    slow.suspend();
    slow.suspend();
    let other = enter(&gate);
    assert_eq!((accounts(&gate).suspended, accounts(&gate).running), (1, 1));
    advance(1000 * MS).await;
    slow.resume();
    assert_eq!(accounts(&gate).running, 2, "it does not queue again");
    advance(20 * MS).await;
    slow.complete();
    assert_eq!(law.script().services, [[30 * MS, 30 * MS]]);
    let seen = &gate.observe().classes[0];
    for times in [&seen.service_times, &seen.response_times] {
        assert_eq!((times.count(), times.sum_seconds()), (1, 0.03));
    }
    assert_eq!(changes(&law), [Change::Suspended, Change::Resumed]);
    other.complete();

    let mut leaves = enter(&gate);
    leaves.suspend();
    drop(leaves);
    let now = accounts(&gate);
    assert_eq!((now.abandoned, now.completed, now.inside()), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_paused_event_keeps_its_place_and_its_pause_is_no_service() {
    let (gate, law) = gate(1);
    let mut slow = enter(&gate);
    advance(10 * MS).await;
    slow.pause();
    slow.pause();
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.enter(Entry::new()).await.unwrap() }
    });
    advance(1000 * MS).await;
    settle().await;
    let now = accounts(&gate);
    assert_eq!((now.running, now.queued, now.suspended), (1, 1, 0));
    slow.resume();
    advance(20 * MS).await;
    slow.complete();
    assert_eq!(law.script().services, [[30 * MS, 30 * MS]]);
    assert_eq!(changes(&law), [Change::Suspended, Change::Resumed]);
    waiting.await.unwrap().complete();

    let mut leaves = enter(&gate);
    leaves.pause();
    drop(leaves);
    let now = accounts(&gate);
    assert_eq!((now.abandoned, now.completed, now.inside()), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_gives_up_its_place_once_it_is_inside_for_too_long() {
    let (gate, law) = gate(1);
    law.script().park_after = Some(250 * MS);
    let mut slow = enter(&gate);
    slow.pause();
    sleep(200 * MS).await;
    assert_eq!((accounts(&gate).running, accounts(&gate).suspended), (1, 0));
    // The next tick finds it.
    sleep(400 * MS).await;
    assert_eq!((accounts(&gate).running, accounts(&gate).suspended), (0, 1));
    slow.resume();
    assert_eq!(accounts(&gate).running, 1);
    // From now on it has a place only while it is worked on.
    slow.pause();
    assert_eq!((accounts(&gate).running, accounts(&gate).suspended), (0, 1));
    let both = [Change::Suspended, Change::Resumed, Change::Suspended];
    assert_eq!(changes(&law), both);
    slow.resume();
    advance(20 * MS).await;
    slow.complete();
    assert_eq!(law.script().services, [[20 * MS, 20 * MS]]);
    assert_eq!((accounts(&gate).completed, accounts(&gate).inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_answered_by_its_first_data_and_keeps_its_place() {
    let (gate, law) = gate(1);
    let mut stream = enter(&gate);
    advance(40 * MS).await;
    stream.first_data();
    advance(1000 * MS).await;
    assert_eq!(accounts(&gate).running, 1);
    // What comes later, and how long its client lets it wait then, is not part of the answer.
    stream.first_data();
    stream.suspend();
    advance(1000 * MS).await;
    stream.resume();
    stream.complete();
    assert_eq!(law.script().services, [[1040 * MS, 40 * MS]]);
    assert_eq!(law.script().moves[0].time, 40 * MS);
    assert_eq!(changes(&law), [Change::FirstData, Change::StreamSuspended, Change::StreamResumed]);
    let seen = gate.observe().classes[0].response.unwrap();
    assert!(seen.max < 45 * MS, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_once_after_the_first_data_and_only_of_what_holds_its_place() {
    let (gate, law) = gate(1);
    let mut stream = enter(&gate);
    stream.suspend();
    advance(1000 * MS).await;
    stream.resume();
    advance(40 * MS).await;
    stream.progressed();
    stream.first_data();
    advance(30 * MS).await;
    stream.suspend();
    advance(1000 * MS).await;
    stream.resume();
    advance(50 * MS).await;
    stream.progressed();
    advance(10 * MS).await;
    stream.progressed();
    let told = law.script().moves.clone();
    let times: Vec<_> = told.iter().map(|moved| (moved.change, moved.time)).collect();
    let expected = [
        (Change::Suspended, Duration::ZERO),
        (Change::Resumed, Duration::ZERO),
        (Change::FirstData, 40 * MS),
        (Change::StreamSuspended, 70 * MS),
        (Change::StreamResumed, 70 * MS),
        (Change::Progressed, 80 * MS),
    ];
    assert_eq!(times, expected);
    stream.complete();

    law.script().moves.clear();
    let mut suspended = enter(&gate);
    suspended.first_data();
    suspended.suspend();
    suspended.progressed();
    suspended.resume();
    suspended.progressed();
    assert_eq!(changes(&law), [Change::FirstData, Change::StreamSuspended, Change::StreamResumed]);
    suspended.complete();

    law.script().moves.clear();
    law.script().park_after = Some(250 * MS);
    let mut parked = enter(&gate);
    parked.first_data();
    advance(400 * MS).await;
    settle().await;
    parked.progressed();
    assert_eq!(changes(&law), [Change::FirstData, Change::Parked]);
    parked.complete();
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_the_first_data_is_not_part_of_the_answer() {
    let (gate, law) = gate(1);
    let mut stream = enter(&gate);
    advance(30 * MS).await;
    stream.suspend();
    advance(1000 * MS).await;
    stream.resume();
    advance(10 * MS).await;
    stream.suspend();
    advance(500 * MS).await;
    // While it is suspended, too.
    stream.first_data();
    advance(500 * MS).await;
    stream.resume();
    advance(100 * MS).await;
    stream.complete();
    assert_eq!(law.script().services, [[140 * MS, 40 * MS]]);
    let before = [Change::Suspended, Change::Resumed, Change::Suspended];
    assert_eq!(changes(&law), [&before[..], &[Change::StreamResumed]].concat());
}

#[tokio::test(start_paused = true)]
async fn what_may_not_start_is_passed_over_and_starts_when_it_may() {
    let (gate, law) = gate(2);
    law.script().held_back = vec![7];
    let held = gate.clone();
    let held = tokio::spawn(async move { held.enter(Entry::new().kind(7)).await.unwrap() });
    settle().await;
    assert_eq!((accounts(&gate).queued, accounts(&gate).running), (1, 0));
    let other = gate.enter(Entry::new().kind(8)).await.unwrap();
    assert_eq!((accounts(&gate).queued, accounts(&gate).running), (1, 1));
    law.script().held_back.clear();
    other.complete();
    held.await.unwrap().complete();
    assert_eq!(accounts(&gate).completed, 2);
}

#[tokio::test(start_paused = true)]
async fn the_law_is_told_of_whoever_leaves_the_queue() {
    let (gate, law) = gate(1);
    let first = enter(&gate);
    let wait = |entry: Entry| {
        let gate = gate.clone();
        tokio::spawn(async move { gate.enter(entry).await })
    };
    let leaves = wait(Entry::new());
    let late = wait(Entry::new().timeout(50 * MS));
    settle().await;
    leaves.abort();
    assert!(leaves.await.is_err_and(|error| error.is_cancelled()));
    advance(60 * MS).await;
    first.complete();
    assert!(late.await.is_ok_and(|entered| entered.is_err()));
    assert_eq!(changes(&law), [Change::Abandoned, Change::Dropped]);
    assert_eq!((accounts(&gate).abandoned, accounts(&gate).dropped), (1, 1));
}
