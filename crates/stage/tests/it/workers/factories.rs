//! One factory makes a handler for each worker, with state of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tamarisk_stage::{Batch, BlockingHandler, BoxError, BuildError, CallError, Handler, Request};
use tokio::time::Instant;

use crate::rig::{Seen, accounts, described, settle, until};

/// Counts the events that it has handled, itself the `id`th of its kind.
struct Counter {
    id: u32,
    handled: u32,
    seen: Seen<(u32, u32)>,
}

impl BlockingHandler<u32> for Counter {
    fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        while let Some((event, _cx)) = batch.next() {
            self.handled += 1;
            self.seen.push((self.id, self.handled));
            assert_ne!(event, 13, "a handler that panics is not trusted again");
        }
        Ok(())
    }
}

impl Handler<u32> for Counter {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        BlockingHandler::handle(self, batch)?;
        tokio::task::yield_now().await;
        Ok(())
    }
}

fn counters() -> (impl Fn() -> Counter + Send + Sync + 'static, Arc<AtomicU32>, Seen<(u32, u32)>) {
    let (made, seen) = (Arc::new(AtomicU32::new(0)), Seen::new());
    let (making, noting) = (Arc::clone(&made), seen.clone());
    let factory = move || Counter {
        id: making.fetch_add(1, Ordering::Relaxed),
        handled: 0,
        seen: noting.clone(),
    };
    (factory, made, seen)
}

