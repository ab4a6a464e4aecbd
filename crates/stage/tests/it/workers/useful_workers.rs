//! Workers that crowd something they wait for: the default law leaves some of them idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tamarisk_control::{ClassId, Concurrency, Target};
use tamarisk_stage::{Clock, Stage, StageBuilder, stage_fn};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};

use crate::rig::{Law, at_desk, described, settle};

const WORKERS: u32 = 32;
const CONNECTIONS: usize = 4;
const QUERY: Duration = Duration::from_millis(20);

/// What the handlers did.
#[derive(Default)]
struct Done {
    events: AtomicU64,
    inside: AtomicU32,
    /// The most that were inside at once since this was looked at.
    inside_most: AtomicU32,
}

/// A stage whose workers share four connections to a database.
fn database(done: &Arc<Done>) -> Stage<u32> {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let done = Arc::clone(done);
    let query = stage_fn(move |_, _cx| {
        let (connections, done) = (Arc::clone(&connections), Arc::clone(&done));
        async move {
            let inside = done.inside.fetch_add(1, Ordering::Relaxed) + 1;
            done.inside_most.fetch_max(inside, Ordering::Relaxed);
            let connection = connections.acquire().await?;
            sleep(QUERY).await;
            drop(connection);
            done.inside.fetch_sub(1, Ordering::Relaxed);
            done.events.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    });
    StageBuilder::new("database")
        .target(Target::p90(Duration::from_millis(500)).unwrap())
        .clock(Clock::runtime())
        .workers(WORKERS)
        .batch(32)
        .tasks(query)
        .unwrap()
}

/// Sends events one by one, evenly, for so long.
async fn offer(stage: &Stage<u32>, per_second: u32, time: Duration) {
    let sink = stage.sink();
    let began = Instant::now();
    let count = time.as_secs() as u32 * per_second;
    for event in 0..count {
        sleep_until(began + Duration::from_secs(1) * event / per_second).await;
        sink.send_lossy(event);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_work_than_are_of_use_and_all_do_when_the_overload_is_over() {
    let done = Arc::new(Done::default());
    let stage = database(&done);
    offer(&stage, 50, Duration::from_secs(10)).await;
    offer(&stage, 800, Duration::from_secs(30)).await;
    let before = done.events.load(Ordering::Relaxed);
    done.inside_most.store(0, Ordering::Relaxed);
    offer(&stage, 800, Duration::from_secs(30)).await;

    // Four connections of 20 ms answer 200 a second, however many wait for them.
    let served = done.events.load(Ordering::Relaxed) - before;
    assert!((5700..=6010).contains(&served), "{served} of 6000 possible");
    let useful = stage.observe().workers;
    assert!((4..=16).contains(&useful), "{useful} of {WORKERS} workers");
    let inside_most = done.inside_most.load(Ordering::Relaxed);
    assert!(inside_most < WORKERS, "{inside_most} were inside at once");

    offer(&stage, 50, Duration::from_secs(10)).await;
    assert_eq!(stage.observe().workers, WORKERS);
    assert!(stage.observe().total().balance());
}

#[tokio::test(start_paused = true)]
async fn as_many_work_as_are_of_use_however_many_a_worker_may_take() {
    let law = Law::default();
    law.script().useful = Some(Concurrency::new(4));
    let inside = Arc::new(AtomicU32::new(0));
    let at_work = Arc::clone(&inside);
    let work = stage_fn(move |_: u32, _cx| {
        let inside = Arc::clone(&at_work);
        async move {
            inside.fetch_add(1, Ordering::Relaxed);
            sleep(QUERY).await;
            inside.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }
    });
    let builder = described("useful").law(law.clone()).workers(8).batch(16);
    let stage = builder.tasks(work).unwrap();
    assert!(stage.sink().send_many(0..64).is_empty());
    for _ in 0..10 {
        settle().await;
        assert_eq!(inside.load(Ordering::Relaxed), 4);
        sleep(QUERY).await;
    }
    // The others come back with the next that ends.
    law.script().useful = None;
    settle().await;
    sleep(QUERY).await;
    settle().await;
    assert_eq!(inside.load(Ordering::Relaxed), 8);
}

/// One of eight workers is of use and holds a long event, until `change` makes all of them useful.
async fn all_begin_after(change: impl AsyncFnOnce(&Stage<u32>, &Law)) {
    let law = Law::default();
    law.script().useful = Some(Concurrency::new(1));
    let (stage, mut desk) = at_desk(described("raised").law(law.clone()).workers(8).batch(1));
    assert!(stage.sink().send_many(0..10).is_empty());
    settle().await;
    let long = desk.begun();
    assert_eq!(long.len(), 1);
    change(&stage, &law).await;
    settle().await;
    assert_eq!(desk.begun().len(), 7);
    assert!(!long[0].is_over());
}

#[tokio::test(start_paused = true)]
async fn idle_workers_are_woken_by_a_law_without_a_limit() {
    all_begin_after(async |stage, _| stage.set_law(Box::new(Law::default()))).await;
}

#[tokio::test(start_paused = true)]
async fn idle_workers_are_woken_when_more_are_of_use_with_new_targets() {
    all_begin_after(async |stage, law| {
        law.script().useful = None;
        stage.set_targets(&[(ClassId::DEFAULT, Target::p90(QUERY).unwrap())]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn idle_workers_are_woken_by_a_tick_at_which_more_are_of_use() {
    all_begin_after(async |_, law| {
        law.script().useful = Some(Concurrency::new(8));
        sleep(Duration::from_millis(150)).await;
    })
    .await;
}
