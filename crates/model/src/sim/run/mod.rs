//! The simulation itself: takes what happens next from the calendar, and lets it happen.

mod batch;
pub(in crate::sim) mod calendar;
mod clients;
pub(in crate::sim) mod global;
mod governor;
mod job;
pub(in crate::sim) mod ledger;
mod occupancy;
mod queue;
mod resource;
mod ruling;
pub(in crate::sim) mod stage;
pub(in crate::sim) mod tally;
mod termination;
pub(in crate::sim) mod upstream;
pub(in crate::sim) mod watch;

use std::time::Duration;

use tamarisk_control::{AdmissionLaw, GlobalLaw, Rejection, Timestamp};
use tamarisk_laws::Open;
use tamarisk_laws::catalogue::{InvalidKnob, Laws};
use tamarisk_laws::fair::InvalidStageCount;

use self::calendar::Calendar;
use self::clients::ClientRun;
use self::global::GlobalRun;
use self::governor::Moves;
use self::job::{Job, Jobs, NOBODY, Phase};
use self::ledger::Ledger;
use self::resource::ResourceRun;
use self::ruling::Ruled;
use self::stage::{Entered, Next, StageRun};
use self::watch::{Outcome, Seen, Watch, What};
use crate::sim::plan::invalid::InvalidScenario;
use crate::sim::plan::random::Stream;
use crate::sim::plan::resolved::{EXIT, Place, Plan};
use crate::sim::plan::scenario::Scenario;
use crate::sim::report::Report;

/// A scenario that was found sound, to be run any number of times.
#[derive(Clone, Debug)]
pub struct Simulation {
    plan: Plan,
}

/// There is no stage of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no stage {0:?}")]
pub struct UnknownStage(String);

/// Why a stage cannot have such laws.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnsuitableLaws {
    /// There is no stage of that name.
    #[error(transparent)]
    Stage(#[from] UnknownStage),
    /// Their constants do not go together.
    #[error(transparent)]
    Knob(#[from] InvalidKnob),
}

impl Simulation {
    /// Makes `scenario` ready to run.
    ///
    /// # Errors
    /// [`InvalidScenario`] says what cannot be simulated, and where it stands.
    pub fn new(scenario: &Scenario) -> Result<Self, InvalidScenario> {
        Ok(Self { plan: Plan::new(scenario)? })
    }

    /// Runs it with no law at any stage.
    pub fn run(&self, seed: u64) -> Report {
        self.start(seed).finish()
    }

    /// A run that is about to begin, with no law at any stage yet, under the scenario's
    /// global law if it has one.
    pub fn start(&self, seed: u64) -> Run<'_, ()> {
        let plan = &self.plan;
        let stages = plan.stages.iter().map(|stage| {
            let ruled = Ruled::by(Box::new(Open), stage.workers);
            StageRun::new(stage, ruled)
        });
        Run {
            plan,
            seed,
            now: 0,
            calendar: Calendar::default(),
            jobs: Jobs::default(),
            offered: 0,
            stages: stages.collect(),
            resources: plan.resources.iter().map(ResourceRun::new).collect(),
            clients: (0..plan.clients.len()).map(|index| ClientRun::new(seed, index)).collect(),
            ledger: Ledger::new(plan),
            global: plan.global_run().expect("it was tried when the plan was made"),
            visits: 0,
            moves: Moves::default(),
            watch: (),
        }
    }
}

/// One run of a simulation.
pub struct Run<'a, W> {
    pub(in crate::sim) plan: &'a Plan,
    pub(in crate::sim) seed: u64,
    /// Nanoseconds since the beginning, as all times here.
    now: u64,
    calendar: Calendar,
    jobs: Jobs,
    /// Attempts so far.
    offered: u64,
    pub(in crate::sim) stages: Box<[StageRun]>,
    resources: Box<[ResourceRun]>,
    clients: Box<[ClientRun]>,
    pub(in crate::sim) ledger: Ledger,
    pub(in crate::sim) global: Option<GlobalRun>,
    /// Stays of requests at stages so far.
    visits: u64,
    moves: Moves,
    watch: W,
}

