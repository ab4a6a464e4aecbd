//! Stages under the control of a test: it decides on admission, when and how each event
//! ends, and when time passes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Class, ClassId, Classes, Concurrency, Decision, Dequeue,
    Ending, Finished, Moved, Order, PlaceLimits, Priority, QueueOrder, Ratio, Reading, Rejection,
    Target, Timestamp, Waiting,
};
use tamarisk_stage::{
    Accounts, Batch, BlockingHandler, BoxError, Clock, Context, Handler, Stage, StageBuilder,
};
use tokio::sync::{mpsc, oneshot};

/// A law that does as the test says; with nothing said, it admits everything.
#[derive(Clone, Default)]
pub(crate) struct Law(Arc<Mutex<Script>>);

#[derive(Default)]
pub(crate) struct Script {
    pub(crate) rejects: Option<Rejection>,
    pub(crate) limit: Option<Concurrency>,
    pub(crate) newest_first: bool,
    pub(crate) patience: Option<Duration>,
    pub(crate) drops: bool,
    /// The calls of the law so far.
    pub(crate) arrivals: u32,
    pub(crate) useful: Option<Concurrency>,
    pub(crate) flows: Vec<u64>,
    pub(crate) dequeues: u32,
    pub(crate) sweeps: u32,
    pub(crate) endings: Vec<Ending>,
    /// The kinds of what has ended.
    pub(crate) kinds: Vec<u64>,
    pub(crate) moves: Vec<Moved>,
    pub(crate) services: Vec<[Duration; 2]>,
    pub(crate) park_after: Option<Duration>,
    /// Kinds that may not start.
    pub(crate) held_back: Vec<u64>,
    pub(crate) cpu: Option<Ratio>,
    pub(crate) promised: Option<Classes>,
}

impl Law {
    pub(crate) fn script(&self) -> parking_lot::MutexGuard<'_, Script> {
        self.0.lock()
    }
}

impl Script {
    fn verdict(&self, now: Timestamp, waiting: &Waiting) -> Dequeue {
        let waited = now.since(waiting.entered);
        let impatient = self.patience.is_some_and(|patience| waited > patience);
        if self.drops || impatient { Dequeue::Drop } else { Dequeue::Run }
    }
}

impl AdmissionLaw for Law {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        let mut script = self.0.lock();
        script.arrivals += 1;
        script.flows.push(arrival.flow);
        script.rejects.map_or(Decision::Admit, Decision::Reject)
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        let mut script = self.0.lock();
        script.dequeues += 1;
        script.verdict(now, waiting)
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        let mut script = self.0.lock();
        script.sweeps += 1;
        script.verdict(now, waiting)
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        let mut script = self.0.lock();
        script.endings.push(finished.ending);
        script.kinds.push(finished.kind);
        script.services.push([finished.service, finished.response]);
    }

    fn on_move(&mut self, _: Timestamp, moved: &Moved, _: &Backlog<'_>) {
        self.0.lock().moves.push(*moved);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.0.lock().promised = Some(classes.clone());
    }

    fn on_cpu(&mut self, _: Timestamp, busy: Ratio) {
        self.0.lock().cpu = Some(busy);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "answer_count", class: None, value: 42.0 });
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for Law {
    fn park_after(&self, _: ClassId, _: u64) -> Option<Duration> {
        self.0.lock().park_after
    }

    fn may_start(&self, _: ClassId, kind: u64, _: &Backlog<'_>) -> bool {
        !self.0.lock().held_back.contains(&kind)
    }

    fn concurrency(&self) -> Option<Concurrency> {
        self.0.lock().limit
    }

    fn useful_workers(&self) -> Option<Concurrency> {
        self.0.lock().useful
    }
}

impl QueueOrder for Law {
    fn order(&self, _: Duration) -> Order {
        if self.0.lock().newest_first { Order::NewestFirst } else { Order::OldestFirst }
    }
}

/// A stage on the runtime's clock with a law that admits all.
pub(crate) fn described(name: &str) -> StageBuilder {
    StageBuilder::new(name).workers(1).clock(Clock::runtime()).law(Law::default())
}

/// Classes `0`, `1`, … of these priorities.
pub(crate) fn classes(priorities: &[u8]) -> Classes {
    let target = Target::p90(Duration::from_secs(1)).unwrap();
    let class = |(index, &priority): (usize, &u8)| Class {
        name: index.to_string(),
        target,
        priority: Priority(priority),
    };
    Classes::new(priorities.iter().enumerate().map(class).collect()).unwrap()
}

