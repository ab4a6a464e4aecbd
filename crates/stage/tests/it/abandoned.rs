//! Callers that leave: what they have asked for is not begun, or ends, and counts as abandoned.

use std::future::pending;
use std::time::Duration;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tamarisk_control::{Change, Ending, Reason};
use tamarisk_stage::{
    Accounts, CallError, Context, Entry, Reply, Request, Stage, StageBuilder, blocking_fn,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::rig::{Law, Seen, accounts, described, settle, until};

type Ask = Request<u32, u32>;
type Answer = Result<u32, CallError>;

const MS: Duration = Duration::from_millis(1);

/// A stage that sleeps for as many milliseconds as it is asked to; `begun` has what it began.
fn sleeps(builder: StageBuilder, begun: &Seen<u32>) -> Stage<Ask> {
    let begun = begun.clone();
    let handle = async move |millis: u32, _: Context| {
        begun.push(millis);
        sleep(millis * MS).await;
        Ok(millis)
    };
    builder.handler(handle).unwrap()
}

fn calls(stage: &Stage<Ask>, millis: u32) -> JoinHandle<Answer> {
    let stage = stage.clone();
    tokio::spawn(async move { stage.call(millis).await })
}

/// The caller leaves.
async fn leaves(caller: JoinHandle<Answer>) {
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    settle().await;
}

fn ends(accounts: Accounts) -> [u64; 4] {
    let Accounts { completed, dropped, terminated, abandoned, .. } = accounts;
    [completed, dropped, terminated, abandoned]
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_never_begun_and_counts_at_once() {
    let (law, begun) = (Law::default(), Seen::new());
    let stage = sleeps(described("sleeps").law(law.clone()), &begun);
    let first = calls(&stage, 100);
    settle().await;
    let (second, third) = (calls(&stage, 7), calls(&stage, 5));
    settle().await;
    assert_eq!(accounts(&stage).queued, 2);
    leaves(second).await;
    let now = accounts(&stage);
    assert_eq!((now.queued, now.abandoned), (1, 1));
    assert_eq!(law.script().moves[0].change, Change::Abandoned);
    assert_eq!((first.await.unwrap(), third.await.unwrap()), (Ok(100), Ok(5)));
    settle().await;
    assert_eq!(begun.all(), [100, 5]);
    assert_eq!(ends(accounts(&stage)), [2, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_left_leaves_room_for_one_who_stays() {
    let begun = Seen::new();
    let stage = sleeps(described("sleeps").queue_capacity(300), &begun);
    let first = calls(&stage, 1000);
    settle().await;
    for _ in 0..3 {
        let crowd: Vec<_> = (0..300).map(|_| calls(&stage, 1000)).collect();
        settle().await;
        assert_eq!(accounts(&stage).queued, 300);
        let full = stage.call(1).await.unwrap_err();
        assert_eq!(full.rejection().unwrap().reason, Reason::QueueFull);
        for caller in crowd {
            caller.abort();
        }
        settle().await;
        assert_eq!(accounts(&stage).queued, 0);
    }
    assert_eq!(stage.call(1).await, Ok(1));
    assert_eq!((first.await.unwrap(), begun.all()), (Ok(1000), vec![1000, 1]));
    settle().await;
    let now = accounts(&stage);
    assert_eq!((ends(now), now.rejected), ([2, 0, 0, 900], 3));
}

#[tokio::test(start_paused = true)]
async fn what_runs_ends_at_its_next_await_and_teaches_no_short_service() {
    let (law, begun) = (Law::default(), Seen::new());
    let stage = sleeps(described("sleeps").law(law.clone()), &begun);
    let caller = calls(&stage, 10_000);
    settle().await;
    assert_eq!(accounts(&stage).running, 1);
    leaves(caller).await;
    assert_eq!((ends(accounts(&stage)), accounts(&stage).inside()), ([0, 0, 0, 1], 0));
    assert_eq!(law.script().endings, [Ending::Abandoned]);
    assert_eq!(stage.call(5).await, Ok(5));
}

#[tokio::test(start_paused = true)]
async fn a_shield_holds_it_off() {
    let steps = Seen::new();
    let noted = steps.clone();
    let stage = described("shields")
        .handler(async move |_: u32, cx: Context| {
            let shield = cx.shield();
            sleep(100 * MS).await;
            noted.push("written");
            drop(shield);
            sleep(100 * MS).await;
            noted.push("told");
            Ok(1)
        })
        .unwrap();
    let caller = calls(&stage, 1);
    settle().await;
    leaves(caller).await;
    assert_eq!(accounts(&stage).running, 1);
    sleep(101 * MS).await;
    settle().await;
    assert_eq!((steps.all(), ends(accounts(&stage))), (vec!["written"], [0, 0, 0, 1]));
}

#[tokio::test(start_paused = true)]
async fn blocking_work_ends_at_its_next_checkpoint() {
    let handle = blocking_fn(|Request { reply: _reply, .. }: Ask, cx: Context| {
        loop {
            cx.checkpoint()?;
            std::thread::yield_now();
        }
    });
    let stage = described("blocks").threads(handle).unwrap();
    let caller = calls(&stage, 1);
    until(|| accounts(&stage).running == 1).await;
    leaves(caller).await;
    until(|| accounts(&stage).inside() == 0).await;
    assert_eq!(ends(accounts(&stage)), [0, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_caller_is_never_abandoned() {
    let done = Seen::new();
    let noted = done.clone();
    let stage = described("works")
        .event_handler(async move |millis: u32, _: Context| {
            sleep(millis * MS).await;
            noted.push(millis);
            Ok(())
        })
        .unwrap();
    let sink = stage.sink();
    let sender = tokio::spawn(async move {
        sink.try_send(30).unwrap();
        sink.send(20).await.unwrap();
        pending::<()>().await;
    });
    settle().await;
    sender.abort();
    sleep(60 * MS).await;
    settle().await;
    assert_eq!((done.all(), ends(accounts(&stage))), (vec![30, 20], [2, 0, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_after_the_answer_ends_nothing() {
    let done = Seen::new();
    let noted = done.clone();
    let stage = described("tidies")
        .event_handler(async move |Request { body, reply }: Ask, _: Context| {
            let _ = reply.send(body);
            sleep(50 * MS).await;
            noted.push(body);
            Ok(())
        })
        .unwrap();
    assert_eq!(stage.call(1).await, Ok(1));
    sleep(60 * MS).await;
    // This one leaves before it has looked at its answer.
    let mut call = Box::pin(stage.call(2));
    tokio::select! {
        biased;
        answer = &mut call => panic!("so soon: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    settle().await;
    drop(call);
    sleep(200 * MS).await;
    assert_eq!((done.all(), ends(accounts(&stage))), (vec![1, 2], [2, 0, 0, 0]));
}

/// An event of a type of its own that carries the reply.
struct Job {
    millis: u32,
    reply: Reply<u32>,
}

#[tokio::test(start_paused = true)]
async fn leaving_reaches_the_stage_that_the_reply_was_passed_on_to() {
    let begun = Seen::new();
    let slow = sleeps(described("slow"), &begun);
    let noted = begun.clone();
    let jobs = described("jobs")
        .event_handler(async move |job: Job, _: Context| {
            noted.push(job.millis);
            sleep(job.millis * MS).await;
            let _ = job.reply.send(job.millis);
            Ok(())
        })
        .unwrap();
    let (forwards_to, sends_to, calls_at) = (slow.clone(), jobs.sink(), slow.clone());
    let front = described("front")
        .workers(4)
        .event_handler(async move |Request { body, reply }: Ask, cx: Context| {
            match body % 10 {
                0 => cx.forward(&forwards_to, body, reply),
                1 => {
                    let job = cx.envelope(Job { millis: body, reply }).reply(|job| &job.reply);
                    assert!(sends_to.send_lossy(job));
                }
                _ => {
                    let _ = reply.send(cx.call(&calls_at, body).await?);
                }
            }
            Ok(())
        })
        .unwrap();
    // Each is left once while it runs, and once while it is queued behind another.
    for millis in [1000, 1001, 1002] {
        let (later, earlier) =
            (if millis == 1001 { accounts(&jobs) } else { accounts(&slow) }, begun.all().len());
        let runs = calls(&front, millis);
        settle().await;
        let waits = calls(&front, millis + 10);
        settle().await;
        assert_eq!(begun.all().len(), earlier + 1, "{millis}");
        leaves(waits).await;
        leaves(runs).await;
        assert_eq!(begun.all().len(), earlier + 1, "{millis}");
        let now = if millis == 1001 { accounts(&jobs) } else { accounts(&slow) };
        assert_eq!((now.abandoned, now.inside()), (later.abandoned + 2, 0), "{millis}");
    }
    // Its callers were passed on, or waited for an answer of the other stage.
    assert_eq!(ends(accounts(&front)), [4, 0, 0, 2]);
    assert_eq!(front.call(10).await, Ok(10));
    assert_eq!(front.call(11).await, Ok(11));
    assert_eq!(front.call(12).await, Ok(12));
}

#[tokio::test(start_paused = true)]
async fn what_was_passed_on_after_its_caller_had_left_is_not_begun() {
    let begun = Seen::new();
    let slow = sleeps(described("slow"), &begun);
    let onward = slow.clone();
    let front = described("front")
        .event_handler(async move |Request { body, reply }: Ask, cx: Context| {
            let _shield = cx.shield();
            sleep(50 * MS).await;
            cx.forward(&onward, body, reply);
            Ok(())
        })
        .unwrap();
    let caller = calls(&front, 5);
    settle().await;
    leaves(caller).await;
    sleep(60 * MS).await;
    settle().await;
    assert_eq!(begun.all(), []);
    assert_eq!((ends(accounts(&slow)), accounts(&slow).inside()), ([0, 0, 0, 1], 0));
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_those_who_left() {
    let begun = Seen::new();
    let stage = sleeps(described("drains"), &begun);
    let (runs, waits) = (calls(&stage, 100), calls(&stage, 100));
    settle().await;
    let leaving = async {
        settle().await;
        leaves(waits).await;
        leaves(runs).await;
    };
    let start = tokio::time::Instant::now();
    let (report, ()) = tokio::join!(stage.drain(Duration::from_secs(5)), leaving);
    assert_eq!((report.abandoned, report.left, report.is_clean()), (2, 0, true));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Callers with little patience and with much, some of whom leave at any instant: the accounts
/// balance in every sample, and say at the end what the callers know.
#[tokio::test(start_paused = true)]
async fn the_accounts_balance_at_every_instant() {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut below = move |end: u32| random.next_u32() % end;
    let begun = Seen::new();
    let stage = sleeps(described("sleeps").workers(3).queue_capacity(20), &begun);
    let mut callers = Vec::new();
    for _ in 0..2000 {
        let (called, millis, patience) = (stage.clone(), 1 + below(19), below(60));
        let entry = match below(3) {
            0 => Entry::new().timeout((1 + below(59)) * MS),
            _ => Entry::new(),
        };
        callers.push(tokio::spawn(async move {
            tokio::time::timeout(patience * MS, called.call_as(millis, entry)).await.ok()
        }));
        if below(2) == 0 {
            sleep(below(8) * MS).await;
        }
        accounts(&stage);
    }
    let (mut answered, mut rejected, mut late, mut left) = (0, 0, 0, 0);
    for caller in callers {
        match caller.await.unwrap() {
            Some(Ok(_)) => answered += 1,
            Some(Err(CallError::Rejected(_))) => rejected += 1,
            Some(Err(CallError::Dropped | CallError::Terminated)) => late += 1,
            Some(Err(other)) => panic!("{other}"),
            None => left += 1,
        }
    }
    settle().await;
    let now = accounts(&stage);
    assert_eq!((now.completed, now.rejected), (answered, rejected));
    assert_eq!((now.dropped + now.terminated, now.abandoned), (late, left));
    assert!(answered > 100 && rejected > 10 && late > 50 && left > 100, "{now:?}");
    assert_eq!(now.inside(), 0);
}
