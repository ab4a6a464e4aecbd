//! A stage in virtual time, to drive any admission law with.
//!
//! One heap of future events, one seeded generator of randomness, no clock: the
//! same seed gives the same run to the nanosecond. The stage keeps the accounts
//! (who is queued, who runs) and does what the law says, as the live one does.
//! Events that leave its queue go to an *upstream* with workers of its own. For
//! an ordinary stage the upstream's workers are the stage's; for an opaque
//! upstream the stage only holds the number in flight at the law's limit, and
//! what exceeds the hidden workers waits in the upstream's own blind queue.

#![allow(dead_code, unreachable_pub, reason = "shared by several tests and an example")]

pub mod governed;
pub mod laws;
pub mod oracle;
pub mod report;
pub mod scenarios;
pub mod workload;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tamarisk_control::{
    Activity, AdmissionLaw, Arrival, Backlog, Change, ClassId, Concurrency, Decision, Dequeue,
    Ending, Finished, Moved, Order, Ratio, Reason, Timestamp, Waiting,
};
use tamarisk_laws::Knobs;

use governed::{Governor, Ungoverned, plain};
use scenarios::Scenario;
use workload::{Load, Workload};

/// How often the simulated governor ticks.
const TICK: Duration = Duration::from_millis(100);

/// More events than any scenario has: a run that does not end is a bug.
const STEPS_MAX: u64 = 50_000_000;

/// Where the work is done.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// How many events it works on at once; what exceeds them waits in it, first
    /// come first served, whatever its class.
    pub workers: u32,
    /// How much longer work takes that begins in `[from, to)` seconds.
    pub slowdown: Option<(f64, f64, f64)>,
    /// Beyond so many in flight each further one slows all that begin: work takes
    /// `(in flight ÷ knee)^power` times as long.
    pub contention_knee: Option<u32>,
    pub contention_power: i32,
    /// What each batch costs before its first event, in seconds.
    pub batch_setup: f64,
}

impl Upstream {
    /// `workers` that always run at full speed.
    pub fn steady(workers: u32) -> Self {
        Self {
            workers,
            slowdown: None,
            contention_knee: None,
            contention_power: 1,
            batch_setup: 0.0,
        }
    }
}

/// How an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered.
    Completed,
    /// Refused at the door.
    Rejected(Reason),
    /// Admitted, and dropped at the head of the queue.
    Dropped,
    /// Admitted, and ended while it ran.
    Terminated,
    /// Still inside when the run ended.
    Inside,
}

/// One event's story; times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    pub class: ClassId,
    /// Whose it is.
    pub flow: u64,
    pub arrived: f64,
    pub ended: f64,
    /// What it would take, or took, of one worker.
    pub work: f64,
    pub outcome: Outcome,
}

impl Record {
    pub fn response(&self) -> f64 {
        self.ended - self.arrived
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Phase(usize),
    Request { user: Option<usize>, phase: usize },
    Finish { id: usize, ending: Ended },
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    Completed,
    Terminated,
}

/// A record in the making, and what is needed to end it.
struct Story {
    record: Record,
    user: Option<usize>,
    entered: Timestamp,
    started: Timestamp,
}

#[derive(Clone, Copy)]
enum ThinkAfter {
    Answer,
    Rejection,
}

/// Puts `law` into `scenario`, and tells every event's story.
pub fn run(law: &mut dyn AdmissionLaw, scenario: &Scenario, seed: u64) -> Vec<Record> {
    run_governed(&mut Ungoverned(law), None, scenario, seed).0
}

/// The same for a stage with slow loops too, which begins with `knobs`: every
/// event's story, and the knobs after each tick.
pub fn run_governed(
    governor: &mut dyn Governor,
    knobs: Option<Knobs>,
    scenario: &Scenario,
    seed: u64,
) -> (Vec<Record>, Vec<(f64, Knobs)>) {
    let mut simulation = Simulation::new(governor, scenario, seed);
    simulation.knobs = knobs;
    simulation.run()
}

struct Simulation<'a> {
    governor: &'a mut dyn Governor,
    knobs: Option<Knobs>,
    knobs_history: Vec<(f64, Knobs)>,
    completed: u64,
    lost: u64,
    /// The most that ran at once since the last tick.
    running_peak: u32,
    upstream: &'a Upstream,
    workload: &'a Workload,
    random: StdRng,
    future: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    scheduled: u64,
    now: Timestamp,
    phase: usize,
    users_alive: Vec<bool>,
    /// By priority, most important first; each in order of arrival.
    queue: BTreeMap<u8, VecDeque<usize>>,
    queued: Vec<u32>,
    running: Vec<u32>,
    upstream_queue: VecDeque<usize>,
    upstream_busy: u32,
    /// Work done since the last tick, in seconds of a worker, up to `counted`.
    busy_seconds: f64,
    counted: Timestamp,
    stories: Vec<Story>,
}

