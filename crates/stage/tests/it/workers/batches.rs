//! What a worker takes at once, and what a handler does with it.

use std::time::Duration;

use tamarisk_control::{Change, ClassId};
use tamarisk_stage::{
    Batch, BoxError, Context, Entry, Envelope, Handler, Stage, StageBuilder, blocking_fn, stage_fn,
};

use crate::rig::{self, Law, Seen, accounts, at_desk, described, settle, until};

/// Takes all of a batch at once, holds it for `holds`, and notes how many there were.
struct Gulp {
    seen: Seen<usize>,
    holds: Duration,
    fails: bool,
}

impl Handler<u32> for Gulp {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        let events: Vec<_> = batch.drain().collect();
        self.seen.push(events.len());
        if !self.holds.is_zero() {
            tokio::time::sleep(self.holds).await;
        }
        if self.fails { Err("all of it went wrong".into()) } else { Ok(()) }
    }
}

fn gulping(builder: StageBuilder, holds: Duration, fails: bool) -> (Stage<u32>, Seen<usize>) {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = builder.tasks(move || Gulp { seen: noted.clone(), holds, fails }).unwrap();
    (stage, seen)
}

/// How many events the only worker of a stage takes, of three.
async fn taken(stage: &Stage<u32>) -> u64 {
    stage.sink().send_many(0..3);
    until(|| !stage.running().is_empty()).await;
    accounts(stage).running
}

#[tokio::test(start_paused = true)]
async fn a_function_takes_one_event_at_a_time_unless_more_are_stated() {
    let waits = || stage_fn(|_: u32, _: Context| std::future::pending());
    let spins = || {
        blocking_fn(|_: u32, cx: Context| {
            loop {
                cx.checkpoint()?;
                std::thread::yield_now();
            }
        })
    };
    assert_eq!(taken(&described("tasks").tasks(waits()).unwrap()).await, 1);
    assert_eq!(taken(&described("threads").threads(spins()).unwrap()).await, 1);
    assert_eq!(taken(&described("stated").batch(2).tasks(waits()).unwrap()).await, 2);
    let (handlers, _desk) = rig::desk();
    assert_eq!(taken(&described("handler").tasks(handlers).unwrap()).await, 3);
}

