//! Laws that change the stage itself: workers, batches, quality, how long events run.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_catalogue::ByName;
use tamarisk_catalogue::papers::PoolSizing;
use tamarisk_control::{
    Activity, BatchLaw, BatchSize, ClassId, Concurrency, Finished, Leeway, QualityLaw, Ratio,
    Reading, Reason, Rejection, Strain, TerminationLaw, Timestamp, WorkersLaw,
};
use tamarisk_laws::{Coordination, Laws};
use tamarisk_stage::{
    Batch, BlockingHandler, BoxError, CallError, Clock, Context, Entry, Gate, RunError,
    StageBuilder,
};
use tokio::time::{Instant, sleep};

use crate::rig::{Law, accounts, at_desk, described, settle, until};

/// One for each kind of slow law: it wants what the test says, and keeps what it
/// was told.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Wishes>>);

#[derive(Default)]
struct Wishes {
    workers: u32,
    batch: u32,
    quality: Option<Ratio>,
    limit: Option<Duration>,
    finished: u32,
    told: Vec<Told>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    offered: u64,
    lost: u64,
    completed: u64,
    idle: u32,
}

impl WorkersLaw for Slow {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_tick(&mut self, _: Timestamp, activity: &Activity<'_>, _: Leeway) -> Concurrency {
        let mut wishes = self.0.lock();
        let Activity { offered, lost, completed, workers_idle: idle, .. } = *activity;
        wishes.told.push(Told { offered, lost, completed, idle });
        Concurrency::new(wishes.workers)
    }

    fn strain(&self) -> Strain {
        Strain::Partial
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "wish_count", class: None, value: 7.0 });
    }
}

