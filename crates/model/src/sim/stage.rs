//! A stage at work: law, queue and accounts, told and asked as the live one is.
//!
//! The live runtime does this behind a lock; here nothing else happens meanwhile.
//! The calls of the law, their order and what they are told are those of a stage that
//! works as a gate: an event that finds a place runs at once, without being asked
//! about at the head of a queue that it never was in.

use std::collections::VecDeque;
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Concurrency, Decision, Dequeue, Ending, Finished,
    Order, Ratio, Reason, Rejection, Timestamp, Waiting,
};

use super::job::{Job, Jobs};
use super::plan::StagePlan;
use super::tally::{Counts, Level, Times};
use super::watch::Outcome;

pub(super) struct StageRun {
    pub(super) law: Box<dyn AdmissionLaw>,
    pub(super) inside: Inside,
    /// One for each priority, most important first.
    lines: Box<[VecDeque<u32>]>,
    /// Let through by a law with a limit of its own, and waiting for a worker.
    behind: VecDeque<u32>,
    pub(super) classes: Box<[StageTally]>,
    pub(super) reasons: Vec<(Reason, u64)>,
    cpu: Cpu,
}

/// How busy the processors are, each worker being taken for a core of its own.
struct Cpu {
    cores: f64,
    /// When it was told last, and the area under the number running until then.
    told: (u64, i128),
}

/// Who is inside, and how many may run.
pub(super) struct Inside {
    pub(super) workers: Concurrency,
    queued_of: Box<[u32]>,
    running_of: Box<[u32]>,
    pub(super) queued: Level,
    pub(super) running: Level,
}

impl Inside {
    fn new(workers: Concurrency, classes: usize) -> Self {
        Self {
            workers,
            queued_of: vec![0; classes].into(),
            running_of: vec![0; classes].into(),
            queued: Level::default(),
            running: Level::default(),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog<'_> {
        Backlog {
            queued: &self.queued_of,
            running: &self.running_of,
            queued_total: self.queued.now,
            running_total: self.running.now,
            workers: self.workers,
        }
    }

    #[inline]
    fn has_place(&self) -> bool {
        self.queued.now == 0 && self.running.now < self.workers.get()
    }

    #[inline]
    fn queue(&mut self, now: u64, class: ClassId) {
        self.queued_of[class.index()] += 1;
        self.queued.up(now);
    }

    #[inline]
    fn unqueue(&mut self, now: u64, class: ClassId) {
        self.queued_of[class.index()] -= 1;
        self.queued.down(now);
    }

    #[inline]
    fn start(&mut self, now: u64, class: ClassId) {
        self.running_of[class.index()] += 1;
        self.running.up(now);
    }

    #[inline]
    fn finish(&mut self, now: u64, class: ClassId) {
        self.running_of[class.index()] -= 1;
        self.running.down(now);
    }

    /// Those of one class.
    pub(super) fn of(&self, class: usize) -> u64 {
        u64::from(self.queued_of[class] + self.running_of[class])
    }
}

/// What a stage did for one class.
#[derive(Clone, Debug, Default)]
pub(super) struct StageTally {
    pub(super) counts: Counts,
    /// Of those rejected, how many found a place free.
    pub(super) rejected_idle: u64,
    /// In the queue, of all that were started.
    pub(super) wait: Times,
    /// From entering to the end, of all that were completed.
    pub(super) response: Times,
}

/// What became of an event at the door.
pub(super) enum Entered {
    Runs,
    Waits,
    Refused(Rejection),
}

impl StageRun {
    pub(super) fn new(plan: &StagePlan, law: Box<dyn AdmissionLaw>) -> Self {
        let classes = plan.next.len();
        let mut stage = Self {
            law,
            inside: Inside::new(plan.workers, classes),
            lines: vec![VecDeque::new(); plan.levels()].into(),
            behind: VecDeque::new(),
            classes: vec![StageTally::default(); classes].into(),
            reasons: Vec::new(),
            cpu: Cpu { cores: f64::from(plan.workers.get()), told: (0, 0) },
        };
        stage.follow_law();
        stage
    }

