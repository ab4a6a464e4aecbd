//! Random changes of a graph under load, with a model beside it.
//!
//! One driver adds, removes, replaces, looks up, connects and sends as a seeded generator says, and
//! knows what each of these must answer. Meanwhile senders look stages up and send to them, and
//! handlers pass events on to stages that they look up themselves. Every event is counted by whoever
//! has it last, so in the end the accounts of the stages must agree with these counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tamarisk_control::Reason;
use tamarisk_stage::{
    Accounts, BoxError, Context, Graph, GraphError, Node, ReplaceError, Stage, StageBuilder,
    StageObservation, TrySink, blocking_fn, stage_fn,
};

const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const SENDERS: u64 = 3;
/// Stages added, removed and replaced, and new edges that may block. What was an error is not
/// counted.
const CHANGES: u64 = 100_000;
/// How often the whole is held against the model.
const CHECK_EACH: u64 = 500;
/// What is removed gets this long, or no time at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's multiplier for 64 bits; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.roll(NAMES.len() as u64) as usize]
    }
}

/// Where events ended, by those who had them last.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    /// By a stage that is being removed: its accounts may have been read for the last time by then.
    rejected_leaving: AtomicU64,
    /// Destroyed without a handler that was done with them.
    cut: AtomicU64,
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// An event of the one type.
struct Number(Option<Arc<Tally>>);

/// An event of the other type.
struct Text(Number);

impl Number {
    fn new(tally: &Arc<Tally>) -> Self {
        count(&tally.sent);
        Self(Some(Arc::clone(tally)))
    }

    /// It ends here, counted as `as_what` says.
    fn end(mut self, as_what: impl Fn(&Tally) -> &AtomicU64) {
        count(as_what(&self.0.take().unwrap()));
    }

    /// It came back from a stage.
    fn rejected(self, reason: Reason) {
        self.end(|tally| match reason {
            Reason::Draining | Reason::Closed => &tally.rejected_leaving,
            _ => &tally.rejected,
        });
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(tally) = &self.0 {
            count(&tally.cut);
        }
    }
}

/// What both types have in common.
trait Event: Send + 'static {
    const IS_TEXT: bool;
    fn make(tally: &Arc<Tally>) -> Self;
    fn number(self) -> Number;
}

impl Event for Number {
    const IS_TEXT: bool = false;

    fn make(tally: &Arc<Tally>) -> Self {
        Self::new(tally)
    }

    fn number(self) -> Number {
        self
    }
}

impl Event for Text {
    const IS_TEXT: bool = true;

    fn make(tally: &Arc<Tally>) -> Self {
        Self(Number::new(tally))
    }

    fn number(self) -> Number {
        self.0
    }
}

/// Sends up to `most` events; how many came back because the stage takes none any more.
fn send<E: Event>(sink: &TrySink<E>, tally: &Arc<Tally>, most: u64) -> u64 {
    let mut leaving = 0;
    let mut note = |event: E, reason| {
        leaving += u64::from(matches!(reason, Reason::Draining | Reason::Closed));
        event.number().rejected(reason);
    };
    if most.is_multiple_of(2) {
        for rejected in sink.send_many((0..most).map(|_| E::make(tally))) {
            note(rejected.event, rejected.rejection.reason);
        }
    } else {
        for _ in 0..most {
            if let Err(rejected) = sink.try_send(E::make(tally)) {
                note(rejected.event, rejected.rejection.reason);
            }
        }
    }
    leaving
}

/// What all handlers do: now and then they look up another stage and send to it, or fail.
#[derive(Clone)]
struct Work {
    name: &'static str,
    graph: Weak<Graph>,
    tally: Arc<Tally>,
    turns: Arc<AtomicU64>,
}

impl Work {
    fn run<E: Event>(&self, event: E) -> Result<(), BoxError> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut dice = Dice(turn.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if dice.roll(4) == 0 {
            self.pass_on::<Number>(dice.name());
        }
        if dice.roll(64) == 0 {
            event.number().end(|tally| &tally.failed);
            return Err("as asked".into());
        }
        event.number().end(|tally| &tally.completed);
        Ok(())
    }