#[tokio::test(start_paused = true)]
async fn each_worker_has_a_handler_of_its_own_that_keeps_its_state() {
    let (factory, made, seen) = counters();
    let stage = described("counters").workers(3).batch(1).tasks(factory).unwrap();
    settle().await;
    assert_eq!(made.load(Ordering::Relaxed), 3, "made before the first event comes");
    stage.sink().send_many(0..12);
    settle().await;
    let seen = seen.all();
    let total: u32 = (0..3)
        .map(|id| {
            let of_one: Vec<_> = seen.iter().filter(|(by, _)| *by == id).map(|s| s.1).collect();
            assert_eq!(of_one, (1..=of_one.len() as u32).collect::<Vec<_>>());
            of_one.len() as u32
        })
        .sum();
    assert_eq!(total, 12);
    assert_eq!(made.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panicked_is_replaced_by_a_fresh_one() {
    let (factory, made, seen) = counters();
    let stage = described("counters").tasks(factory).unwrap();
    stage.sink().send_many([1, 13, 2]);
    settle().await;
    assert_eq!(made.load(Ordering::Relaxed), 2);
    assert_eq!(seen.all(), [(0, 1), (0, 2), (1, 1)]);
    assert_eq!((accounts(&stage).completed, accounts(&stage).failed), (2, 1));
}

#[tokio::test]
async fn threads_have_handlers_of_their_own_too() {
    let (factory, made, seen) = counters();
    let stage = described("counters").workers(2).threads(factory).unwrap();
    stage.sink().send_many([1, 13, 2, 13]);
    until(|| accounts(&stage).completed == 2 && accounts(&stage).failed == 2).await;
    until(|| made.load(Ordering::Relaxed) == 4).await;
    assert_eq!(seen.all().len(), 4);
}

/// Made by a factory that fails a given number of times.
struct Answers;

impl Handler<Request<(), u32>> for Answers {
    async fn handle(&mut self, batch: &mut Batch<Request<(), u32>>) -> Result<(), BoxError> {
        BlockingHandler::handle(self, batch)
    }
}

impl BlockingHandler<Request<(), u32>> for Answers {
    fn handle(&mut self, batch: &mut Batch<Request<(), u32>>) -> Result<(), BoxError> {
        while let Some((request, _cx)) = batch.next() {
            let _ = request.reply.send(1);
        }
        Ok(())
    }
}

fn unlucky(fails: u32) -> impl Fn() -> Answers + Send + Sync + 'static {
    let left = AtomicU32::new(fails);
    move || {
        let failing = left.load(Ordering::Relaxed);
        left.store(failing.saturating_sub(1), Ordering::Relaxed);
        assert!(failing == 0, "no handler today");
        Answers
    }
}

#[tokio::test(start_paused = true)]
async fn events_for_which_no_handler_can_be_made_fail_until_one_can() {
    let stage = described("unlucky").tasks(unlucky(3)).unwrap();
    let sink = stage.sink();
    // The first attempt is made before there is an event.
    settle().await;
    assert_eq!(sink.call(()).await, Err(CallError::Panicked));
    assert_eq!(sink.call(()).await, Err(CallError::Panicked));
    assert_eq!(sink.call(()).await, Ok(1));
    settle().await;
    let accounts = accounts(&stage);
    assert_eq!((accounts.failed, accounts.completed), (2, 1));
    let failure = stage.observe().last_failure.unwrap();
    assert!(failure.contains("no handler today"), "{failure}");
}

#[tokio::test]
async fn threads_survive_a_factory_that_panics() {
    let stage = described("unlucky").threads(unlucky(2)).unwrap();
    let sink = stage.sink();
    assert_eq!(sink.call(()).await, Err(CallError::Panicked));
    assert_eq!(sink.call(()).await, Ok(1));
}

/// Panics at 13.
struct Fragile;

impl Handler<Request<u32, u32>> for Fragile {
    async fn handle(&mut self, batch: &mut Batch<Request<u32, u32>>) -> Result<(), BoxError> {
        BlockingHandler::handle(self, batch)
    }
}

impl BlockingHandler<Request<u32, u32>> for Fragile {
    fn handle(&mut self, batch: &mut Batch<Request<u32, u32>>) -> Result<(), BoxError> {
        while let Some((Request { body, reply }, _cx)) = batch.next() {
            assert!(body != 13, "unlucky");
            let _ = reply.send(body);
        }
        Ok(())
    }
}

/// A database that may be down, and how often it was asked.
#[derive(Clone, Default)]
struct Database(Arc<(AtomicBool, AtomicU32)>);

impl Database {
    fn set_down(&self, down: bool) {
        self.0.0.store(down, Ordering::Relaxed);
    }

    fn attempts(&self) -> u32 {
        self.0.1.load(Ordering::Relaxed)
    }

    fn connects(&self) -> impl Fn() -> Result<Fragile, BoxError> + Send + Sync + use<> {
        let Self(database) = self.clone();
        move || {
            database.1.fetch_add(1, Ordering::Relaxed);
            if database.0.load(Ordering::Relaxed) {
                Err("no database")?
            }
            Ok(Fragile)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_whose_first_handler_cannot_be_made_is_not_built() {
    let database = Database::default();
    database.set_down(true);
    let expected =
        Some(BuildError::Handler { stage: "db".to_owned(), reason: "no database".to_owned() });
    assert_eq!(described("db").try_tasks(database.connects()).err(), expected);
    assert_eq!(described("db").try_threads(database.connects()).err(), expected);
    assert_eq!(database.attempts(), 2);
    database.set_down(false);
    let stage = described("db").try_tasks(database.connects()).unwrap();
    assert_eq!((stage.call(1).await, database.attempts()), (Ok(1), 3));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_cannot_be_made_later_fails_an_event_a_second_until_it_can() {
    let database = Database::default();
    let stage = described("db").try_tasks(database.connects()).unwrap();
    database.set_down(true);
    assert_eq!(stage.call(13).await, Err(CallError::Panicked));
    settle().await;
    let start = Instant::now();
    for second in 1..=3 {
        let failed = stage.call(1).await.unwrap_err();
        assert_eq!(failed.to_string(), "the handler failed: no database");
        assert_eq!(start.elapsed().as_secs(), second);
    }
    // One attempt each, and one after the panic.
    assert_eq!(database.attempts(), 5);
    assert_eq!(stage.observe().last_failure.as_deref(), Some("no database"));
    database.set_down(false);
    assert_eq!(stage.call(1).await, Ok(1));
    settle().await;
    assert_eq!((accounts(&stage).failed, accounts(&stage).completed), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn workers_without_a_handler_leave_the_events_to_those_with_one() {
    let database = Database::default();
    let stage = described("db").workers_between(1..=4).try_tasks(database.connects()).unwrap();
    settle().await;
    database.set_down(true);
    stage.set_workers(4).unwrap();
    let mut failed = 0;
    for number in 0..1000 {
        failed += u32::from(stage.call(number + 100).await.is_err());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Each of the three tries once a second, for ten seconds and once before.
    assert!(failed <= 30 && database.attempts() <= 1 + 3 + failed, "{failed} failed");
}
