//! A stage at work: law, queue and accounts, told and asked as the live one is.
//!
//! The live runtime does this behind a lock; here nothing else happens meanwhile.
//! The calls of the law, their order and what they are told are those of a stage that
//! works as a gate: an event that finds a place runs at once, without being asked
//! about at the head of a queue that it never was in. A worker that takes a batch asks
//! about each event of it, as a crew's does.

use std::collections::VecDeque;
use std::time::Duration;

use tamarisk_control::{
    Arrival, ClassId, Decision, Dequeue, Ending, Finished, Knobs, Order, Reason, Rejection, Ruling,
    Timestamp, Waiting,
};

use super::inside::Inside;
use super::job::{Job, Jobs};
use super::plan::StagePlan;
use super::ruling::Ruled;
use super::tally::{Counts, Course, Times};
use super::watch::Outcome;

pub(super) struct StageRun {
    pub(super) ruling: Ruling,
    pub(super) inside: Inside,
    /// As the slow laws have set them last, or as the stage is built.
    pub(super) knobs: Knobs,
    pub(super) courses: Courses,
    /// How many times as long as at full quality its work takes.
    pub(super) times: f64,
    /// How long events of each class may run, in nanoseconds; empty if nobody ends them.
    pub(super) limits: Box<[u64]>,
    /// One for each priority, most important first.
    pub(super) lines: Box<[VecDeque<u32>]>,
    /// Let through by a law with a limit of its own, and waiting for a worker.
    behind: VecDeque<u32>,
    pub(super) classes: Box<[StageTally]>,
    pub(super) reasons: Vec<(Reason, u64)>,
    /// When it was told how busy the processors are, and the area under the number running
    /// until then.
    pub(super) cpu_told: (u64, i128),
}

/// The knobs in time.
pub(super) struct Courses {
    pub(super) workers: Course,
    pub(super) batch: Course,
    pub(super) quality: Course,
}