impl BatchLaw for Slow {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>) -> BatchSize {
        BatchSize::new(self.0.lock().batch)
    }

    fn strain(&self) -> Strain {
        Strain::Partial
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

impl QualityLaw for Slow {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished) {
        self.0.lock().finished += 1;
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) -> Ratio {
        self.0.lock().quality.unwrap_or(Ratio::ONE)
    }

    fn strain(&self) -> Strain {
        Strain::Partial
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

impl TerminationLaw for Slow {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) {}

    fn limit(&self, _: ClassId) -> Option<Duration> {
        self.0.lock().limit
    }

    fn strain(&self) -> Strain {
        Strain::Partial
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

const TICK: Duration = Duration::from_millis(100);

async fn a_tick() {
    sleep(TICK + Duration::from_millis(1)).await;
    settle().await;
}

/// For two periods of the composition every event is rejected: whichever slow law can
/// act is asked to.
async fn overload(offer: impl Fn(), door: &Law) {
    door.script().rejects = Some(Rejection::new(Reason::Predicate));
    for _ in 0..25 {
        offer();
        a_tick().await;
    }
    door.script().rejects = None;
}

/// So many workers after some seconds with 200 events queued, of which nothing is ever rejected.
async fn workers_after(seconds: u32, described: StageBuilder) -> u32 {
    let described = described.clock(Clock::runtime()).batch(1).law(Law::default());
    let (stage, _desk) = at_desk(described);
    stage.sink().send_many(0..200);
    for _ in 0..10 * seconds {
        a_tick().await;
    }
    stage.observe().workers
}

fn pool(workers: RangeInclusive<u32>) -> PoolSizing {
    PoolSizing::new(Concurrency::new(*workers.start())..=Concurrency::new(*workers.end()), 1)
}

#[tokio::test(start_paused = true)]
async fn a_law_that_is_named_acts_as_printed_on_the_queue_alone() {
    let named = || described("named").workers_between(1..=8).workers_law(pool(1..=8));
    assert!(workers_after(5, named()).await >= 5);
    let knobs = [("workers_max_count", 8.0)];
    let by_name = || Laws::new().workers("pool-sizing", &knobs).unwrap();
    assert!(workers_after(5, described("by-name").laws(by_name())).await >= 5);
    // In a composition it waits for rejections.
    let composed = named().coordination(Coordination::Composition);
    assert_eq!(workers_after(5, composed).await, 1);
    let composed = by_name().coordination(Coordination::Composition);
    assert_eq!(workers_after(5, described("composed").laws(composed)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_names_no_law_composes_its_own() {
    let least = workers_after(0, StageBuilder::new("unnamed")).await;
    assert_eq!(workers_after(5, StageBuilder::new("unnamed")).await, least);
    // A law that is named beside them acts as printed, within bounds of its own.
    let workers = Laws::new().workers("pool-sizing", &[("workers_max_count", 8.0)]).unwrap();
    let degradable = StageBuilder::new("mixed").degrade_to(Ratio::saturating(0.5)).laws(workers);
    assert!(workers_after(5, degradable).await >= 5);
    let own = StageBuilder::new("own").workers_law(pool(1..=8));
    assert!(workers_after(5, own).await >= 5);
}

#[tokio::test(start_paused = true)]
async fn a_workers_law_adds_and_removes_workers_within_the_bounds() {
    let (law, door) = (Slow::default(), Law::default());
    let elastic = described("elastic").law(door.clone()).batch(1).workers_between(2..=5);
    let (stage, mut desk) = at_desk(elastic.workers_law(law.clone()));
    stage.sink().send_many(0..20);
    let rejected = || assert!(stage.sink().try_send(100).is_err());
    law.0.lock().workers = 4;
    overload(rejected, &door).await;
    let first = desk.begun();
    assert_eq!((stage.observe().workers, first.len()), (4, 4));
    law.0.lock().workers = 100;
    overload(rejected, &door).await;
    let more = desk.begun();
    assert_eq!((stage.observe().workers, more.len()), (5, 1));
    law.0.lock().workers = 1;
    overload(rejected, &door).await;
    assert_eq!(stage.observe().workers, 2);
    stage.set_workers(3).unwrap();
    a_tick().await;
    assert_eq!(stage.observe().workers, 3, "what an operator sets stays until a law moves");
    stage.set_workers(2).unwrap();
    first.into_iter().chain(more).for_each(|case| case.complete());
    settle().await;
    assert_eq!(desk.begun().len(), 2, "workers too many have ended, and no event is lost");
    assert_eq!(accounts(&stage).inside(), 15);
}

#[tokio::test(start_paused = true)]
async fn slow_laws_are_told_what_became_of_events_and_how_many_workers_idled() {
    let (law, door) = (Slow::default(), Law::default());
    law.0.lock().workers = 3;
    let (stage, mut desk) = at_desk(
        described("told")
            .law(door.clone())
            .batch(1)
            .workers(3)
            .workers_law(law.clone())
            .quality_law(law.clone())
            .coordination(Coordination::Composition),
    );
    stage.sink().send_many([1, 2, 3]);
    desk.next().await.complete();
    let _running = [desk.next().await, desk.next().await];
    a_tick().await;
    law.0.lock().told.clear();
    overload(|| assert!(stage.sink().try_send(100).is_err()), &door).await;
    let wishes = law.0.lock();
    let last = wishes.told.last().unwrap();
    assert_eq!((last.completed, last.idle), (1, 1), "{last:?}");
    assert_eq!(last.offered - last.lost, 3, "{last:?}");
    assert!(wishes.finished > 1, "each rejection counts as an answer that came late");
    let readings = stage.observe().readings;
    assert!(readings.iter().any(|reading| reading.name == "wish_count" && reading.value == 7.0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_law_sets_how_many_events_a_worker_takes() {
    let (law, door) = (Slow::default(), Law::default());
    law.0.lock().batch = 3;
    let (sizes, mut seen) = tokio::sync::mpsc::unbounded_channel();
    struct Sizes(tokio::sync::mpsc::UnboundedSender<usize>);
    impl tamarisk_stage::Handler<u32> for Sizes {
        async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
            Ok(self.0.send(batch.drain().count())?)
        }
    }
    let described = described("batches").law(door.clone()).batch(1).batch_law(law);
    let stage = described.tasks(move || Sizes(sizes.clone())).unwrap();
    overload(|| assert!(stage.sink().try_send(100).is_err()), &door).await;
    stage.sink().send_many(0..7);
    settle().await;
    let taken: Vec<_> = std::iter::from_fn(|| seen.try_recv().ok()).collect();
    assert_eq!(taken, [3, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_reads_the_quality_that_the_law_has_set() {
    let (law, door) = (Slow::default(), Law::default());
    let described = described("quality").law(door.clone()).batch(1);
    let (stage, mut desk) = at_desk(described.quality_law(law.clone()));
    stage.sink().send_many([1, 2]);
    let first = desk.next().await;
    assert_eq!(first.cx.quality(), Ratio::ONE);
    law.0.lock().quality = Some(Ratio::saturating(0.25));
    overload(|| assert!(stage.sink().try_send(100).is_err()), &door).await;
    assert_eq!(first.cx.quality().get(), 0.25, "an event that runs sees it too");
    assert_eq!(stage.observe().quality.get(), 0.25);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_runs_longer_than_its_class_may_is_terminated() {
    let law = Slow::default();
    law.0.lock().limit = Some(Duration::from_millis(40));
    let (stage, mut desk) = at_desk(described("limit").batch(1).termination_law(law));
    a_tick().await;
    stage.sink().try_send(1).unwrap();
    let running = desk.next().await;
    assert_eq!(running.cx.deadline(), None, "its answer would still be of use");
    let begun = Instant::now();
    while accounts(&stage).terminated == 0 {
        sleep(Duration::from_millis(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "it is never ended");
    }
    assert!(begun.elapsed() >= Duration::from_millis(40), "{:?}", begun.elapsed());
    assert!(running.is_over());
}

#[tokio::test]
async fn a_blocking_handler_is_told_at_its_checkpoint_that_its_time_is_up() {
    struct Until;
    impl BlockingHandler<u32> for Until {
        fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
            let (_, cx) = batch.next().expect("a batch holds an event");
            loop {
                cx.checkpoint()?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let law = Slow::default();
    law.0.lock().limit = Some(Duration::from_millis(5));
    let stage = StageBuilder::new("blocking").termination_law(law).threads(|| Until).unwrap();
    sleep(TICK * 2).await;
    stage.sink().try_send(1).unwrap();
    until(|| accounts(&stage).terminated == 1).await;
}

#[tokio::test]
async fn the_caller_of_a_blocking_handler_is_answered_at_the_limit() {
    let law = Slow::default();
    law.0.lock().limit = Some(Duration::from_millis(5));
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let handle = move |_: u32, _: Context| {
        held.lock().recv()?;
        Ok(())
    };
    let builder = StageBuilder::new("blocking").termination_law(law);
    let stage = builder.blocking_handler(handle).unwrap();
    sleep(TICK * 2).await;
    let answer = tokio::time::timeout(Duration::from_secs(20), stage.call(1)).await;
    assert_eq!(answer.unwrap(), Err(CallError::Terminated));
    assert_eq!(accounts(&stage).running, 1);
    release.send(()).unwrap();
    until(|| accounts(&stage).terminated == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_ends_work_at_its_class_s_limit_and_takes_as_many_as_the_law_says() {
    let (law, door) = (Slow::default(), Law::default());
    {
        let mut wishes = law.0.lock();
        wishes.limit = Some(Duration::from_millis(40));
        wishes.workers = 3;
    }
    let gate: Gate = described("gate")
        .law(door.clone())
        .workers_between(1..=8)
        .workers_law(law.clone())
        .termination_law(law)
        .gate()
        .unwrap();
    overload(|| assert!(gate.try_enter(Entry::new()).is_err()), &door).await;
    assert_eq!(gate.observe().workers, 3);
    let begun = Instant::now();
    let ran = gate.run(Entry::new(), std::future::pending::<()>()).await;
    assert_eq!(ran, Err(RunError::Terminated));
    assert_eq!(begun.elapsed(), Duration::from_millis(40));
}

#[tokio::test]
async fn an_admission_law_is_told_how_busy_the_processors_are() {
    let law = Law::default();
    let _stage = at_desk(StageBuilder::new("busy").law(law.clone()));
    // In real time: that of the processors cannot be paused.
    until(|| law.script().cpu.is_some()).await;
}