    fn follow_law(&mut self) {
        if let Some(limit) = self.law.concurrency() {
            self.inside.workers = limit;
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, now: u64, id: u32, job: &Job, plan: &StagePlan) -> Entered {
        let class = job.class;
        let has_place = self.inside.has_place();
        self.classes[class.index()].counts.offered += 1;
        if let Err(rejection) = self.decide(now, job, plan) {
            self.count_refusal(class, rejection.reason, has_place);
            return Entered::Refused(rejection);
        }
        if has_place {
            self.start(now, class, 0);
            return Entered::Runs;
        }
        self.inside.queue(now, class);
        self.lines[plan.level_of_class[class.index()]].push_back(id);
        Entered::Waits
    }

    #[inline]
    fn decide(&mut self, now: u64, job: &Job, plan: &StagePlan) -> Result<(), Rejection> {
        if job.deadline <= now {
            return Err(Rejection::new(Reason::PredictedLate));
        }
        if self.inside.queued.now >= plan.capacity {
            return Err(Rejection::new(Reason::QueueFull));
        }
        // For laws zero is who is not known.
        let flow = if plan.tells_flows { u64::from(job.flow) + 1 } else { 0 };
        let arrival = Arrival { class: job.class, deadline: deadline(job), flow };
        let now = Timestamp::from_nanos(now);
        match self.law.on_arrival(now, &arrival, &self.inside.backlog()) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    /// The next event out of the queue, if a place is free: to run, or to be dropped.
    #[inline]
    pub(super) fn next(&mut self, now: u64, jobs: &Jobs, plan: &StagePlan) -> Option<Next> {
        let Inside { queued, running, workers, .. } = &self.inside;
        if queued.now == 0 || running.now >= workers.get() {
            return None;
        }
        let order = if plan.adaptive {
            let heads = self.lines.iter().filter_map(VecDeque::front);
            let oldest = heads.map(|&id| jobs[id].entered).min().unwrap_or(now);
            self.law.order(Duration::from_nanos(now - oldest))
        } else {
            Order::OldestFirst
        };
        let line = self.lines.iter_mut().find(|line| !line.is_empty())?;
        let id = match order {
            Order::OldestFirst => line.pop_front(),
            Order::NewestFirst => line.pop_back(),
        }?;
        let job = &jobs[id];
        let (at, backlog) = (Timestamp::from_nanos(now), self.inside.backlog());
        let of_use =
            job.deadline > now && self.law.on_dequeue(at, &waiting(job), &backlog) == Dequeue::Run;
        self.inside.unqueue(now, job.class);
        if of_use {
            self.start(now, job.class, now - job.entered);
            Some(Next::Run(id))
        } else {
            self.classes[job.class.index()].counts.dropped += 1;
            Some(Next::Drop(id))
        }
    }

    #[inline]
    fn start(&mut self, now: u64, class: ClassId, waited: u64) {
        self.inside.start(now, class);
        self.classes[class.index()].wait.record(waited);
    }

    /// Whether there is a worker for an event that was just started; if not, it waits.
    #[inline]
    pub(super) fn finds_worker(&mut self, id: u32, plan: &StagePlan) -> bool {
        let working = self.inside.running.now - self.behind.len() as u32;
        let finds = working <= plan.workers.get();
        if !finds {
            self.behind.push_back(id);
        }
        finds
    }

    /// Who has waited for the worker that an event has left.
    #[inline]
    pub(super) fn take_behind(&mut self) -> Option<u32> {
        self.behind.pop_front()
    }

    /// An event has been served.
    #[inline]
    pub(super) fn finish(&mut self, now: u64, job: &Job) {
        let class = job.class;
        self.inside.finish(now, class);
        let tally = &mut self.classes[class.index()];
        tally.counts.end(Outcome::Completed);
        tally.response.record(now - job.entered);
        let finished = Finished {
            class,
            service: Duration::from_nanos(now - job.started),
            response: Duration::from_nanos(now - job.entered),
            ending: Ending::Completed,
        };
        self.law.on_finish(Timestamp::from_nanos(now), &finished, &self.inside.backlog());
        self.follow_law();
    }

    /// The governor's tick: the one place where laws are given the time, and where
    /// those that turn the slower knobs belong. What has become overdue in the queue
    /// is put into `overdue`.
    pub(super) fn tick(&mut self, now: u64, jobs: &Jobs, overdue: &mut Vec<u32>) {
        self.tell_cpu(now);
        self.law.on_tick(Timestamp::from_nanos(now), &self.inside.backlog());
        self.follow_law();
        self.take_overdue(now, jobs, overdue);
    }

    fn tell_cpu(&mut self, now: u64) {
        let area = self.inside.running.area(now);
        let (told_at, told_area) = std::mem::replace(&mut self.cpu.told, (now, area));
        let passed = (now - told_at).max(1) as f64;
        let busy = (area - told_area) as f64 / (passed * self.cpu.cores);
        self.law.on_cpu(Timestamp::from_nanos(now), Ratio::saturating(busy));
    }

    /// Takes out what is of no use any more, wherever it stands: what waits behind a
    /// higher priority may never become next.
    fn take_overdue(&mut self, now: u64, jobs: &Jobs, overdue: &mut Vec<u32>) {
        let first = overdue.len();
        let (at, backlog) = (Timestamp::from_nanos(now), self.inside.backlog());
        for line in &mut self.lines {
            line.retain(|&id| {
                let job = &jobs[id];
                let stays = job.deadline > now
                    && self.law.on_sweep(at, &waiting(job), &backlog) == Dequeue::Run;
                if !stays {
                    overdue.push(id);
                }
                stays
            });
        }
        for &id in &overdue[first..] {
            let class = jobs[id].class;
            self.inside.unqueue(now, class);
            self.classes[class.index()].counts.dropped += 1;
        }
    }

    /// A global law has refused an event that was to enter here.
    pub(super) fn turn_away(&mut self, class: ClassId, reason: Reason) {
        self.classes[class.index()].counts.offered += 1;
        self.count_refusal(class, reason, self.inside.has_place());
    }

    fn count_refusal(&mut self, class: ClassId, reason: Reason, has_place: bool) {
        let tally = &mut self.classes[class.index()];
        tally.counts.rejected += 1;
        tally.rejected_idle += u64::from(has_place);
        match self.reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((reason, 1)),
        }
    }

    /// Everyone who was offered is accounted for, and nobody waits for nothing.
    pub(super) fn balances(&self) -> bool {
        let Inside { workers, queued_of, running_of, queued, running } = &self.inside;
        let by_class = self.classes.iter().enumerate().all(|(class, tally)| {
            tally.counts.offered == tally.counts.ended() + self.inside.of(class)
        });
        let waiting: usize = self.lines.iter().map(VecDeque::len).sum();
        by_class
            && waiting == queued.now as usize
            && queued.now == queued_of.iter().sum()
            && running.now == running_of.iter().sum()
            && (queued.now == 0 || running.now >= workers.get())
    }
}

/// Who comes out of a queue.
pub(super) enum Next {
    Run(u32),
    Drop(u32),
}

#[inline]
fn deadline(job: &Job) -> Option<Timestamp> {
    (job.deadline != u64::MAX).then_some(Timestamp::from_nanos(job.deadline))
}

#[inline]
fn waiting(job: &Job) -> Waiting {
    let entered = Timestamp::from_nanos(job.entered);
    Waiting { class: job.class, entered, deadline: deadline(job) }
}
