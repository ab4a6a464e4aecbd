//! User code that panics where one does not look for it: in destructors, in the
//! display of an error, before the first await, in a law. The stage goes on.

use std::fmt;
use std::future::{Future, pending};
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Decision, Dequeue, Finished, Timestamp, Waiting,
};
use tamarisk_stage::{
    Batch, BlockingHandler, BoxError, Context, Discipline, Entry, Envelope, Handler, Stage,
    blocking_fn, stage_fn,
};
use tokio::time::{sleep, timeout};

use crate::rig::{self, Seen, accounts, at_desk, described, settle, until};

/// An event whose destructor panics, if it is armed.
struct Mine(bool);

const ARMED: Mine = Mine(true);
const SAFE: Mine = Mine(false);

impl Drop for Mine {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            panic!("stepped on a mine");
        }
    }
}

/// Handlers that hold each event until it is terminated.
async fn hold(_event: Mine, _cx: Context) -> Result<(), BoxError> {
    pending().await
}

async fn still_works(stage: &Stage<Mine>, completed: u64) {
    stage.sink().try_send(SAFE).ok().unwrap();
    settle().await;
    assert_eq!(accounts(stage).completed, completed);
    assert_eq!(accounts(stage).inside(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_destructor_that_panics_in_a_handler_fails_its_event_only() {
    let drops = |event: Mine, _cx: Context| {
        drop(event);
        async { Ok(()) }
    };
    let stage = described("mines").tasks(stage_fn(drops)).unwrap();
    stage.sink().send_many([SAFE, ARMED, SAFE]);
    settle().await;
    assert_eq!(accounts(&stage).failed, 1);
    still_works(&stage, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_destructor_that_panics_at_a_termination_ends_its_event_only() {
    let stage = described("mines").workers(1).tasks(stage_fn(hold)).unwrap();
    stage.sink().send_many([ARMED, SAFE]);
    for _ in 0..2 {
        settle().await;
        assert!(stage.terminate(stage.running()[0].id));
    }
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.failed, accounts.terminated, accounts.inside()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn overdue_events_whose_destructors_panic_leave_the_governor_ticking() {
    let stage = described("mines").tasks(stage_fn(hold)).unwrap();
    stage.sink().try_send(SAFE).ok().unwrap();
    settle().await;
    let overdue = || Envelope::new(ARMED, Entry::new().timeout(Duration::from_millis(1)));
    for dropped in [2, 4] {
        stage.sink().send_many([overdue(), overdue()]);
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(accounts(&stage).dropped, dropped);
    }
}

#[tokio::test(start_paused = true)]
async fn overdue_events_whose_destructors_panic_leave_their_worker_and_its_partition_alive() {
    let drops = |_event: Mine, _cx: Context| async { Ok(()) };
    let stage = described("mines").single_threaded().tasks(stage_fn(drops)).unwrap();
    let overdue = || Envelope::new(ARMED, Entry::new().timeout(Duration::from_millis(1)));
    // Nothing runs between the two instants, so the worker finds them overdue.
    stage.sink().send_many([overdue(), Envelope::new(SAFE, Entry::new()), overdue()]);
    tokio::time::advance(Duration::from_millis(2)).await;
    settle().await;
    assert_eq!((accounts(&stage).dropped, accounts(&stage).completed), (2, 1));
    still_works(&stage, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_full_of_events_whose_destructors_panic_can_be_closed() {
    let stage = described("mines").batch(1).tasks(stage_fn(hold)).unwrap();
    stage.sink().send_many([ARMED, ARMED, ARMED]);
    settle().await;
    stage.close();
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.dropped, accounts.inside()), (2, 0));
}

/// An error that cannot be shown.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_shown_fails_its_event_only() {
    let errs = |_event: Mine, _cx: Context| async { Err(Unspeakable.into()) };
    let stage = described("mines").tasks(stage_fn(errs)).unwrap();
    stage.sink().send_many([SAFE, SAFE, SAFE]);
    settle().await;
    assert_eq!((accounts(&stage).failed, accounts(&stage).inside()), (3, 0));
}

/// A handler that panics before its future exists, and once more when it is dropped.
struct Rude(Mine);

impl Handler<u32> for Rude {
    fn handle(
        &mut self,
        batch: &mut Batch<u32>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        self.0.0 = true;
        let event = batch.next().map(|(event, _)| event);
        assert_ne!(event, Some(1), "out of order");
        self.0.0 = false;
        async { Ok(()) }
    }
}

impl BlockingHandler<u32> for Rude {
    fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        self.0.0 = true;
        let event = batch.next().map(|(event, _)| event);
        assert_ne!(event, Some(1), "out of order");
        self.0.0 = false;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_before_its_first_await_and_when_dropped_is_replaced() {
    let stage = described("rude").tasks(|| Rude(SAFE)).unwrap();
    stage.sink().send_many([0, 1, 2, 1]);
    settle().await;
    assert_eq!((accounts(&stage).completed, accounts(&stage).failed), (2, 2));
}

#[tokio::test]
async fn a_blocking_handler_that_panics_and_when_dropped_is_replaced() {
    let stage = described("rude").threads(|| Rude(SAFE)).unwrap();
    stage.sink().send_many([0, 1, 2, 1]);
    until(|| accounts(&stage).inside() == 0).await;
    assert_eq!((accounts(&stage).completed, accounts(&stage).failed), (2, 2));
}

/// A future that panics when it is dropped, whether it has ended or not.
struct Grudge(Mine);

impl Future for Grudge {
    type Output = Result<(), BoxError>;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::task::Poll::Ready(if self.0.0 { Ok(()) } else { Err("never".into()) })
    }
}

struct Grudging;

impl Handler<u32> for Grudging {
    fn handle(
        &mut self,
        batch: &mut Batch<u32>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        batch.next();
        Grudge(ARMED)
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_panics_when_dropped_fails_its_event_only() {
    let stage = described("grudge").tasks(|| Grudging).unwrap();
    stage.sink().send_many([0, 1, 2]);
    settle().await;
    assert_eq!((accounts(&stage).failed, accounts(&stage).inside()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_that_carries_something_that_panics_fails_its_event_only() {
    let throws = |event: Mine, _cx: Context| async { std::panic::resume_unwind(Box::new(event)) };
    let stage = described("mines").tasks(stage_fn(throws)).unwrap();
    stage.sink().send_many([ARMED, ARMED, SAFE]);
    settle().await;
    assert_eq!((accounts(&stage).failed, accounts(&stage).inside()), (3, 0));
    assert_eq!(stage.observe().last_failure.as_deref(), Some("panicked: (no message)"));
}

#[tokio::test]
async fn blocking_handlers_that_panic_cost_their_own_event_only() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("threads")
        .workers(2)
        .threads(blocking_fn(move |event: u32, _cx: Context| {
            assert_ne!(event % 5, 0, "every fifth");
            noted.push(event);
            Ok(())
        }))
        .unwrap();
    stage.sink().send_many(0..50);
    until(|| accounts(&stage).inside() == 0).await;
    assert_eq!((accounts(&stage).completed, accounts(&stage).failed), (40, 10));
    assert_eq!(seen.all().len(), 40);
}

/// A law that panics at the first call of one kind.
#[derive(Default)]
struct Faltering {
    in_sweep: bool,
    at_end: bool,
}

impl AdmissionLaw for Faltering {
    fn name(&self) -> &'static str {
        "faltering"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    fn on_sweep(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
        assert!(!std::mem::take(&mut self.in_sweep), "a mistake in a sweep");
        Dequeue::Run
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished, _: &Backlog<'_>) {
        assert!(!std::mem::take(&mut self.at_end), "a mistake at an end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_law_that_panics_in_a_sweep_takes_no_event_and_no_governor_with_it() {
    let disciplines = [
        Discipline::Fifo,
        Discipline::AdaptiveLifo,
        Discipline::ShortestFirst,
        Discipline::FairByFlow,
        Discipline::EarliestDue,
    ];
    for discipline in disciplines {
        let law = Faltering { in_sweep: true, ..Faltering::default() };
        let described = described("sweeps").batch(1).discipline(discipline);
        let (stage, mut desk) = at_desk(described.law(law));
        stage.sink().send_many(0..4);
        let overdue = Entry::new().timeout(Duration::from_millis(150));
        stage.sink().try_send(Envelope::new(4, overdue)).unwrap();
        // The first tick panics; the governor drops the overdue one at a later one.
        sleep(Duration::from_millis(350)).await;
        assert_eq!((accounts(&stage).dropped, accounts(&stage).queued), (1, 3), "{discipline:?}");
        for _ in 0..4 {
            desk.next().await.complete();
        }
        let sink = stage.sink();
        timeout(Duration::from_secs(1), sink.send(5)).await.unwrap().unwrap();
        desk.next().await.complete();
        settle().await;
        assert_eq!((accounts(&stage).completed, accounts(&stage).inside()), (5, 0));
    }
}

/// Takes all events together.
struct Together;

impl Handler<u32> for Together {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        batch.drain().for_each(drop);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_law_that_panics_at_an_end_leaves_none_of_those_that_ended_together_running() {
    let law = Faltering { at_end: true, ..Faltering::default() };
    let described = described("ends").classes(rig::classes(&[0, 0])).law(law);
    let stage = described.tasks(|| Together).unwrap();
    let of_class = |class| Envelope::new(0, Entry::new().class(ClassId::new(class)));
    stage.sink().send_many([0, 1, 0].map(of_class));
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.completed, accounts.inside()), (3, 0));
}