/// What can happen, as the calendar holds it: four bits of kind, and of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The present step of a job is done.
    StepDone(u32),
    /// Somebody's work at a shared resource may be done.
    Resource(u32),
    /// A client that waited comes (again).
    Wake(u32),
    /// An open client's next request or session comes.
    Arrival(u32),
    /// The number of a closed client's users changes.
    Users(u32),
    /// A running event may have come to its limit.
    Limit(u32),
    /// A worker is done with an event that was ended early.
    CleanedUp(u32),
    /// A reply that never comes may be given up.
    AnswerTime(u32),
    /// The first data of a stream may be out.
    FirstData(u32),
    /// A client may leave.
    Leave(u32),
    /// The governors tick.
    Tick,
    /// A second has passed.
    Second,
    /// A part of the measured time begins.
    Mark,
}

const OF_WHOM_BITS: u32 = 28;

impl Event {
    #[inline]
    fn pack(self) -> u32 {
        let (kind, of_whom) = match self {
            Self::StepDone(job) => (0, job),
            Self::Resource(resource) => (1, resource),
            Self::Wake(job) => (2, job),
            Self::Arrival(client) => (3, client),
            Self::Users(client) => (4, client),
            Self::Tick => (5, 0),
            Self::Second => (6, 0),
            Self::Mark => (7, 0),
            Self::Limit(job) => (8, job),
            Self::CleanedUp(job) => (9, job),
            Self::AnswerTime(job) => (10, job),
            Self::FirstData(job) => (11, job),
            Self::Leave(job) => (12, job),
        };
        debug_assert!(of_whom >> OF_WHOM_BITS == 0, "jobs and parts are bounded");
        kind << OF_WHOM_BITS | of_whom
    }

    #[inline]
    fn unpack(packed: u32) -> Self {
        let of_whom = packed & ((1 << OF_WHOM_BITS) - 1);
        match packed >> OF_WHOM_BITS {
            0 => Self::StepDone(of_whom),
            1 => Self::Resource(of_whom),
            2 => Self::Wake(of_whom),
            3 => Self::Arrival(of_whom),
            4 => Self::Users(of_whom),
            5 => Self::Tick,
            6 => Self::Second,
            7 => Self::Mark,
            8 => Self::Limit(of_whom),
            9 => Self::CleanedUp(of_whom),
            10 => Self::AnswerTime(of_whom),
            11 => Self::FirstData(of_whom),
            _ => Self::Leave(of_whom),
        }
    }
}

/// Where the draws begin that decide when clients leave: retries draw below it.
const DEPARTURES: u64 = 1 << 40;

const SECOND: u64 = 1_000_000_000;

impl<'a, W: Watch> Run<'a, W> {
    /// With this law at the door of the stage named `stage`. Its classes should be the
    /// scenario's.
    ///
    /// # Errors
    /// [`UnknownStage`] if there is none of that name.
    pub fn law(mut self, stage: &str, law: Box<dyn AdmissionLaw>) -> Result<Self, UnknownStage> {
        let index = self.place(stage)?;
        let plan = &self.plan.stages[index];
        self.stages[index] = StageRun::new(plan, Ruled::by(law, plan.workers));
        Ok(self)
    }

    /// With this law over the whole network, instead of the scenario's if it has one.
    ///
    /// # Errors
    /// [`InvalidStageCount`] if the network has more stages than such laws can share.
    pub fn global(mut self, law: Box<dyn GlobalLaw>) -> Result<Self, InvalidStageCount> {
        self.global = Some(GlobalRun::new(law, self.plan)?);
        Ok(self)
    }

