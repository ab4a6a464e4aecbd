//! The same for gates, where the callers themselves run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::strategy::Union;
use tamarisk_control::{Change, ClassId, Classes, Concurrency, Reason, Rejection};
use tamarisk_laws::WorkLimit;
use tamarisk_stage::{
    Accounts, Discipline, EnterError, Entry, Gate, GatePermit, RunError, StageBuilder,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::paused;
use crate::rig::{self, Law, described, settle};

#[derive(Clone, Debug)]
enum Step {
    TryEnter(Caller),
    /// Someone enters, stays so long, and leaves in this way.
    Enter(Caller, u64, Leaving),
    /// Someone's work is run by the gate itself.
    Run(Caller, u64),
    LeavePermit(Leaving),
    /// One who holds a permit waits for its own caller, goes on, or has its first or more data out.
    Pause(usize),
    Suspend(usize),
    Resume(usize),
    FirstData(usize),
    Progressed(usize),
    AbortCaller(usize),
    Workers(u32),
    Limit(Option<u32>),
    Reject(bool),
    Drop(bool),
    NewestFirst(bool),
    Patience(Option<u64>),
    ParkAfter(Option<u64>),
    HoldBack(Option<u64>),
    Pass(u64),
}

/// Longer than a stage waits before it looks again.
const TICK: Duration = Duration::from_millis(150);

/// The admission law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Scripted,
    WorkLimit,
}