impl Courses {
    /// Their integrals until `at`: of workers, batch and quality.
    pub(super) fn areas(&self, at: u64) -> [f64; 3] {
        [self.workers, self.batch, self.quality].map(|course| course.area(at))
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
    pub(super) fn new(plan: &StagePlan, ruled: Ruled) -> Self {
        let classes = plan.next.len();
        let Ruled { ruling, knobs, terminates } = ruled;
        let mut stage = Self {
            ruling,
            inside: Inside::new(knobs.workers, classes),
            knobs,
            courses: Courses {
                workers: Course::new(f64::from(knobs.workers.get())),
                batch: Course::new(f64::from(knobs.batch.get())),
                quality: Course::new(knobs.quality.get()),
            },
            times: 1.0,
            limits: vec![u64::MAX; if terminates { classes } else { 0 }].into(),
            lines: vec![VecDeque::new(); plan.levels()].into(),
            behind: VecDeque::new(),
            classes: vec![StageTally::default(); classes].into(),
            reasons: Vec::new(),
            cpu_told: (0, 0),
        };
        stage.follow_law();
        stage
    }

    pub(super) fn follow_law(&mut self) {
        self.inside.workers = self.ruling.admission().places(self.knobs.workers);
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
        let arrival = Arrival { class: job.class, deadline: deadline(job), flow, kind: 0 };
        let now = Timestamp::from_nanos(now);
        match self.ruling.admission_mut().on_arrival(now, &arrival, &self.inside.backlog()) {
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
        let next = self.take(now, jobs, plan)?;
        if let Next::Run(id) = next {
            let job = &jobs[id];
            self.start(now, job.class, now - job.entered);
        }
        Some(next)
    }

    /// Takes the next event out of the queue.
    #[inline(always)]
    fn take(&mut self, now: u64, jobs: &Jobs, plan: &StagePlan) -> Option<Next> {
        let order = if plan.adaptive {
            let heads = self.lines.iter().filter_map(VecDeque::front);
            let oldest = heads.map(|&id| jobs[id].entered).min().unwrap_or(now);
            self.ruling.admission().order(Duration::from_nanos(now - oldest))
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
        let law = self.ruling.admission_mut();
        let of_use =
            job.deadline > now && law.on_dequeue(at, &waiting(job), &backlog) == Dequeue::Run;
        self.inside.unqueue(now, job.class);
        if of_use {
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

    /// How many more than one a worker takes that takes from the queue now. No more than its
    /// share, so that none hoards what others could do.
    #[inline]
    pub(super) fn batch_beside_first(&self) -> u32 {
        let most = self.knobs.batch.get();
        if most == 1 {
            return 0;
        }
        let share = (self.inside.queued.now + 1).div_ceil(self.inside.workers.get());
        most.min(share) - 1
    }

    /// The next event out of the queue into a worker's batch: to be begun later, or to be
    /// dropped.
    #[cold]
    pub(super) fn take_along(&mut self, now: u64, jobs: &Jobs, plan: &StagePlan) -> Option<Next> {
        let next = self.take(now, jobs, plan)?;
        if let Next::Run(id) = next {
            self.inside.hold(jobs[id].class);
        }
        Some(next)
    }

    /// The worker of an event's batch comes to it: whether it is worth beginning.
    pub(super) fn begin_held(&mut self, now: u64, job: &Job) -> bool {
        let tally = &mut self.classes[job.class.index()];
        let of_use = job.deadline > now;
        if of_use {
            self.inside.begin_held(now);
            tally.wait.record(now - job.entered);
        } else {
            self.inside.drop_held(job.class);
            tally.counts.dropped += 1;
        }
        of_use
    }

    /// When an event that begins now is ended if it still runs: at its deadline, or when it has
    /// run for as long as its class may. `None` if nobody ends it.
    #[inline]
    pub(super) fn end_of(&self, now: u64, job: &Job) -> Option<u64> {
        let limit = *self.limits.get(job.class.index())?;
        Some(job.deadline.min(now.saturating_add(limit)))
    }

    /// Whether there is a worker for an event that was just started; if not, it waits.
    #[inline]
    pub(super) fn finds_worker(&mut self, id: u32) -> bool {
        let finds = self.working() <= self.knobs.workers.get();
        if !finds {
            self.wait_behind(id);
        }
        finds
    }

    pub(super) fn wait_behind(&mut self, id: u32) {
        self.behind.push_back(id);
    }

    /// Who has waited for a worker, if one is free.
    #[inline]
    pub(super) fn take_behind(&mut self) -> Option<u32> {
        if self.behind.is_empty() || self.working() >= self.knobs.workers.get() {
            return None;
        }
        self.behind.pop_front()
    }

    /// An event is ended early: whether it was waiting for a worker, and does so no more.
    pub(super) fn leave_behind(&mut self, id: u32) -> bool {
        let before = self.behind.len();
        self.behind.retain(|&other| other != id);
        self.behind.len() < before
    }

    #[inline]
    fn working(&self) -> u32 {
        self.inside.running.now - self.behind.len() as u32
    }

    /// An event has been served, or was ended early.
    #[inline]
    pub(super) fn finish(&mut self, now: u64, job: &Job, outcome: Outcome) {
        let class = job.class;
        self.inside.finish(now, class);
        let tally = &mut self.classes[class.index()];
        tally.counts.end(outcome);
        let ending = if outcome == Outcome::Completed {
            tally.response.record(now - job.entered);
            Ending::Completed
        } else {
            Ending::Terminated
        };
        let finished = Finished {
            kind: 0,
            class,
            service: Duration::from_nanos(now - job.started),
            response: Duration::from_nanos(now - job.entered),
            ending,
        };
        let (now, law) = (Timestamp::from_nanos(now), self.ruling.admission_mut());
        law.on_finish(now, &finished, &self.inside.backlog());
        self.follow_law();
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
        let by_class = self.classes.iter().enumerate().all(|(class, tally)| {
            tally.counts.offered == tally.counts.ended() + self.inside.of(class)
        });
        let waiting: usize = self.lines.iter().map(VecDeque::len).sum();
        by_class
            && waiting == self.inside.queued.now as usize
            && self.inside.balances()
            && (self.behind.is_empty() || self.working() >= self.knobs.workers.get())
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
pub(super) fn waiting(job: &Job) -> Waiting {
    let entered = Timestamp::from_nanos(job.entered);
    Waiting { class: job.class, entered, deadline: deadline(job), kind: 0 }
}
