//! A stage of a run: law, queue and accounts, called in the order of the live stage.
//!
//! The live runtime does this behind a lock; here nothing else happens meanwhile.
//! The calls of the law, their order and what they are told are those of a stage that
//! works as a gate: an event that finds a place runs at once, without being asked
//! about at the head of a queue that it never was in. A worker that takes a batch asks
//! about each event of it, as a worker pool's does.

use std::collections::VecDeque;
use std::time::Duration;

use tamarisk_control::{
    Arrival, Change, ClassId, Decision, Dequeue, Ending, Finished, MeasuredFrom, Moved, Ratio,
    Reason, Rejection, Timestamp, Together,
};
use tamarisk_laws::Knobs;

use super::job::{Job, Jobs, Phase, deadline, waiting};
use super::occupancy::StageOccupancy;
use super::queue::QueueLines;
use super::ruling::{Ruled, Ruler};
use super::tally::{Counts, Course, Times};
use super::watch::Outcome;
use crate::sim::plan::resolved::stage::{ServiceOrder, StagePlan};

/// As many events may be parked at a time as in a live stage.
const PARKED_MAX: u32 = 1_024;

pub(in crate::sim) struct StageRun {
    pub(in crate::sim) ruling: Ruler,
    pub(in crate::sim) inside: StageOccupancy,
    /// As the slow laws have set them last, or as the stage is built.
    pub(super) knobs: Knobs,
    pub(in crate::sim) courses: Courses,
    /// How many times as long as at full quality its work takes.
    pub(super) times: f64,
    /// How long events of each class may run, in nanoseconds; empty if nobody ends them.
    pub(super) limits: Box<[u64]>,
    pub(super) lines: QueueLines,
    measured_from: MeasuredFrom,
    /// Whether events may be parked: the law names a limit of its own.
    parks: bool,
    /// Those that began, with their visits, until a tick finds that they run no more.
    begun: Vec<(u32, u64)>,
    /// Workers that have an event.
    busy: u32,
    /// Let through by a law with a limit of its own, and waiting for a worker.
    behind: VecDeque<u32>,
    pub(in crate::sim) classes: Box<[StageTally]>,
    pub(in crate::sim) reasons: Vec<(Reason, u64)>,
    /// When it was told how busy the processors are, and the area under the number running
    /// until then.
    pub(super) cpu_told: (u64, i128),
}

/// The knobs in time.
pub(in crate::sim) struct Courses {
    pub(in crate::sim) workers: Course,
    pub(in crate::sim) batch: Course,
    pub(in crate::sim) quality: Course,
}

impl Courses {
    /// Their integrals until `at`: of workers, batch and quality.
    pub(super) fn areas(&self, at: u64) -> [f64; 3] {
        [self.workers, self.batch, self.quality].map(|course| course.area(at))
    }
}

/// What a stage did for one class.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct StageTally {
    pub(in crate::sim) counts: Counts,
    /// Of those rejected, how many found a place free.
    pub(in crate::sim) rejected_idle: u64,
    /// In the queue, of all that were started.
    pub(in crate::sim) wait: Times,
    /// From entering to the end, of all that were completed.
    pub(in crate::sim) response: Times,
}

/// What the admission law decided about an event.
pub(super) enum Entered {
    Runs,
    Waits,
    Rejected(Rejection),
}

impl StageRun {
    pub(super) fn new(plan: &StagePlan, ruled: Ruled) -> Self {
        let classes = plan.next.len();
        let Ruled { ruling, knobs, terminates } = ruled;
        let mut stage = Self {
            ruling,
            inside: StageOccupancy::new(knobs.workers, classes),
            knobs,
            courses: Courses {
                workers: Course::new(f64::from(knobs.workers.get())),
                batch: Course::new(f64::from(knobs.batch.get())),
                quality: Course::new(knobs.quality.get()),
            },
            times: times(plan, knobs.quality),
            limits: vec![u64::MAX; if terminates { classes } else { 0 }].into(),
            lines: QueueLines::new(plan),
            measured_from: plan.measured_from,
            parks: false,
            begun: Vec::new(),
            busy: 0,
            behind: VecDeque::new(),
            classes: vec![StageTally::default(); classes].into(),
            reasons: Vec::new(),
            cpu_told: (0, 0),
        };
        stage.follow_law();
        stage.parks = stage.names_limit();
        stage
    }

    pub(super) fn follow_law(&mut self) {
        self.inside.workers = self.ruling.admission().places(self.knobs.workers);
    }

    fn names_limit(&self) -> bool {
        self.ruling.admission().concurrency().is_some()
    }

    #[inline]
    pub(super) fn enter(&mut self, now: u64, id: u32, job: &Job, plan: &StagePlan) -> Entered {
        let class = job.class;
        if !self.inside.has_place() {
            self.meet_shortage(now);
        }
        let has_place = self.inside.has_place();
        self.classes[class.index()].counts.offered += 1;
        // Asked before the law counts it among those that run.
        let starts = has_place && self.may_start(job);
        if let Err(rejection) = self.decide(now, job, plan) {
            self.count_rejection(class, rejection.reason, has_place);
            return Entered::Rejected(rejection);
        }
        if starts {
            self.start(now, id, job);
            return Entered::Runs;
        }
        self.inside.queue(now, class);
        self.lines.push(id, job, plan);
        Entered::Waits
    }