impl Rule {
    fn over(self, builder: StageBuilder, classes: &Classes, scripted: &Law) -> StageBuilder {
        match self {
            Self::Scripted => builder.law(scripted.clone()),
            Self::WorkLimit => builder.law(WorkLimit::new(classes)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Caller {
    class: usize,
    timeout: Option<u64>,
    cost: u32,
    flow: u8,
    kind: u64,
}

#[derive(Clone, Copy, Debug)]
enum Leaving {
    Complete,
    Fail,
    Drop,
    Untimed,
    Panic,
}

impl Caller {
    fn entry(self) -> Entry {
        let class = ClassId::new(self.class);
        let entry = Entry::new().class(class).cost(self.cost).flow(self.flow).kind(self.kind);
        match self.timeout {
            Some(millis) => entry.timeout(Duration::from_millis(millis)),
            None => entry,
        }
    }
}

/// What the callers noted of themselves, by class. Who is inside counts as queued. One may leave
/// when it is dropped or terminated, before it hears of that: the three count together.
type Truth = Arc<Mutex<[Accounts; 3]>>;

/// One caller's part of it.
struct Note {
    truth: Truth,
    class: usize,
    is_over: bool,
}

impl Note {
    /// A caller asks to enter.
    fn new(truth: &Truth, class: usize) -> Self {
        let accounts = &mut truth.lock()[class];
        accounts.offered += 1;
        accounts.queued += 1;
        Self { truth: Arc::clone(truth), class, is_over: false }
    }

    fn ends(&mut self, outcome: fn(&mut Accounts) -> &mut u64) {
        assert!(!self.is_over, "a caller has one outcome");
        self.is_over = true;
        let accounts = &mut self.truth.lock()[self.class];
        accounts.queued -= 1;
        *outcome(accounts) += 1;
    }

    fn rejected(&mut self, rejected: EnterError) {
        match rejected {
            EnterError::Rejected(_) => self.ends(|accounts| &mut accounts.rejected),
            EnterError::Dropped | EnterError::Closed => self.ends(|accounts| &mut accounts.dropped),
        }
    }

    fn leaves(&mut self, mut permit: GatePermit, leaving: Leaving) {
        match leaving {
            Leaving::Complete | Leaving::Untimed => {
                self.ends(|accounts| &mut accounts.completed);
                if matches!(leaving, Leaving::Untimed) {
                    permit.untimed();
                }
                permit.complete();
            }
            Leaving::Fail => {
                self.ends(|accounts| &mut accounts.failed);
                permit.fail();
            }
            Leaving::Drop => drop(permit),
            Leaving::Panic => {
                self.ends(|accounts| &mut accounts.failed);
                // As a panic, without a report of it.
                std::panic::resume_unwind(Box::new("while inside"));
            }
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.is_over {
            self.ends(|accounts| &mut accounts.abandoned);
        }
    }
}

struct Trial {
    gate: Gate,
    rule: Rule,
    law: Law,
    truth: Truth,
    permits: VecDeque<(GatePermit, Note)>,
    callers: Vec<JoinHandle<()>>,
}

impl Trial {
    fn new(workers: u32, capacity: usize, discipline: Discipline, rule: Rule) -> Self {
        let (law, classes) = (Law::default(), rig::classes(&[1, 0, 1]));
        let gate = rule
            .over(described("tried"), &classes, &law)
            .classes(classes)
            .workers(workers)
            .queue_capacity(capacity)
            .discipline(discipline)
            .gate()
            .unwrap();
        let (truth, permits, callers) = (Truth::default(), VecDeque::new(), Vec::new());
        Self { gate, rule, law, truth, permits, callers }
    }

    async fn step(&mut self, step: &Step) {
        let (gate, truth) = (self.gate.clone(), Arc::clone(&self.truth));
        match *step {
            Step::TryEnter(caller) => {
                let mut note = Note::new(&truth, caller.class);
                match gate.try_enter(caller.entry()) {
                    Ok(permit) => self.permits.push_back((permit, note)),
                    Err(rejection) => note.rejected(EnterError::Rejected(rejection)),
                }
            }
            Step::Enter(caller, millis, leaving) => {
                self.callers.push(tokio::spawn(async move {
                    let mut note = Note::new(&truth, caller.class);
                    match gate.enter(caller.entry()).await {
                        Ok(permit) => {
                            sleep(Duration::from_millis(millis)).await;
                            note.leaves(permit, leaving);
                        }
                        Err(rejected) => note.rejected(rejected),
                    }
                }));
            }
            Step::Run(caller, millis) => {
                self.callers.push(tokio::spawn(async move {
                    let mut note = Note::new(&truth, caller.class);
                    let work = sleep(Duration::from_millis(millis));
                    match gate.run(caller.entry(), work).await {
                        Ok(()) => note.ends(|accounts| &mut accounts.completed),
                        Err(RunError::Terminated) => note.ends(|accounts| &mut accounts.terminated),
                        Err(RunError::NotEntered(rejected)) => note.rejected(rejected),
                    }
                }));
            }
            Step::LeavePermit(leaving) => {
                if let Some((permit, mut note)) = self.permits.pop_front() {
                    let left = tokio::spawn(async move { note.leaves(permit, leaving) });
                    assert_eq!(left.await.is_err(), matches!(leaving, Leaving::Panic));
                }
            }
            Step::Pause(which) => self.held(which, GatePermit::pause),
            Step::Suspend(which) => self.held(which, GatePermit::suspend),
            Step::Resume(which) => self.held(which, GatePermit::resume),
            Step::FirstData(which) => self.held(which, GatePermit::first_data),
            Step::Progressed(which) => self.held(which, GatePermit::progressed),
            Step::AbortCaller(which) => {
                if !self.callers.is_empty() {
                    self.callers.swap_remove(which % self.callers.len()).abort();
                }
            }
            Step::Workers(workers) => gate.set_workers(Concurrency::new(workers)),
            Step::Limit(limit) => self.law.script().limit = limit.map(Concurrency::new),
            Step::Reject(rejects) => {
                let rejection = Rejection::new(Reason::RateExceeded);
                self.law.script().rejects = rejects.then_some(rejection);
            }
            Step::Drop(drops) => self.law.script().drops = drops,
            Step::NewestFirst(newest) => self.law.script().newest_first = newest,
            Step::Patience(millis) => {
                self.law.script().patience = millis.map(Duration::from_millis);
            }
            Step::ParkAfter(millis) => {
                self.law.script().park_after = millis.map(Duration::from_millis);
            }
            Step::HoldBack(kind) => {
                self.law.script().held_back = kind.into_iter().collect();
                // What may start now does so at the next tick.
                sleep(TICK).await;
            }
            Step::Pass(millis) => sleep(Duration::from_millis(millis)).await,
        }
        for class in self.gate.observe().classes {
            assert!(class.accounts.balance(), "{:?} after {step:?}", class.accounts);
        }
    }

    /// One of those who hold a permit, if there is any, does this.
    fn held(&mut self, which: usize, does: fn(&mut GatePermit)) {
        let count = self.permits.len();
        if let Some((permit, _)) = self.permits.get_mut(which % count.max(1)) {
            does(permit);
        }
    }

    /// Of whom the law was told that they gave up their places, it was told when they took
    /// them again or ended.
    fn check_places(&self, total: &Accounts) {
        let script = self.law.script();
        let told =
            |change| script.moves.iter().filter(|moved| moved.change == change).count() as u64;
        assert_eq!(total.parked, told(Change::Parked) - told(Change::ParkedEnded), "{total:?}");
        let suspended = told(Change::Suspended) + told(Change::StreamSuspended);
        let resumed = told(Change::Resumed) + told(Change::StreamResumed);
        // Those that are paused keep their places.
        let paused = suspended - resumed - total.suspended;
        assert!(paused <= total.running, "{paused} of {total:?}");
    }

    /// Once all callers have heard, the accounts are what they noted, and nobody
    /// waits while there is a place.
    async fn check(&self, after: &[Step]) {
        settle().await;
        let observation = self.gate.observe();
        for (class, observed) in observation.classes.iter().enumerate() {
            let Accounts { dropped, terminated, abandoned, .. } = observed.accounts;
            let told = Accounts {
                dropped: 0,
                terminated: 0,
                abandoned: dropped + terminated + abandoned,
                queued: observed.accounts.inside(),
                running: 0,
                parked: 0,
                suspended: 0,
                ..observed.accounts
            };
            let mut truth = self.truth.lock()[class];
            truth.abandoned += truth.dropped + truth.terminated;
            (truth.dropped, truth.terminated) = (0, 0);
            assert_eq!(told, truth, "class {class} after {after:?}");
        }
        let total = observation.total();
        if self.rule == Rule::Scripted {
            self.check_places(&total);
        }
        let holds_back = self.rule == Rule::WorkLimit || !self.law.script().held_back.is_empty();
        assert!(
            holds_back || total.queued == 0 || total.running >= u64::from(observation.workers),
            "{total:?} with {} places after {after:?}",
            observation.workers
        );
        assert!(total.queued <= observation.queue_capacity as u64);
    }

    async fn end(mut self, drains: bool) {
        if drains {
            self.permits.clear();
            let report = self.gate.drain(Duration::from_secs(10)).await;
            assert!(report.left == 0 && self.gate.observe().total().inside() == 0, "{report:?}");
        } else {
            self.gate.close();
            settle().await;
            assert_eq!(self.gate.observe().total().queued, 0);
            self.permits.clear();
        }
        sleep(Duration::from_secs(10)).await;
        self.check(&[]).await;
        assert_eq!(self.gate.observe().total().inside(), 0);
        assert!(self.callers.iter().all(JoinHandle::is_finished), "every caller has heard");
    }
}

fn step() -> Union<BoxedStrategy<Step>> {
    let millis = || prop_oneof![Just(0u64), 1u64..60];
    Union::new_weighted(vec![
        (4, caller().prop_map(Step::TryEnter).boxed()),
        (
            10,
            (caller(), millis(), leaving())
                .prop_map(|(caller, millis, leaving)| Step::Enter(caller, millis, leaving))
                .boxed(),
        ),
        (4, (caller(), millis()).prop_map(|(caller, millis)| Step::Run(caller, millis)).boxed()),
        (4, leaving().prop_map(Step::LeavePermit).boxed()),
        (2, any::<usize>().prop_map(Step::Pause).boxed()),
        (2, any::<usize>().prop_map(Step::Suspend).boxed()),
        (2, any::<usize>().prop_map(Step::Resume).boxed()),
        (1, any::<usize>().prop_map(Step::FirstData).boxed()),
        (1, any::<usize>().prop_map(Step::Progressed).boxed()),
        (3, any::<usize>().prop_map(Step::AbortCaller).boxed()),
        (2, (1u32..6).prop_map(Step::Workers).boxed()),
        (1, weighted(0.6, 1u32..6).prop_map(Step::Limit).boxed()),
        (1, any::<bool>().prop_map(Step::Reject).boxed()),
        (1, any::<bool>().prop_map(Step::Drop).boxed()),
        (1, any::<bool>().prop_map(Step::NewestFirst).boxed()),
        (1, weighted(0.6, 1u64..200).prop_map(Step::Patience).boxed()),
        (1, weighted(0.8, 0u64..200).prop_map(Step::ParkAfter).boxed()),
        (1, weighted(0.5, 0u64..3).prop_map(Step::HoldBack).boxed()),
        (5, (0u64..150).prop_map(Step::Pass).boxed()),
    ])
}

fn caller() -> impl Strategy<Value = Caller> {
    (0usize..3, weighted(0.3, 0u64..120), 0u32..5, 0u8..4, 0u64..3)
        .prop_map(|(class, timeout, cost, flow, kind)| Caller { class, timeout, cost, flow, kind })
}

fn leaving() -> impl Strategy<Value = Leaving> {
    prop_oneof![
        6 => Just(Leaving::Complete),
        1 => Just(Leaving::Fail),
        1 => Just(Leaving::Drop),
        1 => Just(Leaving::Untimed),
        1 => Just(Leaving::Panic),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        3 => Just(Rule::Scripted),
        2 => Just(Rule::WorkLimit),
    ]
}

fn discipline() -> impl Strategy<Value = Discipline> {
    prop_oneof![
        Just(Discipline::Fifo),
        Just(Discipline::Priority),
        Just(Discipline::AdaptiveLifo),
        Just(Discipline::ShortestFirst),
        Just(Discipline::FairByFlow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 2000, ..Default::default() })]

    #[test]
    fn a_gate_accounts_for_every_caller_and_keeps_no_place_from_who_waits(
        workers in 1u32..5,
        capacity in 1usize..12,
        discipline in discipline(),
        rounds in vec(vec(step(), 1..6), 1..20),
        drains in any::<bool>(),
        rule in rule(),
    ) {
        paused(async {
            let mut trial = Trial::new(workers, capacity, discipline, rule);
            for steps in &rounds {
                for step in steps {
                    trial.step(step).await;
                }
                trial.check(steps).await;
            }
            trial.end(drains).await;
        });
    }
}
