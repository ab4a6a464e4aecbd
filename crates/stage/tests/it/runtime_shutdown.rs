//! A runtime that shuts down under its stages: whoever waits on another one hears.

use std::future::pending;
use std::time::Duration;

use tamarisk_control::{Reason, Rejection};
use tamarisk_stage::{
    BuildError, CallError, Context, Entry, Gate, Request, Sink, Stage, StageBuilder, stage_fn,
};
use tokio::runtime::{Builder, Runtime};

use crate::rig::{self, accounts};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn described(name: &str) -> StageBuilder {
    StageBuilder::new(name).law(rig::Law::default())
}

type Ask = Request<(), ()>;

/// A stage on `runtime` that never answers, and calls to it from elsewhere.
fn silent(runtime: &Runtime, workers: u32) -> (Stage<Ask>, Sink<Ask>) {
    let _entered = runtime.enter();
    let stage = described("silent")
        .workers(workers)
        .batch(1)
        .tasks(stage_fn(async |request: Ask, _cx: Context| {
            let _held = request;
            pending().await
        }))
        .unwrap();
    let sink = stage.sink();
    (stage, sink)
}

#[test]
fn callers_elsewhere_hear_what_became_of_their_requests() {
    let (here, there) = (runtime(), runtime());
    let (stage, sink) = silent(&there, 1);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let sink = sink.clone();
            here.spawn(async move { sink.call(()).await })
        })
        .collect();
    here.block_on(rig::settle());
    there.block_on(rig::settle());
    assert_eq!((accounts(&stage).running, accounts(&stage).queued), (1, 2));

    drop(there);
    let answers: Vec<_> = calls.into_iter().map(|call| here.block_on(call).unwrap()).collect();
    assert_eq!(answers[0], Err(CallError::Terminated));
    assert_eq!(answers[1..], [Err(CallError::Closed), Err(CallError::Closed)]);
    assert_eq!(accounts(&stage).inside(), 0);
    let closed = Rejection::new(Reason::Closed);
    assert_eq!(here.block_on(sink.call(())), Err(CallError::Rejected(closed)));
}

#[test]
fn a_stage_whose_workers_never_ran_is_closed_too() {
    let (here, there) = (runtime(), runtime());
    let (stage, sink) = silent(&there, 3);
    drop(there);
    let closed = Rejection::new(Reason::Closed);
    assert_eq!(here.block_on(sink.call(())), Err(CallError::Rejected(closed)));
    assert_eq!(accounts(&stage).inside(), 0);
}

#[test]
fn workers_started_on_a_runtime_that_is_gone_are_no_workers() {
    let (here, there) = (runtime(), runtime());
    let handle = there.handle().clone();
    drop(there);
    let _entered = handle.enter();
    let stage =
        described("late").tasks(stage_fn(|_request: Ask, _cx: Context| async { Ok(()) })).unwrap();
    let closed = Rejection::new(Reason::Closed);
    assert_eq!(here.block_on(stage.sink().call(())), Err(CallError::Rejected(closed)));
}

#[test]
fn a_stage_moved_to_threads_outlives_the_runtime() {
    let (here, there) = (runtime(), runtime());
    let (stage, sink) = silent(&there, 1);
    stage
        .replace_with_threads(tamarisk_stage::blocking_fn(|request: Ask, _cx: Context| {
            let _ = request.reply.send(());
            Ok(())
        }))
        .unwrap();
    here.block_on(rig::settle());
    drop(there);
    assert_eq!(here.block_on(sink.call(())), Ok(()));
}

#[test]
fn a_gate_outlives_the_runtime_that_it_was_made_on() {
    let (here, there) = (runtime(), runtime());
    let gate: Gate = {
        let _entered = there.enter();
        described("gate").gate().unwrap()
    };
    drop(there);
    let entry = Entry::new().timeout(Duration::from_secs(5));
    assert_eq!(here.block_on(gate.run(entry, async { 7 })), Ok(7));
    assert_eq!(gate.observe().total().completed, 1);
}

#[test]
fn a_stage_needs_a_runtime_to_begin_with() {
    let (handlers, _desk) = rig::desk();
    let rejected = described("nowhere").tasks(handlers).err().unwrap();
    assert!(rejected.to_string().contains("\"nowhere\" is built outside of a tokio runtime"));
}

#[test]
fn a_stage_needs_a_runtime_with_timers() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let (handlers, _desk) = rig::desk();
    let no_time = |stage: &str| Some(BuildError::NoTime { stage: stage.to_owned() });
    assert_eq!(described("tasks").tasks(handlers).err(), no_time("tasks"));
    let error = described("gate").gate().err();
    assert_eq!(error, no_time("gate"));
    assert!(error.unwrap().to_string().contains("`enable_time`"));
    assert!(StageBuilder::new("inline").inline(|number: u32| number).is_ok(), "it has no governor");
}