/// Lets every task run until each waits for something; no time passes.
pub(crate) async fn settle() {
    // The longest chain of wake-ups in these tests is a few dozen links.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Waits for what threads do meanwhile; fails if it does not come about.
pub(crate) async fn until(mut comes_about: impl FnMut() -> bool) {
    let patience = std::time::Instant::now();
    while !comes_about() {
        assert!(patience.elapsed() < Duration::from_secs(20), "it never comes about");
        tokio::task::yield_now().await;
    }
}

/// An event in the hands of its handler, until the test ends it.
pub(crate) struct Case {
    pub(crate) event: u32,
    pub(crate) cx: Context,
    end: oneshot::Sender<End>,
}

enum End {
    Complete,
    Fail,
    Panic,
}

/// Where the cases of a stage arrive as they begin.
pub(crate) struct Desk {
    begun: mpsc::UnboundedReceiver<Case>,
}

impl Case {
    pub(crate) fn complete(self) {
        let _ = self.end.send(End::Complete);
    }

    pub(crate) fn fail(self) {
        let _ = self.end.send(End::Fail);
    }

    pub(crate) fn panic(self) {
        let _ = self.end.send(End::Panic);
    }

    /// Whether its handler does not run any more.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_closed()
    }
}

impl Desk {
    /// The next event to begin.
    pub(crate) async fn next(&mut self) -> Case {
        self.begun.recv().await.expect("the stage is alive")
    }

    /// All that have begun since it was last asked, without waiting.
    pub(crate) fn begun(&mut self) -> Vec<Case> {
        std::iter::from_fn(|| self.begun.try_recv().ok()).collect()
    }

    /// The same, as events.
    pub(crate) fn events(&mut self) -> Vec<u32> {
        self.begun().into_iter().map(|case| case.event).collect()
    }

    /// Whether no handler is left that could bring anything.
    pub(crate) fn is_deserted(&mut self) -> bool {
        matches!(self.begun.try_recv(), Err(mpsc::error::TryRecvError::Disconnected))
    }
}

/// Async handlers that pass each event to the desk and wait for its end.
pub(crate) fn desk() -> (impl Fn() -> DeskHandler + Send + Sync + 'static, Desk) {
    let (begin, begun) = mpsc::unbounded_channel();
    (move || DeskHandler(begin.clone()), Desk { begun })
}

pub(crate) struct DeskHandler(mpsc::UnboundedSender<Case>);

impl Handler<u32> for DeskHandler {
    async fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        while let Some((event, cx)) = batch.next() {
            let (end, ended) = oneshot::channel();
            self.0.send(Case { event, cx, end }).ok();
            match ended.await {
                Ok(end) => act(end)?,
                Err(_) => std::future::pending().await,
            }
        }
        Ok(())
    }
}

impl BlockingHandler<u32> for DeskHandler {
    fn handle(&mut self, batch: &mut Batch<u32>) -> Result<(), BoxError> {
        while let Some((event, cx)) = batch.next() {
            let (end, ended) = oneshot::channel();
            self.0.send(Case { event, cx, end }).ok();
            act(ended.blocking_recv()?)?;
        }
        Ok(())
    }
}

fn act(end: End) -> Result<(), BoxError> {
    match end {
        End::Complete => Ok(()),
        End::Fail => Err("as the test told it".into()),
        End::Panic => panic!("as the test told it"),
    }
}

/// A stage of tasks with its desk.
pub(crate) fn at_desk(builder: StageBuilder) -> (Stage<u32>, Desk) {
    let (handlers, desk) = desk();
    (builder.tasks(handlers).unwrap(), desk)
}

/// The accounts of all classes, which balance, as these do.
#[track_caller]
pub(crate) fn accounts<E: Send + 'static>(stage: &Stage<E>) -> Accounts {
    let observation = stage.observe();
    for class in &observation.classes {
        assert!(class.accounts.balance(), "{:?}", class.accounts);
    }
    observation.total()
}

/// What handlers saw, in order.
pub(crate) struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Seen<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn push(&self, item: T) {
        self.0.lock().push(item);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().clone()
    }
}

impl<T: Clone + Send + 'static> Seen<T> {
    /// Handlers that note each event and are done with it.
    pub(crate) fn notes(&self) -> impl Fn() -> Note<T> + Send + Sync + use<T> {
        let seen = self.clone();
        move || Note(seen.clone())
    }
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) struct Note<T>(Seen<T>);

impl<T: Clone + Send + 'static> Handler<T> for Note<T> {
    async fn handle(&mut self, batch: &mut Batch<T>) -> Result<(), BoxError> {
        BlockingHandler::handle(self, batch)
    }
}

impl<T: Clone + Send + 'static> BlockingHandler<T> for Note<T> {
    fn handle(&mut self, batch: &mut Batch<T>) -> Result<(), BoxError> {
        while let Some((event, _cx)) = batch.next() {
            self.0.push(event);
        }
        Ok(())
    }
}