impl<'a> Simulation<'a> {
    fn new(governor: &'a mut dyn Governor, scenario: &'a Scenario, seed: u64) -> Self {
        let Scenario { workload, upstream, .. } = scenario;
        let classes = workload.classes.len();
        let mut simulation = Self {
            governor,
            knobs: None,
            knobs_history: Vec::new(),
            completed: 0,
            lost: 0,
            running_peak: 0,
            upstream,
            workload,
            random: StdRng::seed_from_u64(seed),
            future: BinaryHeap::new(),
            scheduled: 0,
            now: Timestamp::ZERO,
            phase: 0,
            users_alive: Vec::new(),
            queue: BTreeMap::new(),
            queued: vec![0; classes],
            running: vec![0; classes],
            upstream_queue: VecDeque::new(),
            upstream_busy: 0,
            busy_seconds: 0.0,
            counted: Timestamp::ZERO,
            stories: Vec::new(),
        };
        for (index, phase) in workload.phases.iter().enumerate() {
            simulation.at(phase.from_seconds, Event::Phase(index));
        }
        simulation.after(TICK, Event::Tick);
        simulation
    }

    fn run(mut self) -> (Vec<Record>, Vec<(f64, Knobs)>) {
        let end = Timestamp::ZERO + Duration::from_secs_f64(self.workload.until_seconds);
        for _ in 0..STEPS_MAX {
            match self.future.pop() {
                Some(Reverse((now, _, event))) if now < end => {
                    self.now = now;
                    self.step(event);
                }
                _ => {
                    let records = self.stories.into_iter().map(|story| story.record);
                    return (records.collect(), self.knobs_history);
                }
            }
        }
        panic!("the simulation did not end within {STEPS_MAX} steps");
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Phase(index) => self.enter_phase(index),
            Event::Request { user: Some(user), .. } => {
                if matches!(self.load(), Load::Users { count, .. } if user < count) {
                    self.arrive(Some(user));
                } else {
                    self.users_alive[user] = false;
                }
            }
            Event::Request { user: None, phase } if phase == self.phase => {
                self.schedule_next_arrival();
                self.arrive(None);
            }
            Event::Request { .. } => {}
            Event::Finish { id, ending } => self.finish(id, ending),
            Event::Tick => {
                self.after(TICK, Event::Tick);
                self.tell_cpu();
                self.tick();
                self.dispatch();
            }
        }
    }

    fn tick(&mut self) {
        let limit = self.limit();
        let backlog = backlog(&self.queued, &self.running, limit);
        self.governor.admission().on_tick(self.now, &backlog);
        let activity = Activity {
            backlog,
            offered: self.stories.len() as u64,
            lost: self.lost,
            completed: self.completed,
            workers_idle: limit.saturating_sub(self.running_peak),
        };
        if let Some(knobs) = self.governor.on_tick(self.now, &activity) {
            self.knobs = Some(knobs);
            self.knobs_history.push((seconds(self.now), knobs));
        }
        self.running_peak = total(&self.running);
    }

    fn load(&self) -> Load {
        self.workload.phases[self.phase].load
    }

    fn enter_phase(&mut self, index: usize) {
        self.phase = index;
        match self.load() {
            Load::Users { count, .. } => {
                self.users_alive.resize(self.users_alive.len().max(count), false);
                for user in 0..count {
                    if !std::mem::replace(&mut self.users_alive[user], true) {
                        let within_a_millisecond = workload::uniform(&mut self.random) * 1e-3;
                        let after = Duration::from_secs_f64(within_a_millisecond);
                        self.after(after, Event::Request { user: Some(user), phase: index });
                    }
                }
            }
            Load::Poisson { .. } => self.schedule_next_arrival(),
        }
    }

    fn schedule_next_arrival(&mut self) {
        if let Load::Poisson { per_second } = self.load() {
            let gap = workload::exponential(&mut self.random, 1.0 / per_second);
            let event = Event::Request { user: None, phase: self.phase };
            self.after(Duration::from_secs_f64(gap), event);
        }
    }

    fn arrive(&mut self, user: Option<usize>) {
        let (class, work) = self.workload.draw(&mut self.random);
        let arrived = seconds(self.now);
        let flow = match user {
            Some(user) => user as u64 + 1,
            None => self.workload.clients.draw(self.stories.len() as u64, &mut self.random),
        };
        let record =
            Record { class, flow, arrived, ended: arrived, work, outcome: Outcome::Inside };
        let id = self.stories.len();
        self.stories.push(Story { record, user, entered: self.now, started: self.now });

        let backlog = backlog(&self.queued, &self.running, self.limit());
        let idle = backlog.has_idle_worker();
        let arrival = Arrival { class, deadline: None, flow, kind: 0 };
        match self.governor.admission().on_arrival(self.now, &arrival, &backlog) {
            Decision::Reject(rejection) => self.end(id, Outcome::Rejected(rejection.reason)),
            Decision::Admit if idle => self.start(id),
            Decision::Admit => {
                self.queued[class.index()] += 1;
                let priority = self.workload.classes.at(class).priority.0;
                self.queue.entry(priority).or_default().push_back(id);
                self.dispatch();
            }
        }
    }

    /// Takes events from the queue while the limit leaves room.
    fn dispatch(&mut self) {
        while total(&self.running) < self.limit() {
            let Some(id) = self.take_next() else { return };
            let class = self.stories[id].record.class;
            let waiting =
                Waiting { class, entered: self.stories[id].entered, deadline: None, kind: 0 };
            let backlog = backlog(&self.queued, &self.running, self.limit());
            let verdict = self.governor.admission().on_dequeue(self.now, &waiting, &backlog);
            self.queued[class.index()] -= 1;
            match verdict {
                Dequeue::Run => self.start(id),
                Dequeue::Drop => {
                    let time = self.now.since(self.stories[id].entered);
                    let moved = Moved { class, kind: 0, change: Change::Dropped, time };
                    let backlog = self::backlog(&self.queued, &self.running, self.limit());
                    self.governor.admission().on_move(self.now, &moved, &backlog);
                    self.end(id, Outcome::Dropped);
                }
            }
        }
    }

    fn take_next(&mut self) -> Option<usize> {
        let line = self.queue.values_mut().find(|line| !line.is_empty())?;
        let oldest = *line.front()?;
        let head_age = self.now.since(self.stories[oldest].entered);
        let law = self.governor.admission();
        match law.order(head_age) {
            Order::OldestFirst => {
                let due = |&id: &usize| {
                    let Story { record, entered, .. } = &self.stories[id];
                    let (class, entered) = (record.class, *entered);
                    law.due(&Waiting { class, entered, deadline: None, kind: 0 })
                };
                // Most laws leave the order as it is, and some let a queue grow very long.
                if due(&oldest) == self.stories[oldest].entered {
                    return line.pop_front();
                }
                let first = (0..line.len()).min_by_key(|&at| due(&line[at]))?;
                line.remove(first)
            }
            Order::NewestFirst => line.pop_back(),
        }
    }

    fn start(&mut self, id: usize) {
        self.stories[id].started = self.now;
        self.running[self.stories[id].record.class.index()] += 1;
        self.running_peak = self.running_peak.max(total(&self.running));
        if self.upstream_busy < self.upstream.workers {
            self.work(id);
        } else {
            self.upstream_queue.push_back(id);
        }
    }

    fn work(&mut self, id: usize) {
        self.count_work();
        self.upstream_busy += 1;
        let now = seconds(self.now);
        let slowdown = match self.upstream.slowdown {
            Some((from, to, factor)) if (from..to).contains(&now) => factor,
            _ => 1.0,
        };
        let contention = self
            .upstream
            .contention_knee
            .map_or(1.0, |knee| (f64::from(total(&self.running)) / f64::from(knee)).max(1.0))
            .powi(self.upstream.contention_power);
        let Knobs { batch, quality, .. } = self.knobs.unwrap_or_else(|| plain(1));
        // A worker shares the setup among as many as it finds.
        let shared_by = batch.get().min(total(&self.queued) + 1);
        let setup = self.upstream.batch_setup / f64::from(shared_by);
        let work = self.stories[id].record.work * quality.get() + setup;
        let takes = Duration::from_secs_f64(work * slowdown * contention);
        let limit = self.governor.limit(self.stories[id].record.class);
        match limit.filter(|&limit| limit < takes) {
            Some(limit) => self.after(limit, Event::Finish { id, ending: Ended::Terminated }),
            None => self.after(takes, Event::Finish { id, ending: Ended::Completed }),
        }
    }

    fn finish(&mut self, id: usize, ended: Ended) {
        let class = self.stories[id].record.class;
        self.running[class.index()] -= 1;
        self.count_work();
        self.upstream_busy -= 1;
        if let Some(next) = self.upstream_queue.pop_front() {
            self.work(next);
        }
        let finished = Finished {
            kind: 0,
            class,
            service: self.now.since(self.stories[id].started),
            response: self.now.since(self.stories[id].entered),
            ending: match ended {
                Ended::Completed => Ending::Completed,
                Ended::Terminated => Ending::Terminated,
            },
        };
        let backlog = backlog(&self.queued, &self.running, self.limit());
        self.governor.admission().on_finish(self.now, &finished, &backlog);
        self.governor.on_finish(self.now, &finished);
        self.end(
            id,
            match ended {
                Ended::Completed => Outcome::Completed,
                Ended::Terminated => Outcome::Terminated,
            },
        );
        self.dispatch();
    }

    fn count_work(&mut self) {
        let passed = self.now.since(self.counted).as_secs_f64();
        self.busy_seconds += passed * f64::from(self.upstream_busy);
        self.counted = self.now;
    }

    /// Tells the law the CPU, each worker being a core.
    fn tell_cpu(&mut self) {
        self.count_work();
        let cores = f64::from(self.upstream.workers);
        let busy = self.busy_seconds / (cores * TICK.as_secs_f64());
        self.busy_seconds = 0.0;
        self.governor.admission().on_cpu(self.now, Ratio::saturating(busy));
    }

    fn end(&mut self, id: usize, outcome: Outcome) {
        self.stories[id].record.ended = seconds(self.now);
        self.stories[id].record.outcome = outcome;
        match outcome {
            Outcome::Completed => self.completed += 1,
            _ => self.lost += 1,
        }
        let after = match outcome {
            Outcome::Completed => ThinkAfter::Answer,
            _ => ThinkAfter::Rejection,
        };
        self.think(self.stories[id].user, after);
    }

    fn think(&mut self, user: Option<usize>, after: ThinkAfter) {
        let (Some(_), Load::Users { think_seconds, after_reject_seconds, .. }) =
            (user, self.load())
        else {
            return;
        };
        let mean = match after {
            ThinkAfter::Answer => think_seconds,
            ThinkAfter::Rejection => after_reject_seconds,
        };
        let pause = workload::exponential(&mut self.random, mean);
        self.after(Duration::from_secs_f64(pause), Event::Request { user, phase: self.phase });
    }

    fn limit(&self) -> u32 {
        let own = Concurrency::new(self.upstream.workers);
        self.governor.places(self.knobs.map_or(own, |knobs| knobs.workers)).get()
    }

    fn at(&mut self, at_seconds: f64, event: Event) {
        self.schedule(Timestamp::ZERO + Duration::from_secs_f64(at_seconds), event);
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.schedule(self.now + delay, event);
    }

    fn schedule(&mut self, at: Timestamp, event: Event) {
        self.scheduled += 1;
        self.future.push(Reverse((at, self.scheduled, event)));
    }
}

fn backlog<'b>(queued: &'b [u32], running: &'b [u32], limit: u32) -> Backlog<'b> {
    Backlog {
        queued,
        running,
        queued_total: total(queued),
        running_total: total(running),
        workers: Concurrency::new(limit),
    }
}

fn total(counts: &[u32]) -> u32 {
    counts.iter().sum()
}

fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::ZERO).as_secs_f64()
}