    fn pass_on<E: Event>(&self, to: &str) {
        let Some(graph) = self.graph.upgrade() else { return };
        let edge =
            graph.stage::<E>(self.name).and_then(|own| graph.edge(&own, &graph.stage::<E>(to)?));
        match edge {
            Ok(edge) => drop(send(&edge, &self.tally, 1)),
            // It may be on its way out itself, or of the other type.
            Err(
                GraphError::NotFound { .. }
                | GraphError::NotMember { .. }
                | GraphError::OtherEvents { .. },
            ) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// What the driver knows of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    is_text: bool,
    capacity: usize,
    workers: u32,
}

struct Driver {
    graph: Arc<Graph>,
    tally: Arc<Tally>,
    turns: Arc<AtomicU64>,
    dice: Dice,
    known: BTreeMap<&'static str, Known>,
    blocking: BTreeSet<(&'static str, &'static str)>,
    /// Accounts of what was removed.
    gone: Accounts,
    gone_leaving: u64,
    /// Removed while a thread still ran an event.
    ending: Vec<Box<dyn Fn() -> StageObservation + Send>>,
    /// A sink of a stage that was removed.
    stale: Option<TrySink<Number>>,
    /// How many changes were made.
    changes: u64,
}

impl Driver {
    fn describe(&mut self, name: &str) -> (StageBuilder, Known) {
        let workers = 1 + self.dice.roll(3) as u32;
        let capacity = 4 + self.dice.roll(60) as usize;
        let builder = StageBuilder::new(name)
            .workers_between(workers..=4)
            .queue_capacity(capacity)
            .batch(1 + self.dice.roll(8) as usize);
        (builder, Known { is_text: false, capacity, workers })
    }

    fn make<E: Event>(&mut self, name: &'static str) -> (Stage<E>, Known) {
        let (builder, known) = self.describe(name);
        let work = self.work(name);
        let stage = if self.dice.roll(5) == 0 {
            builder.threads(blocking_fn(move |event: E, _: Context| work.run(event)))
        } else {
            builder.tasks(stage_fn(move |event: E, _: Context| {
                let work = work.clone();
                async move {
                    tokio::task::yield_now().await;
                    work.run(event)
                }
            }))
        };
        (stage.unwrap(), Known { is_text: E::IS_TEXT, ..known })
    }

    fn work(&self, name: &'static str) -> Work {
        let (tally, turns) = (Arc::clone(&self.tally), Arc::clone(&self.turns));
        Work { name, graph: Arc::downgrade(&self.graph), tally, turns }
    }

    /// Any name, but mostly one that fits, if there is one.
    fn name(&mut self, fits: impl Fn(Option<&Known>) -> bool) -> &'static str {
        let fitting = NAMES.into_iter().filter(|name| fits(self.known.get(name)));
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() || self.dice.roll(8) == 0 {
            return self.dice.name();
        }
        fitting[self.dice.roll(fitting.len() as u64) as usize]
    }

    fn add<E: Event>(&mut self) {
        let name = self.name(|known| known.is_none());
        let added = if self.dice.roll(4) == 0 {
            let (builder, known) = self.describe(name);
            let work = self.work(name);
            let known = Known { is_text: E::IS_TEXT, ..known };
            self.graph.declare::<E>(builder).map(|node| {
                node.threads(blocking_fn(move |event: E, _: Context| work.run(event)));
                self.graph.start().unwrap();
                known
            })
        } else {
            let (stage, known) = self.make::<E>(name);
            self.graph.add(&stage).map(|_| known)
        };
        match added {
            Ok(known) => {
                assert_eq!(self.known.insert(name, known), None);
                self.changes += 1;
            }
            Err(error) => {
                assert_eq!(error, GraphError::Duplicate { stage: name.to_owned() });
                assert!(self.known.contains_key(name));
            }
        }
    }

    async fn remove(&mut self) {
        let name = self.name(|known| known.is_some());
        let timeout = if self.dice.roll(4) == 0 { Duration::ZERO } else { PATIENCE };
        let observed = match self.known.get(name) {
            None => {
                let missing = self.graph.remove(name, timeout).await;
                assert!(matches!(missing, Err(GraphError::NotFound { .. })), "{missing:?}");
                return;
            }
            Some(known) if known.is_text => self.observed::<Text>(name).1,
            Some(_) => {
                let (sink, observed) = self.observed::<Number>(name);
                self.stale = Some(sink);
                observed
            }
        };
        let report = self.graph.remove(name, timeout).await.unwrap();
        assert!(timeout.is_zero() || report.is_clean(), "{report:?}");
        self.known.remove(name);
        self.changes += 1;
        self.blocking.retain(|(from, to)| *from != name && *to != name);
        self.ending.push(observed);
        self.settle();
    }

    fn observed<E: Event>(
        &self,
        name: &str,
    ) -> (TrySink<E>, Box<dyn Fn() -> StageObservation + Send>) {
        let node: Node<E> = self.graph.stage(name).unwrap();
        let sink: TrySink<E> = (*node.sink()).clone();
        (sink, Box::new(move || node.stage().unwrap().observe()))
    }

    /// Adds up the accounts of removed stages in which nothing runs any more.
    fn settle(&mut self) {
        let (gone, leaving) = (&mut self.gone, &mut self.gone_leaving);
        self.ending.retain(|observe| {
            let stage = observe();
            let total = stage.total();
            assert!(total.balance() && total.queued == 0, "{stage:?}");
            if total.inside() == 0 {
                *gone += total;
                *leaving += rejected_leaving(&stage);
            }
            total.inside() > 0
        });
    }

    fn replace<E: Event>(&mut self) {
        let name = self.name(|known| known.is_some_and(|known| known.is_text == E::IS_TEXT));
        let (mut stage, known) = self.make::<E>(name);
        let other_classes = self.dice.roll(8) == 0;
        if other_classes {
            let builder = StageBuilder::new(name).workers(1).classes(["x", "y"]);
            stage = builder.threads(blocking_fn(|_: E, _: Context| Ok(()))).unwrap();
        }
        let replaced = self.graph.replace(stage);
        match (self.known.get_mut(name), replaced) {
            (None, Err(GraphError::NotFound { .. })) => {}
            (Some(old), Err(GraphError::OtherEvents { .. })) if old.is_text != E::IS_TEXT => {}
            (Some(old), Err(GraphError::Replace { reason: ReplaceError::OtherClasses, .. }))
                if other_classes && old.is_text == E::IS_TEXT => {}
            (Some(old), Ok(())) if !other_classes && old.is_text == E::IS_TEXT => {
                *old = known;
                self.changes += 1;
            }
            (old, replaced) => panic!("{name} is {old:?}, but replacing it gave {replaced:?}"),
        }
    }

    fn look_up<E: Event>(&mut self) {
        let name = self.dice.name();
        match (self.known.get(name), self.graph.stage::<E>(name)) {
            (None, Err(GraphError::NotFound { stages, .. })) => {
                let known: Vec<_> = self.known.keys().collect();
                let mut stages: Vec<_> = stages.iter().collect();
                stages.sort();
                assert_eq!(stages, known);
            }
            (Some(known), Err(GraphError::OtherEvents { .. })) => {
                assert_ne!(known.is_text, E::IS_TEXT)
            }
            (Some(known), Ok(node)) => assert!(known.is_text == E::IS_TEXT && node.name() == name),
            (known, found) => panic!("{name} is {known:?}, but was found as {:?}", found.err()),
        }
    }

    fn connect(&mut self) {
        let is_number = |known: Option<&Known>| known.is_some_and(|known| !known.is_text);
        let (mut from, mut to) = (self.name(is_number), self.name(is_number));
        // Edges in the order of names close no cycle.
        if from > to && self.dice.roll(8) > 0 {
            std::mem::swap(&mut from, &mut to);
        }
        let both = self.graph.stage::<Number>(from).ok().zip(self.graph.stage::<Number>(to).ok());
        let Some((sender, receiver)) = both else { return };
        if self.dice.roll(4) == 0 {
            assert_eq!(send(&self.graph.edge(&sender, &receiver).unwrap(), &self.tally, 3), 0);
            return;
        }
        let closes_cycle = self.reaches(to, from);
        match self.graph.blocking_edge(&sender, &receiver) {
            Ok(edge) => {
                assert!(!closes_cycle, "{from} → {to}: {:?}", self.blocking);
                self.changes += u64::from(self.blocking.insert((from, to)));
                assert_eq!(send(&edge, &self.tally, 3), 0);
            }
            Err(GraphError::BlockingCycle { .. }) => assert!(closes_cycle, "{from} → {to}"),
            Err(other) => panic!("{other}"),
        }
    }

    fn reaches(&self, from: &'static str, to: &'static str) -> bool {
        let mut reached = BTreeSet::from([from]);
        for _ in NAMES {
            let edges = self.blocking.iter().filter(|(sender, _)| reached.contains(sender));
            let next: Vec<_> = edges.map(|(_, receiver)| *receiver).collect();
            reached.extend(next);
        }
        reached.contains(to)
    }

    fn send<E: Event>(&mut self) {
        let name = self.dice.name();
        let most = 1 + self.dice.roll(12);
        if let Ok(node) = self.graph.stage::<E>(name) {
            assert_eq!(
                send(&node.sink(), &self.tally, most),
                0,
                "{name} is there and takes events"
            );
        } else if let Some(stale) = &self.stale {
            assert_eq!(send(stale, &self.tally, most), most, "a removed stage takes nothing");
        }
    }

    async fn change(&mut self) {
        match self.dice.roll(60) {
            0..3 => self.add::<Number>(),
            3 => self.add::<Text>(),
            4..7 => self.remove().await,
            7..16 => self.replace::<Number>(),
            16 | 17 => self.replace::<Text>(),
            18 | 19 => self.look_up::<Number>(),
            20 => self.look_up::<Text>(),
            21..51 => self.connect(),
            51..58 => self.send::<Number>(),
            _ => self.send::<Text>(),
        }
    }

    /// Holds the whole against the model.
    fn check(&mut self) {
        let seen = self.graph.observe();
        let found: BTreeMap<&str, &StageObservation> =
            seen.stages.iter().map(|stage| (&*stage.name, stage)).collect();
        assert!(found.keys().eq(self.known.keys()), "{:?} {:?}", found.keys(), self.known);
        for (name, known) in &self.known {
            let stage = found[name];
            assert_eq!(stage.queue_capacity, known.capacity, "{name}");
            assert_eq!(stage.workers, known.workers, "{name}");
            for class in &stage.classes {
                assert!(class.accounts.balance(), "{name}: {:?}", class.accounts);
            }
        }
        let edges = seen.edges.iter().map(|edge| (&*edge.from, &*edge.to, edge.blocks));
        let edges: Vec<_> = edges.collect();
        let different: BTreeSet<_> = edges.iter().collect();
        assert_eq!(different.len(), edges.len(), "no edge is there twice");
        let blocking = edges.iter().filter(|edge| edge.2).map(|edge| (edge.0, edge.1));
        let blocking: BTreeSet<_> = blocking.collect();
        assert_eq!(blocking, self.blocking);
        self.settle();
    }
}

fn rejected_leaving(stage: &StageObservation) -> u64 {
    let count = |reason| stage.rejections.get(&reason).copied().unwrap_or(0);
    count(Reason::Draining) + count(Reason::Closed)
}

/// Looks stages up and sends to them until stopped; how many events it sent with backpressure.
async fn load(graph: Arc<Graph>, tally: Arc<Tally>, stop: Arc<AtomicBool>, mut dice: Dice) -> u64 {
    let mut waited = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Ok(node) = graph.stage::<Number>(dice.name()) {
            if dice.roll(4) == 0 {
                waited += 1;
                if let Err(back) = node.sink().send(Number::new(&tally)).await {
                    assert!(matches!(back.rejection.reason, Reason::Draining | Reason::Closed));
                    back.event.rejected(back.rejection.reason);
                }
            } else {
                send(&node.sink(), &tally, 1 + dice.roll(6));
            }
        }
        tokio::task::yield_now().await;
    }
    waited
}

