//! Calls: exactly one answer, whatever happens, and an error that says why there is none.

use std::future::pending;
use std::time::Duration;

use tamarisk_control::{Reason, Rejection};
use tamarisk_stage::{
    Batch, BoxError, CallError, Context, Entry, Handler, Request, Stage, StageBuilder, blocking_fn,
    stage_fn,
};
use tokio::time::Instant;

use crate::rig::{Law, accounts, described, settle, until};

type Ask = Request<Told, u32>;

/// What a request tells its handler to do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Answer(u32),
    LetGo,
    LetGoAfterAWhile,
    Err,
    Panic,
    AnswerAndPanic,
    Wait,
    Forever,
}

fn obedient(builder: StageBuilder) -> Stage<Ask> {
    builder.tasks(stage_fn(obey)).unwrap()
}

async fn obey(request: Ask, _cx: Context) -> Result<(), BoxError> {
    let Request { body, reply } = request;
    match body {
        Told::Answer(answer) => {
            let _ = reply.send(answer);
        }
        Told::LetGo => drop(reply),
        Told::LetGoAfterAWhile => {
            drop(reply);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Told::Err => return Err("it cannot".into()),
        Told::Panic => panic!("it must not"),
        Told::AnswerAndPanic => {
            let _ = reply.send(1);
            panic!("too late to matter to the caller");
        }
        Told::Wait => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = reply.send(1);
        }
        Told::Forever => pending().await,
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_back() {
    let stage = obedient(described("calls"));
    assert_eq!(stage.sink().call(Told::Answer(144)).await, Ok(144));
    settle().await;
    assert_eq!(accounts(&stage).completed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_reply_let_go_of_is_told_and_the_event_has_failed() {
    let stage = obedient(described("calls"));
    for told in [Told::LetGo, Told::LetGoAfterAWhile] {
        assert_eq!(stage.sink().call(told).await, Err(CallError::Unanswered), "{told:?}");
    }
    let failed = CallError::Failed("it cannot".into());
    assert_eq!(stage.sink().call(Told::Err).await, Err(failed));
    assert_eq!(stage.sink().call(Told::Answer(2)).await, Ok(2));
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.failed, accounts.completed), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn only_the_event_that_let_go_of_its_reply_has_failed() {
    // All four are one batch of one worker.
    let stage = obedient(described("calls"));
    let sink = stage.sink();
    let call = async |told| sink.call(told).await;
    let answers = tokio::join!(
        call(Told::Answer(1)),
        call(Told::LetGo),
        call(Told::LetGoAfterAWhile),
        call(Told::Answer(4)),
    );
    let unanswered = || Err(CallError::Unanswered);
    assert_eq!(answers, (Ok(1), unanswered(), unanswered(), Ok(4)));
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.failed, accounts.completed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_told_and_the_next_request_is_answered() {
    let stage = obedient(described("calls"));
    assert_eq!(stage.sink().call(Told::Panic).await, Err(CallError::Panicked));
    assert_eq!(stage.sink().call(Told::Answer(5)).await, Ok(5));
    settle().await;
    assert_eq!(accounts(&stage).failed, 1);
    assert_eq!(stage.observe().last_failure.as_deref(), Some("panicked: it must not"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_after_the_answer_changes_the_outcome_and_not_the_answer() {
    let stage = obedient(described("calls"));
    assert_eq!(stage.sink().call(Told::AnswerAndPanic).await, Ok(1));
    settle().await;
    assert_eq!(accounts(&stage).failed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_termination_is_told() {
    let stage = obedient(described("calls"));
    let sink = stage.sink();
    let calling = tokio::spawn(async move { sink.call(Told::Forever).await });
    settle().await;
    assert!(stage.terminate(stage.running()[0].id));
    assert_eq!(calling.await.unwrap(), Err(CallError::Terminated));
    assert_eq!(accounts(&stage).terminated, 1);
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_that_leaves_at_a_checkpoint_tells_its_caller_so() {
    let stage = described("calls")
        .threads(blocking_fn(|_request: Ask, cx: Context| {
            loop {
                cx.checkpoint()?;
                std::thread::yield_now();
            }
        }))
        .unwrap();
    let sink = stage.sink();
    let calling = tokio::spawn(async move { sink.call(Told::Forever).await });
    until(|| !stage.running().is_empty()).await;
    assert!(stage.terminate(stage.running()[0].id));
    assert_eq!(calling.await.unwrap(), Err(CallError::Terminated));
    until(|| accounts(&stage).terminated == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_queue_is_told_as_dropped_and_one_in_the_handler_as_terminated() {
    let stage = obedient(described("calls"));
    let sink = stage.sink();
    let entry = Entry::new().timeout(Duration::from_millis(100));
    let (runs, waits) =
        tokio::join!(sink.call_as(Told::Forever, entry), sink.call_as(Told::Answer(2), entry));
    assert_eq!((runs, waits), (Err(CallError::Terminated), Err(CallError::Dropped)));
    let accounts = accounts(&stage);
    assert_eq!((accounts.terminated, accounts.dropped), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_told_with_its_reason() {
    let law = Law::default();
    let rejection = Rejection::new(Reason::StandingQueue).retry_after(Duration::from_millis(700));
    law.script().rejects = Some(rejection);
    let stage = obedient(described("calls").law(law));
    assert_eq!(stage.sink().call(Told::Wait).await, Err(CallError::Rejected(rejection)));
    assert_eq!(accounts(&stage).rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn those_in_the_queue_of_a_destroyed_stage_hear_closed_and_who_runs_hears_terminated() {
    let stage = obedient(described("calls").batch(1));
    let sink = stage.sink();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.call(Told::Wait).await })
        })
        .collect();
    settle().await;
    stage.close();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let closed = || Err(CallError::Closed);
    assert_eq!(answers, [Err(CallError::Terminated), closed(), closed()]);
    let closed = CallError::Rejected(Rejection::new(Reason::Closed));
    assert_eq!(sink.call(Told::Answer(1)).await, Err(closed));
    assert_eq!(accounts(&stage).inside(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waits_for_comes_back_to_the_handler() {
    let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
    let stage = described("calls")
        .tasks(stage_fn(move |mut request: Request<(), u32>, cx: Context| {
            let told = told.clone();
            async move {
                let _shield = cx.shield();
                let before = request.reply.is_abandoned();
                request.reply.abandoned().await;
                let after = request.reply.is_abandoned();
                told.send((before, after, request.reply.send(3)))?;
                Ok(())
            }
        }))
        .unwrap();
    let sink = stage.sink();
    let calling = tokio::spawn(async move { sink.call(()).await });
    settle().await;
    calling.abort();
    assert_eq!(telling.recv().await, Some((false, true, Err(3))));
    settle().await;
    assert_eq!(accounts(&stage).completed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_travel_through_several_stages() {
    let store = obedient(described("store"));
    let onward = store.sink();
    let parse = described("parse")
        .tasks(stage_fn(move |request: Ask, cx: Context| {
            let sent = onward.try_send(cx.envelope(request));
            async move { Ok(sent?) }
        }))
        .unwrap();
    let sink = parse.sink();
    let entry = Entry::new().timeout(Duration::from_millis(10));
    assert_eq!(sink.call_as(Told::Answer(8), entry).await, Ok(8));
    let start = Instant::now();
    assert_eq!(sink.call_as(Told::Wait, entry).await, Err(CallError::Terminated));
    assert_eq!(start.elapsed(), Duration::from_millis(10), "the deadline travelled along");
    assert_eq!(accounts(&parse).completed, 2, "the first stage has done its part");
    assert_eq!((accounts(&store).completed, accounts(&store).terminated), (1, 1));

    store.close();
    let failed = CallError::Failed("rejected: the stage is closed".into());
    assert_eq!(sink.call(Told::Answer(8)).await, Err(failed));
    settle().await;
    assert_eq!(accounts(&parse).failed, 1, "it let go of what it could not send on");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_lives_with_a_rejected_call_of_its_own_has_not_failed() {
    let law = Law::default();
    law.script().rejects = Some(Rejection::new(Reason::RateExceeded));
    let backend = obedient(described("backend").law(law));
    let backend_sink = backend.sink();
    let front = described("front")
        .tasks(stage_fn(move |request: Request<(), u32>, _cx: Context| {
            let backend = backend_sink.clone();
            async move {
                let answer = backend.call(Told::Answer(1)).await.unwrap_or(0);
                let _ = request.reply.send(answer);
                Ok(())
            }
        }))
        .unwrap();
    assert_eq!(front.sink().call(()).await, Ok(0), "degraded, and answered");
    settle().await;
    let accounts = accounts(&front);
    assert_eq!((accounts.completed, accounts.failed), (1, 0));
}

/// Panics before it has taken anything.
struct Rejecter;

impl Handler<Ask> for Rejecter {
    async fn handle(&mut self, _batch: &mut Batch<Ask>) -> Result<(), BoxError> {
        panic!("not my job")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_request_was_taken_is_told_as_a_panic() {
    let stage = described("rejecter").tasks(|| Rejecter).unwrap();
    for _ in 0..3 {
        assert_eq!(stage.sink().call(Told::Wait).await, Err(CallError::Panicked));
    }
    assert_eq!(accounts(&stage).failed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_stage_dropped_by_a_panicking_owner_still_tells_its_callers_that_it_closed() {
    let stage = obedient(described("calls").batch(1));
    let sink = stage.sink();
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.call(Told::Forever).await })
        })
        .collect();
    settle().await;
    let owner = tokio::spawn(async move {
        let _owned = stage;
        panic!("the owner of a stage has other worries");
    });
    assert!(owner.await.unwrap_err().is_panic());
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers, [Err(CallError::Terminated), Err(CallError::Closed)]);
}
