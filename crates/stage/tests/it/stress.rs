//! Real threads, all at once: senders, workers, one that changes every
//! setting, and an observer for which the accounts balance at every reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamarisk_control::{ClassId, Concurrency};
use tamarisk_stage::{
    Accounts, Batch, BlockingHandler, BoxError, CallError, Context, EnterError, Entry, Gate,
    Handler, Request, RunError, Sink, Stage, StageObservation,
};

use crate::rig::{self, Law};

const CALLERS: u64 = 48;
const CALLS: u64 = 6_000;

type Ask = Request<u64, u64>;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's multiplier for 64 bits; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

fn builder(name: &str) -> tamarisk_stage::StageBuilder {
    tamarisk_stage::StageBuilder::new(name).classes(rig::classes(&[0, 1])).law(Law::default())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap()
}

/// Answers, errs, panics, lets go, waits, or passes on, as the number says.
#[derive(Clone)]
struct Front {
    back: Sink<Ask>,
    passed_on: Arc<AtomicU64>,
}

impl Handler<Ask> for Front {
    async fn handle(&mut self, batch: &mut Batch<Ask>) -> Result<(), BoxError> {
        while let Some((request, cx)) = batch.next() {
            match request.body % 16 {
                0 => return Err("as asked".into()),
                1 => std::panic::resume_unwind(Box::new("as asked")),
                2 => drop(request),
                3 => tokio::task::yield_now().await,
                4 | 5 => {
                    let _shield = cx.shield();
                    tokio::task::yield_now().await;
                    let _ = request.reply.send(request.body);
                }
                6..10 => {
                    self.back.try_send(cx.envelope(request))?;
                    self.passed_on.fetch_add(1, Ordering::Relaxed);
                }
                _ => {
                    tokio::task::yield_now().await;
                    let _ = request.reply.send(request.body);
                }
            }
        }
        Ok(())
    }
}

/// The same on threads.
struct Back;

impl BlockingHandler<Ask> for Back {
    fn handle(&mut self, batch: &mut Batch<Ask>) -> Result<(), BoxError> {
        while let Some((request, cx)) = batch.next() {
            match request.body % 5 {
                0 => return Err("as asked".into()),
                1 => std::panic::resume_unwind(Box::new("as asked")),
                _ => work(&cx)?,
            }
            let _ = request.reply.send(request.body);
        }
        Ok(())
    }
}

fn work(cx: &Context) -> Result<(), BoxError> {
    for _ in 0..200 {
        cx.checkpoint()?;
        std::hint::spin_loop();
    }
    Ok(())
}

/// What callers heard.
#[derive(Default)]
struct Heard {
    answers: AtomicU64,
    rejected: AtomicU64,
    dropped: AtomicU64,
    terminated: AtomicU64,
    failed: AtomicU64,
}