/// How many changes were made: at least so many.
fn run(changes: u64, seed: u64) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build();
    let runtime = runtime.unwrap();
    let _entered = runtime.enter();
    let (graph, tally) = (Arc::new(Graph::new()), Arc::<Tally>::default());
    let stop = Arc::<AtomicBool>::default();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (graph, tally, stop) = (Arc::clone(&graph), Arc::clone(&tally), Arc::clone(&stop));
            runtime.spawn(load(graph, tally, stop, Dice(seed ^ (sender + 1))))
        })
        .collect();
    let mut driver = Driver {
        graph: Arc::clone(&graph),
        tally: Arc::clone(&tally),
        turns: Arc::default(),
        dice: Dice(seed),
        known: BTreeMap::new(),
        blocking: BTreeSet::new(),
        gone: Accounts::default(),
        gone_leaving: 0,
        ending: Vec::new(),
        stale: None,
        changes: 0,
    };
    runtime.block_on(async {
        let mut tried = 0;
        while driver.changes < changes {
            driver.change().await;
            tried += 1;
            if tried % CHECK_EACH == 0 {
                driver.check();
            }
            assert!(tried < 10 * changes, "few are made: {} of {tried}", driver.changes);
        }
        stop.store(true, Ordering::Relaxed);
        let mut waited = 0;
        for sender in senders {
            waited += sender.await.unwrap();
        }
        let reports = graph.drain(PATIENCE).await;
        assert!(reports.iter().all(|report| report.left == 0), "{reports:?}");
        assert!(waited > 0, "senders waited for room");
    });
    driver.check();
    assert!(driver.ending.is_empty(), "nothing runs any more");

    let (mut total, mut leaving) = (driver.gone, driver.gone_leaving);
    for stage in graph.observe().stages {
        total += stage.total();
        leaving += rejected_leaving(&stage);
    }
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Tally { sent, completed, failed, rejected, rejected_leaving, cut } = &*tally;
    assert_eq!(of(completed), total.completed);
    assert_eq!(of(failed), total.failed);
    assert_eq!(of(cut), total.dropped + total.terminated);
    assert_eq!(of(rejected), total.rejected - leaving);
    let ended = of(completed) + of(failed) + of(cut) + of(rejected) + of(rejected_leaving);
    assert_eq!(of(sent), ended, "every event has exactly one end");
    assert!(total.completed > changes && total.rejected > 0, "{total:?}");
    eprintln!("{} changes, seed {seed}: {total:?}", driver.changes);
}

#[test]
fn a_graph_loses_nothing_in_a_hundred_thousand_changes_under_load() {
    run(CHANGES, 2);
}