#[tokio::test(start_paused = true)]
async fn events_of_different_kinds_that_are_taken_together_end_as_what_they_are() {
    let law = Law::default();
    let (stage, seen) = gulping(described("kinds").law(law.clone()), Duration::ZERO, false);
    let of_kind = |kind| Envelope::new(0, Entry::new().kind(kind));
    stage.sink().send_many([7, 8, 8, 7].map(of_kind));
    settle().await;
    assert_eq!(seen.all(), [4]);
    assert_eq!(law.script().kinds, [7, 8, 8, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_as_many_as_the_batching_factor_allows() {
    let (stage, seen) = gulping(described("gulp").batch(4), Duration::ZERO, false);
    stage.sink().send_many(0..10);
    settle().await;
    assert_eq!(seen.all(), [4, 4, 2]);
    assert_eq!(accounts(&stage).completed, 10);
}

#[tokio::test(start_paused = true)]
async fn the_batching_factor_is_changed_while_the_stage_runs() {
    let (stage, seen) = gulping(described("gulp").batch(2), Duration::ZERO, false);
    stage.sink().send_many(0..4);
    settle().await;
    stage.set_batch(3);
    stage.sink().send_many(0..4);
    settle().await;
    stage.set_batch(0);
    stage.sink().send_many(0..2);
    settle().await;
    assert_eq!(seen.all(), [2, 2, 3, 1, 1, 1], "zero means one");
}

#[tokio::test(start_paused = true)]
async fn a_worker_leaves_the_others_their_share() {
    // Three workers, seven events: ⌈7/3⌉, ⌈4/3⌉, ⌈2/3⌉ as each comes to the queue.
    let (stage, seen) =
        gulping(described("gulp").workers(3).batch(32), Duration::from_millis(1), false);
    stage.sink().send_many(0..7);
    settle().await;
    assert_eq!(seen.all(), [3, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn events_taken_together_end_together() {
    let (stage, seen) = gulping(described("gulp"), Duration::from_millis(50), true);
    stage.sink().send_many(0..5);
    settle().await;
    assert_eq!(accounts(&stage).running, 5);
    tokio::time::sleep(Duration::from_millis(51)).await;
    assert_eq!(seen.all(), [5]);
    assert_eq!(accounts(&stage).failed, 5);
}

#[tokio::test(start_paused = true)]
async fn events_taken_together_are_overdue_when_the_last_of_them_is() {
    let (stage, _seen) = gulping(described("gulp"), Duration::from_secs(60), false);
    let due = |millis| Envelope::new(1, Entry::new().timeout(Duration::from_millis(millis)));
    stage.sink().send_many([due(10), due(40), due(20)]);
    tokio::time::sleep(Duration::from_millis(39)).await;
    assert_eq!(accounts(&stage).running, 3);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(accounts(&stage).terminated, 3);
    assert_eq!(stage.running(), []);
}

/// Takes what it is offered one by one, sending each on as it came.
struct Relay(tamarisk_stage::Sink<u32>);

impl Handler<u32> for Relay {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        let rejected = self.0.send_many(batch.drain().map(|event| event.map(|event| event * 2)));
        if rejected.is_empty() { Ok(()) } else { Err("rejected".into()) }
    }
}

#[tokio::test(start_paused = true)]
async fn events_sent_on_together_keep_what_they_came_with() {
    let (store, mut desk) = at_desk(described("store").classes(rig::classes(&[0, 0])));
    let onward = store.sink();
    let relay = described("relay")
        .classes(rig::classes(&[0, 0]))
        .tasks(move || Relay(onward.clone()))
        .unwrap();
    let entry = Entry::new().class(ClassId::new(1)).timeout(Duration::from_secs(9));
    relay.sink().send_many([Envelope::new(21, entry)]);
    let case = desk.next().await;
    assert_eq!((case.event, case.cx.class()), (42, ClassId::new(1)));
    assert_eq!(case.cx.time_left(), Some(Duration::from_secs(9)));
}

/// Takes one event of a batch at each call, and none at the calls that are named.
struct Picky {
    takes: Seen<u32>,
    calls: u32,
}

impl Handler<u32> for Picky {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        self.calls += 1;
        if self.calls.is_multiple_of(2) {
            return Ok(());
        }
        let (event, _cx) = batch.next().ok_or("offered nothing")?;
        self.takes.push(event);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_leaves_is_offered_again_and_what_it_will_not_take_fails() {
    let takes = Seen::new();
    let noted = takes.clone();
    let stage = described("picky").tasks(move || Picky { takes: noted.clone(), calls: 0 }).unwrap();
    stage.sink().send_many(0..4);
    settle().await;
    // Takes 0, takes nothing (1 fails), takes 2, takes nothing (3 fails).
    assert_eq!(takes.all(), [0, 2]);
    let accounts = accounts(&stage);
    assert_eq!((accounts.completed, accounts.failed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_failure_takes_no_other_event_of_the_batch_with_it() {
    let (stage, mut desk) = at_desk(described("mixed"));
    stage.sink().send_many(0..4);
    for event in 0..4 {
        let case = desk.next().await;
        assert_eq!(case.event, event);
        match event {
            1 => case.fail(),
            2 => case.panic(),
            _ => case.complete(),
        }
    }
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.completed, accounts.failed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn events_that_became_overdue_in_the_worker_s_hands_are_dropped() {
    let law = Law::default();
    let (stage, mut desk) = at_desk(described("late").law(law.clone()));
    let due = Entry::new().timeout(Duration::from_millis(5));
    stage.sink().send_many([Envelope::new(0, Entry::new()), Envelope::new(1, due)]);
    let first = desk.next().await;
    assert_eq!(accounts(&stage).running, 2, "both are the worker's");
    tokio::time::advance(Duration::from_millis(6)).await;
    first.complete();
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.completed, accounts.dropped), (1, 1));
    // Its law is told so.
    let moves: Vec<_> = law.script().moves.iter().map(|it| (it.change, it.time)).collect();
    assert_eq!(moves, [(Change::Dropped, Duration::from_millis(6))]);
}

/// Lets its first event make the others late, then takes those together.
struct Dawdle;

impl Handler<u32> for Dawdle {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        if batch.next().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(batch.drain().count(), 0);
        // A handler that has no event has no deadline either.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_all_are_overdue_leaves_no_phantom_running() {
    let stage = described("dawdle").tasks(|| Dawdle).unwrap();
    let due = Entry::new().timeout(Duration::from_millis(5));
    let late = Envelope::new(1, due);
    stage.sink().send_many([Envelope::new(0, Entry::new()), late.clone(), late]);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(stage.running(), []);
    tokio::time::sleep(Duration::from_millis(30)).await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.completed, accounts.dropped, accounts.terminated), (1, 2, 0));
    assert_eq!(stage.observe().last_failure, None);
}