impl Heard {
    fn note(&self, sent: u64, answer: Result<u64, CallError>) {
        let count = match answer {
            Ok(answer) => {
                assert_eq!(answer, sent, "the answer to another request");
                &self.answers
            }
            Err(CallError::Rejected(_)) => &self.rejected,
            Err(CallError::Dropped | CallError::Closed) => &self.dropped,
            Err(CallError::Terminated) => &self.terminated,
            Err(CallError::Unanswered | CallError::Panicked | CallError::Failed(_)) => &self.failed,
            Err(CallError::Further { .. }) => unreachable!("nothing is forwarded"),
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Observes until stopped; all that it sees balances, and nothing that has
/// happened is ever undone. Returns how often it looked.
fn observe(stop: &AtomicBool, looks: &[&(dyn Fn() -> StageObservation + Sync)]) -> u64 {
    let mut before = vec![Accounts::default(); looks.len()];
    let mut looked = 0;
    while !stop.load(Ordering::Relaxed) {
        for (look, before) in looks.iter().zip(&mut before) {
            let observation = look();
            for class in &observation.classes {
                assert!(class.accounts.balance(), "{:?}", class.accounts);
            }
            let now = observation.total();
            let grows = |of: fn(&Accounts) -> u64| of(&now) >= of(before);
            assert!(grows(|a| a.offered) && grows(|a| a.rejected) && grows(|a| a.completed));
            assert!(grows(|a| a.dropped) && grows(|a| a.terminated) && grows(|a| a.failed));
            *before = now;
            looked += 1;
        }
    }
    looked
}

/// Changes every setting of a stage until stopped.
fn meddle(stop: &AtomicBool, stage: &Stage<Ask>, mut dice: Dice, replace: impl Fn(&Stage<Ask>)) {
    while !stop.load(Ordering::Relaxed) {
        match dice.roll(16) {
            0..5 => drop(stage.set_workers(1 + dice.roll(6) as u32).unwrap()),
            5..8 => stage.set_batch(1 + dice.roll(9) as u32),
            8 => replace(stage),
            _ => {
                for running in stage.running() {
                    stage.terminate(running.id);
                }
            }
        }
        thread::yield_now();
    }
}

async fn calls(sink: Sink<Ask>, heard: Arc<Heard>, mut dice: Dice) {
    for _ in 0..CALLS {
        let number = dice.roll(1 << 30);
        let mut entry = Entry::new().class(ClassId::new(dice.roll(2) as usize));
        if dice.roll(8) == 0 {
            entry = entry.timeout(Duration::from_micros(dice.roll(3000)));
        }
        let answer = sink.call_as(number, entry).await;
        let rejected = matches!(answer, Err(CallError::Rejected(_)));
        heard.note(number, answer);
        if rejected {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn stages_of_tasks_and_of_threads_account_for_every_call_under_stress() {
    let runtime = runtime();
    let entered = runtime.enter();
    let back = builder("back").workers_between(1..=6).queue_capacity(45).threads(|| Back).unwrap();
    let front = Front { back: back.sink(), passed_on: Arc::default() };
    let passed_on = Arc::clone(&front.passed_on);
    let made = front.clone();
    let tasks = builder("front")
        .workers_between(1..=6)
        .queue_capacity(45)
        .tasks(move || made.clone())
        .unwrap();
    drop(entered);

    let (stop, heard) = (AtomicBool::new(false), Arc::<Heard>::default());
    let looked = thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&stop, &[&|| tasks.observe(), &|| back.observe()]));
        scope.spawn(|| {
            meddle(&stop, &tasks, Dice(1), |stage| {
                let front = front.clone();
                stage.replace_with_tasks(move || front.clone()).unwrap();
            });
        });
        scope.spawn(|| {
            meddle(&stop, &back, Dice(2), |stage| stage.replace_with_threads(|| Back).unwrap());
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                runtime.spawn(calls(tasks.sink(), Arc::clone(&heard), Dice(1000 + caller)))
            })
            .collect();
        runtime.block_on(async {
            for caller in callers {
                caller.await.unwrap();
            }
        });
        stop.store(true, Ordering::Relaxed);
        observer.join().unwrap()
    });
    assert!(looked > 100, "the observer looked {looked} times");

    let drained = runtime.block_on(async {
        let patience = Duration::from_secs(10);
        [tasks.drain(patience).await, back.drain(patience).await]
    });
    assert!(drained.iter().all(tamarisk_stage::DrainReport::is_clean), "{drained:?}");
    let (front, back) = (tasks.observe().total(), back.observe().total());
    let passed_on = passed_on.load(Ordering::Relaxed);
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(front.offered, CALLERS * CALLS);
    assert_eq!(back.offered - back.rejected, passed_on);
    assert_eq!(count(&heard.answers), front.completed - passed_on + back.completed);
    assert_eq!(count(&heard.rejected), front.rejected);
    assert_eq!(count(&heard.dropped), front.dropped + back.dropped);
    assert_eq!(count(&heard.terminated), front.terminated + back.terminated);
    assert_eq!(count(&heard.failed), front.failed + back.failed);
}

/// Between a worker's look at an empty queue and its sleep an event may come: if
/// that were missed, this would hang, for no other event wakes the worker.
#[test]
fn a_lone_caller_never_waits_for_a_worker_that_sleeps() {
    const CALLS: u64 = 10_000;
    let runtime = runtime();
    let _entered = runtime.enter();
    let threads = builder("threads").workers(2).threads(|| Echo).unwrap();
    let tasks = builder("tasks").workers(2).tasks(|| Echo).unwrap();
    for sink in [threads.sink(), tasks.sink()] {
        let calls = async {
            for number in 0..CALLS {
                assert_eq!(sink.call(number).await, Ok(number));
            }
        };
        let patience = tokio::time::timeout(Duration::from_secs(30), calls);
        runtime.block_on(patience).expect("every call is answered");
    }
}

/// Answers, and does nothing else.
struct Echo;

impl BlockingHandler<Ask> for Echo {
    fn handle(&mut self, batch: &mut Batch<Ask>) -> Result<(), BoxError> {
        while let Some((request, _cx)) = batch.next() {
            let _ = request.reply.send(request.body);
        }
        Ok(())
    }
}

impl Handler<Ask> for Echo {
    async fn handle(&mut self, batch: &mut Batch<Ask>) -> Result<(), BoxError> {
        BlockingHandler::handle(self, batch)
    }
}

/// Between a rejection and the wait for room, room may come: a sender that missed it
/// would wait for a tick of 100 ms. A busy machine may hold a few up for as long.
#[test]
fn a_lone_sender_does_not_miss_the_room_that_it_waits_for() {
    const SENDS: u32 = 60_000;
    const HELD_UP_MAX: usize = 3;
    let runtime = runtime();
    let _entered = runtime.enter();
    let stage = builder("narrow").queue_capacity(1).threads(rig::Seen::new().notes()).unwrap();
    let sink = stage.sink();
    let held_up = runtime.block_on(async {
        let mut held_up = 0;
        for number in 0..SENDS {
            let start = Instant::now();
            sink.send(number).await.unwrap();
            held_up += usize::from(start.elapsed() >= Duration::from_millis(95));
        }
        held_up
    });
    assert!(held_up <= HELD_UP_MAX, "{held_up} senders waited for a tick");
}

#[test]
fn a_gate_accounts_for_every_caller_under_stress() {
    let runtime = runtime();
    let gate = {
        let _entered = runtime.enter();
        builder("gate").workers(3).queue_capacity(20).gate().unwrap()
    };
    let (stop, done) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let looked = thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&stop, &[&|| gate.observe()]));
        scope.spawn(|| {
            let mut dice = Dice(3);
            while !stop.load(Ordering::Relaxed) {
                gate.set_workers(Concurrency::new(1 + dice.roll(5) as u32));
                thread::yield_now();
            }
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| runtime.spawn(enters(gate.clone(), Arc::clone(&done), Dice(caller))))
            .collect();
        runtime.block_on(async {
            for caller in callers {
                caller.await.unwrap();
            }
        });
        stop.store(true, Ordering::Relaxed);
        observer.join().unwrap()
    });
    assert!(looked > 100, "the observer looked {looked} times");
    let total = gate.observe().total();
    assert_eq!((total.offered, total.inside()), (CALLERS * CALLS, 0));
    assert_eq!(total.completed, done.load(Ordering::Relaxed));
}

/// Enters again and again, and now and then leaves before it is let in.
async fn enters(gate: Gate, done: Arc<AtomicU64>, mut dice: Dice) {
    for _ in 0..CALLS {
        let entry = Entry::new().class(ClassId::new(dice.roll(2) as usize));
        let work = async {
            tokio::task::yield_now().await;
        };
        let run = gate.run(entry, work);
        let ran = if dice.roll(4) == 0 {
            let leave = async {
                for _ in 0..dice.roll(4) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                ran = run => ran,
                () = leave => continue,
            }
        } else {
            run.await
        };
        match ran {
            Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
            Err(RunError::NotEntered(EnterError::Rejected(_))) => tokio::task::yield_now().await,
            Err(error) => panic!("nothing else can happen: {error}"),
        }
    }
}
