//! Events at a time, and signals as events.

use std::time::Duration;

use tamarisk_control::Reason;
use tamarisk_stage::{
    Clock, Context, Signal, Signals, Stage, StageBuilder, TimerError, Timers, stage_fn,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A stage that passes on its events and when they were handled.
fn recorder<E: Send + 'static>() -> (Stage<E>, mpsc::UnboundedReceiver<(E, Duration)>) {
    let (seen, seeing) = mpsc::unbounded_channel();
    let start = Instant::now();
    let stage = StageBuilder::new("recorder")
        .clock(Clock::runtime())
        .tasks(stage_fn(move |event: E, _cx: Context| {
            let sent = seen.send((event, start.elapsed())).is_ok();
            async move { if sent { Ok(()) } else { Err("nobody listens".into()) } }
        }))
        .unwrap();
    (stage, seeing)
}

#[tokio::test(start_paused = true)]
async fn an_event_comes_when_its_time_has_come() {
    let (stage, mut seeing) = recorder();
    let timers = Timers::new(10);
    let late = timers.send_after(Duration::from_secs(3), &stage.sink(), "late").unwrap();
    let soon = timers.send_after(Duration::from_secs(1), &stage.sink(), "soon").unwrap();
    assert_eq!((soon.await, late.await), (Ok(()), Ok(())));
    let (first, at) = seeing.recv().await.unwrap();
    assert_eq!((first, at.as_secs()), ("soon", 1));
    let (second, at) = seeing.recv().await.unwrap();
    assert_eq!((second, at.as_secs()), ("late", 3));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_timer_sends_nothing() {
    let (stage, mut seeing) = recorder();
    let timer = Timers::new(1).send_after(Duration::from_secs(1), &stage.sink(), "never").unwrap();
    assert!(timer.cancel().await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(seeing.try_recv().is_err());
    assert_eq!(stage.observe().total().offered, 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_tells_of_a_rejection() {
    let (stage, _seeing) = recorder();
    let timer =
        Timers::new(1).send_after(Duration::from_secs(1), &stage.sink(), "rejected").unwrap();
    stage.close();
    let Err(TimerError::Rejected(rejected)) = timer.await else { panic!("it was rejected") };
    assert_eq!((rejected.event, rejected.rejection.reason), ("rejected", Reason::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_timers_is_bounded_and_the_event_comes_back() {
    let (stage, _seeing) = recorder();
    let timers = Timers::new(1);
    let first = timers.send_after(Duration::from_secs(1), &stage.sink(), 1).unwrap();
    let rejected = timers.send_after(Duration::from_secs(1), &stage.sink(), 2).unwrap_err();
    assert_eq!(rejected.0, 2);
    first.await.unwrap();
    drop(timers.send_after(Duration::from_secs(1), &stage.sink(), 3).expect("one is free again"));
}

#[tokio::test(start_paused = true)]
async fn signals_come_to_a_stage_as_its_events() {
    let (stage, mut seeing) = recorder::<Signal>();
    let signals = Signals::new();
    signals.deliver((*stage.sink()).clone(), Into::into);
    signals.send(Signal::Draining);
    assert_eq!(seeing.recv().await.map(|(signal, _)| signal), Some(Signal::Draining));
}
