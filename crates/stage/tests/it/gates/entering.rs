//! Gates: events that run in their own callers, once these hold a permit.

use std::future::pending;
use std::time::Duration;

use tamarisk_control::{Concurrency, Ending, Reason, Rejection};
use tamarisk_stage::{
    Accounts, BuildError, DrainReport, EnterError, Entry, Gate, GatePermit, RunError,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::rig::{self, Law, Seen, described, settle};

fn gate(workers: u32) -> Gate {
    described("gate").workers(workers).gate().unwrap()
}

fn accounts(gate: &Gate) -> Accounts {
    let observation = gate.observe();
    for class in &observation.classes {
        assert!(class.accounts.balance(), "{:?}", class.accounts);
    }
    observation.total()
}

fn enter(gate: &Gate) -> GatePermit {
    gate.try_enter(Entry::new()).unwrap()
}

/// A caller that enters and passes its permit on.
fn caller(gate: &Gate, entry: Entry) -> JoinHandle<Result<GatePermit, EnterError>> {
    let gate = gate.clone();
    tokio::spawn(async move { gate.enter(entry).await })
}

async fn waiting(gate: &Gate) -> JoinHandle<Result<GatePermit, EnterError>> {
    let waiting = caller(gate, Entry::new());
    settle().await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn every_ending_of_a_permit_is_its_outcome() {
    let law = Law::default();
    let gate = described("gate").law(law.clone()).gate().unwrap();
    enter(&gate).complete();
    enter(&gate).fail();
    drop(enter(&gate));
    enter(&gate).terminate();
    enter(&gate).outlast();
    let panics = gate.clone();
    let panicking = tokio::spawn(async move {
        let _permit = panics.try_enter(Entry::new()).unwrap();
        panic!("while inside");
    });
    assert!(panicking.await.unwrap_err().is_panic());
    let mut stream = enter(&gate);
    stream.untimed();
    stream.complete();

    let accounts = accounts(&gate);
    assert_eq!((accounts.offered, accounts.inside()), (7, 0));
    assert_eq!((accounts.completed, accounts.failed), (2, 2));
    assert_eq!((accounts.abandoned, accounts.terminated), (2, 1));
    let expected = [
        Ending::Completed,
        Ending::Failed,
        Ending::Abandoned,
        Ending::Terminated,
        Ending::Terminated,
        Ending::Failed,
        Ending::Untimed,
    ];
    assert_eq!(law.script().endings, expected);
}

#[tokio::test(start_paused = true)]
async fn a_class_is_found_by_its_name() {
    let gate = described("gate").classes(["gold", "bronze"]).gate().unwrap();
    let bronze = gate.class("bronze").unwrap();
    assert_eq!(gate.class("silver"), None);
    gate.try_enter(Entry::new().class(bronze)).unwrap().complete();
    let observation = gate.observe();
    let seen = observation.classes.iter().find(|class| class.name == "bronze").unwrap();
    assert_eq!(seen.accounts.completed, 1);
}

#[tokio::test(start_paused = true)]
async fn callers_are_let_in_in_the_order_in_which_they_came() {
    let gate = gate(1);
    let order = Seen::new();
    let first = enter(&gate);
    let mut callers = Vec::new();
    for caller in 0..20 {
        let (gate, order) = (gate.clone(), order.clone());
        callers.push(tokio::spawn(async move {
            let permit = gate.enter(Entry::new()).await.unwrap();
            order.push(caller);
            sleep(Duration::from_millis(1)).await;
            permit.complete();
        }));
        settle().await;
    }
    assert_eq!((accounts(&gate).queued, accounts(&gate).running), (20, 1));
    first.complete();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(order.all(), (0..20).collect::<Vec<_>>());
    assert_eq!(accounts(&gate).completed, 21);
}

#[tokio::test(start_paused = true)]
async fn nobody_slips_past_those_who_wait() {
    let gate = gate(1);
    let first = enter(&gate);
    let second = waiting(&gate).await;
    first.complete();
    // The place is the waiting caller's from now on, before its task has run.
    assert_eq!(gate.try_enter(Entry::new()).err(), Some(Rejection::new(Reason::QueueFull)));
    second.await.unwrap().unwrap().complete();
    enter(&gate).complete();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_the_queue_is_passed_over() {
    let gate = gate(1);
    let first = enter(&gate);
    let (second, third) = (waiting(&gate).await, waiting(&gate).await);
    second.abort();
    settle().await;
    assert_eq!((accounts(&gate).abandoned, accounts(&gate).queued), (1, 1));
    first.complete();
    third.await.unwrap().unwrap().complete();
    assert_eq!(accounts(&gate).completed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_just_as_it_is_let_in_gives_its_permit_on() {
    let gate = gate(1);
    let first = enter(&gate);
    let (second, third) = (waiting(&gate).await, waiting(&gate).await);
    second.abort();
    first.complete();
    third.await.unwrap().unwrap().complete();
    let accounts = accounts(&gate);
    assert_eq!((accounts.completed, accounts.abandoned), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_callers_that_left_takes_no_room_and_harms_nobody() {
    let gate = described("gate").queue_capacity(300).gate().unwrap();
    let first = enter(&gate);
    for _ in 0..3 {
        let crowd: Vec<_> = (0..299).map(|_| caller(&gate, Entry::new())).collect();
        settle().await;
        for caller in &crowd {
            caller.abort();
        }
        settle().await;
    }
    assert_eq!((accounts(&gate).abandoned, accounts(&gate).queued), (897, 0));
    let second = waiting(&gate).await;
    first.complete();
    second.await.unwrap().unwrap().complete();
    assert_eq!(accounts(&gate).completed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_lets_waiting_callers_in_at_once() {
    let gate = gate(1);
    let _first = enter(&gate);
    let (second, third) = (waiting(&gate).await, waiting(&gate).await);
    gate.set_workers(Concurrency::new(3));
    let _inside = (second.await.unwrap().unwrap(), third.await.unwrap().unwrap());
    assert_eq!(accounts(&gate).running, 3);
}

#[tokio::test(start_paused = true)]
async fn a_lowered_limit_is_reached_as_permits_come_back() {
    let gate = gate(3);
    let permits = [enter(&gate), enter(&gate), enter(&gate)];
    let fourth = waiting(&gate).await;
    gate.set_workers(Concurrency::new(1));
    let [first, second, third] = permits;
    first.complete();
    second.complete();
    settle().await;
    assert!(!fourth.is_finished());
    third.complete();
    fourth.await.unwrap().unwrap().complete();
}

#[tokio::test(start_paused = true)]
async fn a_law_that_has_a_say_sets_the_limit() {
    let law = Law::default();
    law.script().limit = Some(Concurrency::new(2));
    let gate = described("gate").workers(50).law(law.clone()).gate().unwrap();
    let (first, _second) = (enter(&gate), enter(&gate));
    let (third, fourth) = (waiting(&gate).await, waiting(&gate).await);
    assert_eq!(gate.observe().workers, 2);

    law.script().limit = Some(Concurrency::new(3));
    first.complete();
    let _inside = (third.await.unwrap().unwrap(), fourth.await.unwrap().unwrap());
    assert_eq!(accounts(&gate).running, 3);

    let fifth = waiting(&gate).await;
    law.script().limit = Some(Concurrency::new(4));
    // The next tick follows the law.
    let _inside = (fifth.await.unwrap().unwrap(), ());
    gate.set_workers(Concurrency::new(50));
    assert_eq!(gate.observe().workers, 4, "the law decides");
}

#[tokio::test(start_paused = true)]
async fn a_law_is_not_asked_about_a_caller_that_will_not_wait_and_would_have_to() {
    let law = Law::default();
    let gate = described("gate").law(law.clone()).gate().unwrap();
    let first = enter(&gate);
    assert_eq!(gate.try_enter(Entry::new()).err(), Some(Rejection::new(Reason::QueueFull)));
    assert_eq!(law.script().arrivals, 1, "its word would be binding");
    assert_eq!(accounts(&gate).rejected, 1);
    first.complete();
    let no = Rejection::new(Reason::RateExceeded);
    law.script().rejects = Some(no);
    assert_eq!(gate.try_enter(Entry::new()).err(), Some(no));
    assert_eq!(gate.enter(Entry::new()).await.err(), Some(EnterError::Rejected(no)));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_rejects_the_next_caller() {
    let gate = described("gate").queue_capacity(1).gate().unwrap();
    let _first = enter(&gate);
    let _second = waiting(&gate).await;
    let rejected = gate.enter(Entry::new()).await.err();
    assert_eq!(rejected, Some(EnterError::Rejected(Rejection::new(Reason::QueueFull))));
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_deadline_passes_in_the_queue_is_told_within_a_tick() {
    let gate = gate(1);
    let _first = enter(&gate);
    let start = Instant::now();
    let rejected = gate.enter(Entry::new().timeout(Duration::from_millis(30))).await;
    assert_eq!(rejected.err(), Some(EnterError::Dropped));
    assert!(start.elapsed() <= Duration::from_millis(130));
    assert_eq!(accounts(&gate).dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_turns_everyone_away_and_lets_those_inside_finish() {
    let gate = gate(1);
    let first = enter(&gate);
    let second = waiting(&gate).await;
    gate.close();
    assert_eq!(second.await.unwrap().err(), Some(EnterError::Closed));
    let closed = Rejection::new(Reason::Closed);
    assert_eq!(gate.enter(Entry::new()).await.err(), Some(EnterError::Rejected(closed)));
    assert_eq!(gate.try_enter(Entry::new()).err(), Some(closed));
    first.complete();
    let accounts = accounts(&gate);
    assert_eq!((accounts.completed, accounts.dropped, accounts.rejected), (1, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn work_under_a_permit_is_ended_at_its_deadline() {
    let gate = gate(1);
    assert_eq!(gate.run(Entry::new(), async { 7 }).await, Ok(7));
    let start = Instant::now();
    let entry = Entry::new().timeout(Duration::from_millis(80));
    assert_eq!(gate.run(entry, pending::<()>()).await, Err(RunError::Terminated));
    assert_eq!(start.elapsed(), Duration::from_millis(80));
    let accounts = accounts(&gate);
    assert_eq!((accounts.completed, accounts.terminated), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn work_whose_caller_leaves_is_abandoned() {
    let gate = gate(1);
    let runs = gate.clone();
    let running = tokio::spawn(async move { runs.run(Entry::new(), pending::<()>()).await });
    settle().await;
    running.abort();
    settle().await;
    assert_eq!((accounts(&gate).abandoned, accounts(&gate).inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_those_inside_and_those_who_wait() {
    let gate = gate(1);
    let first = enter(&gate);
    let second = waiting(&gate).await;
    let ending = async {
        settle().await;
        assert_eq!(gate.try_enter(Entry::new()).err(), Some(Rejection::new(Reason::Draining)));
        first.complete();
        second.await.unwrap().unwrap().complete();
    };
    let (report, ()) = tokio::join!(gate.drain(Duration::from_secs(5)), ending);
    let expected = DrainReport { stage: "gate".into(), finished: 2, ..Default::default() };
    assert_eq!(report, expected);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_nobody_who_has_left() {
    let gate = gate(1);
    let start = Instant::now();
    let (first, second) = (enter(&gate), waiting(&gate).await);
    let ending = async {
        settle().await;
        first.complete();
        second.abort();
    };
    let (report, ()) = tokio::join!(gate.drain(Duration::from_secs(5)), ending);
    assert_eq!((report.finished, report.abandoned, report.left), (1, 1, 0));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_drain_reports_who_did_not_leave_in_time() {
    let gate = gate(1);
    let first = enter(&gate);
    let second = waiting(&gate).await;
    let report = gate.drain(Duration::from_secs(5)).await;
    assert_eq!((report.finished, report.dropped, report.left), (0, 1, 1));
    assert_eq!(second.await.unwrap().err(), Some(EnterError::Closed));
    first.complete();
    assert_eq!(accounts(&gate).inside(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gate_serves_those_who_wait_by_priority() {
    let gate = described("gate").classes(rig::classes(&[1, 0])).gate().unwrap();
    let order = Seen::new();
    let first = enter(&gate);
    for caller in 0..6 {
        let (gate, order) = (gate.clone(), order.clone());
        let entry = Entry::new().class(tamarisk_control::ClassId::new(caller % 2));
        tokio::spawn(async move {
            gate.run(entry, async { order.push(caller) }).await.unwrap();
        });
        settle().await;
    }
    first.complete();
    settle().await;
    assert_eq!(order.all(), [1, 3, 5, 0, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_cannot_keep_order_by_key_and_says_so() {
    let rejected = |builder: tamarisk_stage::StageBuilder| builder.gate().err();
    let expected = Some(BuildError::PartitionedGate { stage: "gate".into() });
    assert_eq!(rejected(described("gate").partitioned()), expected);
    assert_eq!(rejected(described("gate").single_threaded()), expected);
}

#[tokio::test(start_paused = true)]
async fn a_permit_tells_when_it_began_and_when_it_is_due() {
    let gate = gate(1);
    let start = gate.clock().now();
    let first = enter(&gate);
    let second = caller(&gate, Entry::new().timeout(Duration::from_secs(9)));
    sleep(Duration::from_secs(2)).await;
    first.complete();
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.started().since(start), Duration::from_secs(2));
    assert_eq!(second.deadline().map(|due| due.since(start)), Some(Duration::from_secs(9)));
}

#[tokio::test(start_paused = true)]
async fn what_is_swept_is_not_taken_for_what_leaves_the_queue() {
    let law = Law::default();
    let gate = described("gate").workers(1).law(law.clone()).gate().unwrap();
    let permit = enter(&gate);
    let waiting = waiting(&gate).await;
    sleep(Duration::from_millis(350)).await;
    let seen = || {
        let script = law.script();
        (script.dequeues, script.sweeps)
    };
    assert_eq!(seen(), (0, 3));
    permit.complete();
    waiting.await.unwrap().unwrap().complete();
    assert_eq!(seen(), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn the_law_is_told_whose_an_event_is() {
    let law = Law::default();
    let gate = described("gate").law(law.clone()).gate().unwrap();
    for entry in [Entry::new().flow("ann"), Entry::new().flow("bob"), Entry::new()] {
        gate.try_enter(entry).unwrap().complete();
    }
    let flows = law.script().flows.clone();
    assert!(flows[0] != flows[1] && flows[0] != 0 && flows[1] != 0, "{flows:?}");
    assert_eq!(flows[2], 0);
}