    /// Has more workers if the laws say so, and hold back none of those that there are.
    fn meet_shortage(&mut self, now: u64) {
        if self.inside.workers != self.knobs.workers {
            return;
        }
        let at = Timestamp::from_nanos(now);
        let workers = self.ruling.on_shortage(at, &self.inside.backlog());
        if workers > self.knobs.workers {
            self.knobs.workers = workers;
            self.courses.workers.set(now, f64::from(workers.get()));
            self.follow_law();
        }
    }

    fn may_start(&self, job: &Job) -> bool {
        let (kind, backlog) = (u64::from(job.kind), self.inside.backlog());
        self.ruling.admission().may_start(job.class, kind, &backlog)
    }

    #[inline]
    fn decide(&mut self, now: u64, job: &Job, plan: &StagePlan) -> Result<(), Rejection> {
        if job.deadline <= now {
            return Err(Rejection::new(Reason::PredictedLate));
        }
        if self.inside.queued.now >= plan.capacity {
            return Err(Rejection::new(Reason::QueueFull));
        }
        let (flow, kind) = (u64::from(job.told_flow), u64::from(job.kind));
        let arrival = Arrival { class: job.class, deadline: deadline(job), flow, kind };
        let now = Timestamp::from_nanos(now);
        match self.ruling.admission_mut().on_arrival(now, &arrival, &self.inside.backlog()) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    /// The next event out of the queue, if a place is free: to run, or to be dropped.
    #[inline]
    pub(super) fn next(&mut self, now: u64, jobs: &Jobs, plan: &StagePlan) -> Option<Next> {
        let StageOccupancy { queued, running, workers, .. } = &self.inside;
        if queued.now == 0 || running.now >= workers.get() {
            return None;
        }
        let next = self.take(now, jobs, plan)?;
        if let Next::Run(id) = next {
            self.start(now, id, &jobs[id]);
        }
        Some(next)
    }

    /// Takes the next event out of the queue.
    #[inline(always)]
    fn take(&mut self, now: u64, jobs: &Jobs, plan: &StagePlan) -> Option<Next> {
        let (at, backlog) = (Timestamp::from_nanos(now), self.inside.backlog());
        let law = self.ruling.admission_mut();
        let id = self.lines.take(now, jobs, plan, law, &backlog)?;
        let job = &jobs[id];
        let of_use =
            job.deadline > now && law.on_dequeue(at, &waiting(job), &backlog) == Dequeue::Run;
        self.inside.unqueue(now, job.class);
        if of_use {
            Some(Next::Run(id))
        } else {
            self.drop_event(now, job, Change::Dropped);
            Some(Next::Drop(id))
        }
    }

    #[inline]
    fn start(&mut self, now: u64, id: u32, job: &Job) {
        self.inside.start(now, job.class);
        self.note_begun(now, id, job);
    }

    #[inline]
    fn note_begun(&mut self, now: u64, id: u32, job: &Job) {
        self.classes[job.class.index()].wait.record(now - job.entered);
        if self.parks {
            self.begun.push((id, job.visit));
        }
    }

    /// An event that did not run is out of the queue.
    #[cold]
    pub(super) fn drop_event(&mut self, now: u64, job: &Job, change: Change) {
        self.classes[job.class.index()].counts.dropped += 1;
        self.tell_move(now, job, change, job.entered);
    }

    /// The client of an event in the queue has left.
    pub(super) fn abandon(&mut self, now: u64, id: u32, job: &Job, plan: &StagePlan) {
        self.lines.remove(id, job, plan);
        self.inside.unqueue(now, job.class);
        self.drop_event(now, job, Change::Abandoned);
    }

    /// Tells the law that an event is no longer where it has been since `since`.
    #[cold]
    fn tell_move(&mut self, now: u64, job: &Job, change: Change, since: u64) {
        let moved = Moved {
            class: job.class,
            flow: u64::from(job.told_flow),
            kind: u64::from(job.kind),
            change,
            time: Duration::from_nanos(now - since),
        };
        let (now, law) = (Timestamp::from_nanos(now), self.ruling.admission_mut());
        law.on_move(now, &moved, &self.inside.backlog());
        self.follow_law();
    }

    /// The first data of a stream is out.
    pub(super) fn first_data(&mut self, now: u64, job: &Job) {
        self.tell_move(now, job, Change::FirstData, job.started);
    }

    /// A stream has had more data.
    pub(super) fn progressed(&mut self, now: u64, job: &Job) {
        self.tell_move(now, job, Change::Progressed, job.first_data);
    }

    /// Takes their places from those that have run for longer than the law can learn from.
    pub(super) fn park(&mut self, now: u64, jobs: &mut Jobs, parked: &mut Vec<u32>) {
        self.parks = self.names_limit();
        let mut begun = std::mem::take(&mut self.begun);
        begun.retain(|&(id, visit)| {
            let job = &mut jobs[id];
            if job.visit != visit || job.phase != Phase::Running {
                return false;
            }
            let stays = self.inside.parked.now >= PARKED_MAX
                || self
                    .ruling
                    .admission()
                    .park_after(job.class, u64::from(job.kind))
                    .is_none_or(|after| u128::from(now - job.started) <= after.as_nanos());
            if !stays {
                job.phase = Phase::Parked;
                self.inside.park(now, job.class);
                self.tell_move(now, job, Change::Parked, job.started);
                parked.push(id);
            }
            stays
        });
        self.begun = begun;
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
    pub(super) fn begin_held(&mut self, now: u64, id: u32, job: &Job) -> bool {
        let of_use = job.deadline > now;
        if of_use {
            self.inside.begin_held(now);
            self.note_begun(now, id, job);
        } else {
            self.inside.drop_held(job.class);
            self.drop_event(now, job, Change::Dropped);
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
        let finds = self.busy < self.knobs.workers.get();
        if finds {
            self.busy += 1;
        } else {
            self.wait_behind(id);
        }
        finds
    }

    /// A worker goes on to the next event of its batch.
    pub(super) fn keep_worker(&mut self) {
        self.busy += 1;
    }

    pub(super) fn wait_behind(&mut self, id: u32) {
        self.behind.push_back(id);
    }

    /// Who has waited for a worker, if one is free.
    #[inline]
    pub(super) fn take_behind(&mut self) -> Option<u32> {
        if self.behind.is_empty() || self.busy >= self.knobs.workers.get() {
            return None;
        }
        self.busy += 1;
        self.behind.pop_front()
    }

    /// An event is ended early: whether it was waiting for a worker, and does so no more.
    pub(super) fn leave_behind(&mut self, id: u32) -> bool {
        let before = self.behind.len();
        self.behind.retain(|&other| other != id);
        self.behind.len() < before
    }

    /// An event has been served, or was ended early.
    #[inline]
    pub(super) fn finish(&mut self, now: u64, job: &Job, outcome: Outcome) {
        let class = job.class;
        self.busy -= u32::from(job.has_worker);
        let is_parked = job.phase == Phase::Parked;
        if is_parked {
            self.inside.finish_parked(now, class);
        } else {
            self.inside.finish(now, class);
        }
        let response = job.first_data.min(now) - job.entered;
        let tally = &mut self.classes[class.index()];
        tally.counts.end(outcome);
        let ending = match outcome {
            Outcome::Completed => {
                tally.response.record(response);
                if job.first_data < now { Ending::Untimed } else { Ending::Completed }
            }
            Outcome::Failed => Ending::Failed,
            _ => Ending::Terminated,
        };
        if is_parked {
            self.tell_move(now, job, Change::ParkedEnded, job.started);
            return;
        }
        let before = match self.measured_from {
            MeasuredFrom::Stage => 0,
            MeasuredFrom::Service => job.entered - job.arrived,
        };
        let finished = Finished {
            kind: u64::from(job.kind),
            class,
            service: Duration::from_nanos(now - job.started),
            response: Duration::from_nanos(before + response),
            ending,
            together: Together::ALONE,
        };
        let now = Timestamp::from_nanos(now);
        self.ruling.on_finish(now, &finished, &self.inside.backlog());
        self.follow_law();
    }

    /// A global law has rejected an event that was to enter here.
    pub(super) fn reject_by_global_law(&mut self, class: ClassId, reason: Reason) {
        self.classes[class.index()].counts.offered += 1;
        self.count_rejection(class, reason, self.inside.has_place());
    }

    fn count_rejection(&mut self, class: ClassId, reason: Reason, has_place: bool) {
        let tally = &mut self.classes[class.index()];
        tally.counts.rejected += 1;
        tally.rejected_idle += u64::from(has_place);
        match self.reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((reason, 1)),
        }
    }

    /// Everyone who was offered is accounted for, and nobody waits for nothing.
    pub(super) fn balances(&self, plan: &StagePlan) -> bool {
        let by_class = self.classes.iter().enumerate().all(|(class, tally)| {
            tally.counts.offered == tally.counts.ended() + self.inside.of(class)
        });
        // Where the law says who may start, others wait beside free places.
        let may_wait = plan.service_order == ServiceOrder::EarliestDue;
        by_class
            && self.lines.len() == self.inside.queued.now as usize
            && self.inside.balances()
            && (may_wait || !self.inside.waits_beside_free_place())
            && (self.behind.is_empty() || self.busy >= self.knobs.workers.get())
    }
}

/// How many times as long as at full quality work takes.
pub(super) fn times(plan: &StagePlan, quality: Ratio) -> f64 {
    1.0 - plan.degradable * (1.0 - quality.get())
}

/// Who comes out of a queue.
pub(super) enum Next {
    Run(u32),
    Drop(u32),
}