    /// With these laws of the catalogue at the stage named `stage`, as a live stage has them:
    /// those for workers, batching, quality and termination take turns, and act on what the
    /// admission law refuses.
    ///
    /// # Errors
    /// [`UnsuitableLaws`] if there is no stage of that name, or they cannot be.
    pub fn laws(mut self, stage: &str, laws: &Laws) -> Result<Self, UnsuitableLaws> {
        let index = self.place(stage)?;
        let plan = &self.plan.stages[index];
        let ruled = Ruled::by_all(laws, &self.plan.classes, plan.workers)?;
        self.stages[index] = StageRun::new(plan, ruled);
        Ok(self)
    }

    fn place(&self, stage: &str) -> Result<usize, UnknownStage> {
        let index = self.plan.stages.iter().position(|plan| plan.name == stage);
        index.ok_or_else(|| UnknownStage(stage.to_owned()))
    }

    /// With `watch` told of all that happens.
    pub fn watch<V: Watch>(self, watch: V) -> Run<'a, V> {
        let Self { plan, seed, now, calendar, jobs, offered, .. } = self;
        let Self { stages, resources, clients, ledger, global, visits, moves, .. } = self;
        Run {
            plan,
            seed,
            now,
            calendar,
            jobs,
            offered,
            stages,
            resources,
            clients,
            ledger,
            global,
            visits,
            moves,
            watch,
        }
    }

    /// Runs to the end of the scenario's time.
    pub fn finish(mut self) -> Report {
        for stage in 0..self.stages.len() {
            if self.stages[stage].ruling.composition().is_some() {
                self.tell_knobs(stage);
            }
        }
        self.at(0, Event::Tick);
        self.at(self.plan.warm_up, Event::Mark);
        self.at(self.plan.warm_up.saturating_add(SECOND), Event::Second);
        for client in 0..self.clients.len() {
            self.begin_client(client as u32);
        }
        while let Some((at, event)) = self.calendar.pop() {
            self.now = at;
            self.happen(Event::unpack(event));
            debug_assert!(self.balances(), "the accounts do not balance at {at} ns");
        }
        let Plan { warm_up, end, .. } = *self.plan;
        self.now = end;
        if (end - warm_up).is_multiple_of(SECOND) {
            self.ledger.second();
        }
        self.mark();
        Report::new(&self)
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        match event {
            Event::StepDone(id) => self.step_done(id),
            Event::Arrival(client) => self.arrive(client),
            Event::Resource(resource) => self.resource_due(resource),
            Event::Wake(id) => self.wake(id),
            Event::Users(client) => self.change_users(client),
            Event::Limit(id) => self.limit_reached(id),
            Event::CleanedUp(id) => self.end_early(id),
            Event::AnswerTime(id) => self.answer_time_over(id),
            Event::FirstData(id) => self.first_data_due(id),
            Event::Leave(id) => self.client_leaves(id),
            Event::Tick => self.tick(),
            Event::Second => {
                self.ledger.second();
                self.at(self.now + SECOND, Event::Second);
            }
            Event::Mark => {
                self.mark();
                let Plan { warm_up, end, batches, .. } = self.plan;
                let next = u128::from(end - warm_up) * self.ledger.batches_begun as u128;
                self.at(warm_up + (next / u128::from(*batches)) as u64, Event::Mark);
            }
        }
    }

    /// Enters into the calendar what happens before the end.
    #[inline]
    fn at(&mut self, nanos: u64, event: Event) {
        if nanos < self.plan.end {
            self.calendar.push(nanos, event.pack());
        }
    }

    #[inline]
    fn see(&mut self, id: u32, what: What) {
        let job = &self.jobs[id];
        self.watch.see(&Seen {
            at: Timestamp::from_nanos(self.now),
            number: job.number,
            stage: job.stage,
            class: job.class,
            kind: u64::from(job.kind),
            flow: job.flow,
            what,
        });
    }

    /// A request, or one more attempt at it, comes to the network.
    #[inline]
    fn offer(&mut self, id: u32) {
        let plan = self.plan;
        let job = &mut self.jobs[id];
        let client = &plan.clients[job.client as usize];
        self.offered += 1;
        job.number = self.offered;
        job.arrived = self.now;
        job.deadline = client.patience.map_or(u64::MAX, |patience| self.now + patience);
        job.stage = client.entry;
        job.at_entry = true;
        job.is_left = false;
        if let Some(leaves) = &client.leaves {
            let mut random = Stream::derived(job.seed, DEPARTURES | u64::from(job.attempts));
            let after = round(leaves.sample(&mut random));
            job.leaves = self.now.saturating_add(after);
            let at = job.leaves;
            self.at(at, Event::Leave(id));
        }
        let job = &self.jobs[id];
        self.ledger.offer(job.class, job.flow);
        let class = job.class;
        self.see(id, What::Offered);
        match self.global.as_mut().map_or(Ok(()), |global| global.ask(self.now)) {
            Ok(()) => self.enter(id, client.entry),
            Err(rejection) => {
                self.stages[client.entry as usize].turn_away(class, rejection.reason);
                self.refuse(id, rejection);
            }
        }
    }

    #[inline]
    fn enter(&mut self, id: u32, stage: u32) {
        let job = &mut self.jobs[id];
        job.stage = stage;
        job.entered = self.now;
        job.first_data = u64::MAX;
        self.visits += 1;
        job.visit = self.visits;
        let plan = &self.plan.stages[stage as usize];
        job.step = plan.first_step[job.sort as usize] - plan.steps_of_batch;
        let entered = self.stages[stage as usize].enter(self.now, id, job, plan);
        if let Some(global) = &mut self.global
            && job.at_entry
            && !matches!(entered, Entered::Refused(_))
        {
            global.entered(stage);
        }
        match entered {
            Entered::Runs => self.start(id),
            Entered::Waits => {
                self.jobs[id].phase = Phase::Queued;
                self.see(id, What::Queued);
                // The law may have left it a place that others may not have.
                self.dispatch(stage);
            }
            Entered::Refused(rejection) => self.refuse(id, rejection),
        }
    }

    fn refuse(&mut self, id: u32, rejection: Rejection) {
        let outcome = Outcome::Rejected(rejection.reason);
        self.see(id, What::Ended(outcome));
        self.leave(id, outcome, Some(rejection));
    }

    #[inline]
    fn start(&mut self, id: u32) {
        self.note_start(id);
        let stage = self.jobs[id].stage as usize;
        if self.plan.stages[stage].upstream.is_some() && self.starts_without_worker(id) {
            return;
        }
        if self.stages[stage].finds_worker(id) {
            self.begin_with_worker(id);
        }
    }

    #[inline]
    fn note_start(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        job.started = self.now;
        job.phase = Phase::Running;
        let stage = job.stage as usize;
        if let Some(end) = self.stages[stage].end_of(self.now, job) {
            job.limit = end;
            self.at(end, Event::Limit(id));
        }
        self.see(id, What::Started);
    }

    /// An event that has found a worker begins.
    #[inline]
    fn begin_with_worker(&mut self, id: u32) {
        self.jobs[id].has_worker = true;
        self.begin_service(id);
    }

    #[inline]
    fn begin_service(&mut self, id: u32) {
        if self.plan.stages[self.jobs[id].stage as usize].upstream.is_some() {
            self.expect_first_data(id);
        }
        self.begin_step(id);
    }

    #[inline]
    fn begin_step(&mut self, id: u32) {
        match self.plan.steps[self.jobs[id].step as usize].place {
            Place::Own => self.begin_alone(id),
            Place::Shared(index) => {
                let work = self.work(id);
                let ResourceRun::Shared(shared) = &mut self.resources[index as usize] else {
                    unreachable!("the plan says which resources are shared");
                };
                shared.begin(self.now, id, work);
                self.schedule(index);
            }
            Place::Pool(index) => {
                let ResourceRun::Pool(pool) = &mut self.resources[index as usize] else {
                    unreachable!("the plan says which resources are pools");
                };
                if pool.begin(id) {
                    self.begin_alone(id);
                }
            }
        }
    }

    #[inline]
    fn begin_alone(&mut self, id: u32) {
        let work = self.work(id);
        let pauses = &self.plan.stages[self.jobs[id].stage as usize].pauses;
        let due = pauses.after(self.now, round(work));
        self.jobs[id].due = due;
        self.at(due, Event::StepDone(id));
    }

    /// How long the present step of a job takes at full speed, in nanoseconds.
    #[inline]
    fn work(&mut self, id: u32) -> f64 {
        let job = &self.jobs[id];
        let stage = &self.plan.stages[job.stage as usize];
        let mut times = self.stages[job.stage as usize].times;
        if times < 1.0 && job.step < stage.first_step[job.sort as usize] {
            // What a batch costs does not fall with the quality.
            times = 1.0;
        }
        let step = &self.plan.steps[job.step as usize];
        let work = if job.recorded == u64::MAX || !self.at_first_step(id) {
            step.work.sample(&mut self.jobs[id].draws)
        } else {
            job.recorded as f64
        };
        let work = work * times;
        match &stage.stretch {
            None => work,
            Some(stretch) => work * stretch.value(self.now),
        }
    }

    fn at_first_step(&self, id: u32) -> bool {
        let Job { at_entry, stage, sort, step, .. } = self.jobs[id];
        at_entry && step == self.plan.stages[stage as usize].first_step[sort as usize]
    }

    fn schedule(&mut self, resource: u32) {
        if let ResourceRun::Shared(shared) = &mut self.resources[resource as usize]
            && let Some(at) = shared.schedule(self.now)
        {
            self.at(at, Event::Resource(resource));
        }
    }

    fn resource_due(&mut self, resource: u32) {
        let ResourceRun::Shared(shared) = &mut self.resources[resource as usize] else { return };
        let done = shared.due(self.now);
        if let Some(id) = done {
            self.next_step(id);
        }
        self.schedule(resource);
    }

    #[inline]
    fn step_done(&mut self, id: u32) {
        if self.jobs[id].due != self.now {
            // It was ended early.
            return;
        }
        self.jobs[id].due = u64::MAX;
        if let Place::Pool(index) = self.plan.steps[self.jobs[id].step as usize].place
            && let ResourceRun::Pool(pool) = &mut self.resources[index as usize]
            && let Some(next) = pool.end()
        {
            self.begin_alone(next);
        }
        self.next_step(id);
    }

    #[inline]
    fn next_step(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if self.plan.steps[job.step as usize].is_last {
            self.finish_stage(id);
        } else {
            job.step += 1;
            self.begin_step(id);
        }
    }

    #[inline]
    fn finish_stage(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if job.is_left {
            // What was done is of use to nobody.
            self.end_early(id);
            return;
        }
        let plan = &self.plan.stages[job.stage as usize];
        let next = *plan.next[job.class.index()].draw(&mut job.draws);
        if let Some(global) = &mut self.global {
            global.finished(self.now, job, (next != EXIT).then_some(next));
        }
        self.end_at_stage(id, Outcome::Completed);
        if next == EXIT {
            self.leave(id, Outcome::Completed, None);
        } else {
            self.enter(id, next);
        }
    }

    /// An event is ended while it runs.
    #[cold]
    fn end_early(&mut self, id: u32) {
        self.end_at_stage(id, Outcome::Terminated);
        self.leave(id, Outcome::Terminated, None);
    }

    /// An event that ran has ended at its stage.
    #[inline(always)]
    fn end_at_stage(&mut self, id: u32, outcome: Outcome) {
        let job = &mut self.jobs[id];
        let stage = job.stage;
        job.at_entry = false;
        job.limit = u64::MAX;
        self.stages[stage as usize].finish(self.now, job, outcome);
        job.phase = Phase::Away;
        job.has_worker = false;
        job.is_lost = false;
        self.see(id, What::Ended(outcome));
        if self.jobs[id].follower != NOBODY
            && let Some(next) = self.begin_follower(id)
        {
            self.stages[stage as usize].keep_worker();
            self.begin_with_worker(next);
        }
        self.begin_behind(stage);
        self.dispatch(stage);
    }

    #[inline]
    fn begin_behind(&mut self, stage: u32) {
        while let Some(next) = self.stages[stage as usize].take_behind() {
            self.begin_with_worker(next);
        }
    }

    /// Lets as many run as there are places.
    #[inline]
    fn dispatch(&mut self, stage: u32) {
        let plan = &self.plan.stages[stage as usize];
        while let Some(next) = self.stages[stage as usize].next(self.now, &self.jobs, plan) {
            match next {
                Next::Run(id) => {
                    self.fill_batch(id);
                    self.start(id);
                }
                Next::Drop(id) => self.drop_queued(id),
            }
        }
    }

    fn drop_queued(&mut self, id: u32) {
        self.jobs[id].phase = Phase::Away;
        self.see(id, What::Ended(Outcome::Dropped));
        self.leave(id, Outcome::Dropped, None);
    }

    fn tick(&mut self) {
        self.at(self.now + self.plan.tick, Event::Tick);
        for stage in 0..self.stages.len() {
            let mut moves = std::mem::take(&mut self.moves);
            let plan = &self.plan.stages[stage];
            if self.stages[stage].tick(self.now, &mut self.jobs, plan, &mut moves) {
                self.tell_knobs(stage);
            }
            for id in moves.parked.drain(..) {
                self.see(id, What::Parked);
            }
            self.begin_behind(stage as u32);
            self.dispatch(stage as u32);
            for id in moves.overdue.drain(..) {
                self.drop_queued(id);
            }
            self.moves = moves;
        }
        if let Some(global) = &mut self.global {
            global.tick(self.now, &mut self.stages);
        }
    }

    fn tell_knobs(&mut self, stage: usize) {
        let now = Timestamp::from_nanos(self.now);
        self.watch.set(now, stage as u32, &self.stages[stage].knobs);
    }

    /// A request has ended altogether, and its client does what it does then.
    #[inline]
    fn leave(&mut self, id: u32, outcome: Outcome, rejection: Option<Rejection>) {
        self.see(id, What::Left(outcome));
        let job = &mut self.jobs[id];
        job.leaves = u64::MAX;
        let response = job.first_data.min(self.now) - job.arrived;
        self.ledger.leave(job.class, job.flow, outcome, response);
        let retry_after = rejection.and_then(|rejection| rejection.retry_after);
        self.client_told(id, outcome, retry_after.unwrap_or(Duration::ZERO));
    }

    fn mark(&mut self) {
        self.ledger.mark(self.now, &mut self.stages);
    }

    /// Every request is in exactly one place.
    fn balances(&self) -> bool {
        self.stages.iter().zip(&self.plan.stages).all(|(stage, plan)| stage.balances(plan))
            && self.ledger.classes.iter().enumerate().all(|(class, tally)| {
                let inside: u64 = self.stages.iter().map(|stage| stage.inside.of(class)).sum();
                tally.counts.offered == tally.counts.ended() + inside
            })
    }

    /// A slot for a new client or request; `None` if there are too many.
    #[inline]
    fn insert(&mut self, job: Job) -> Option<u32> {
        self.jobs.insert(job)
    }
}

/// Of nanoseconds that are not negative; what is too long saturates.
#[inline]
fn round(nanos: f64) -> u64 {
    (nanos + 0.5) as u64
}
