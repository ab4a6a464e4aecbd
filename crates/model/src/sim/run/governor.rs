//! The governor of a stage: ticks its laws and applies their settings.

use tamarisk_control::{Activity, Change, ClassId, Dequeue, Ratio, Timestamp};

use super::job::{Jobs, waiting};
use super::stage::{StageRun, times};
use super::tally::Counts;
use crate::sim::plan::resolved::stage::StagePlan;
use crate::sim::plan::time::nanos;

/// Those whose place a tick has changed. Kept for its memory.
#[derive(Default)]
pub(super) struct Displaced {
    /// Out of the queue.
    pub(super) overdue: Vec<u32>,
    pub(super) parked: Vec<u32>,
}

impl StageRun {
    /// The governor's tick: the one place where laws are given the time, and where
    /// those that turn the slower knobs belong. What has become overdue in the queue
    /// and what is parked is put into `displaced`. Whether a knob has changed.
    pub(super) fn tick(
        &mut self,
        now: u64,
        jobs: &mut Jobs,
        plan: &StagePlan,
        displaced: &mut Displaced,
    ) -> bool {
        self.tell_cpu(now);
        let at = Timestamp::from_nanos(now);
        self.ruling.admission_mut().on_tick(at, &self.inside.backlog());
        let changed = self.govern(now, plan);
        self.follow_law();
        self.take_overdue(now, jobs, &mut displaced.overdue);
        self.park(now, jobs, &mut displaced.parked);
        changed
    }

    /// A tick of the slow laws.
    fn govern(&mut self, now: u64, plan: &StagePlan) -> bool {
        let workers_idle = self.inside.take_idle(self.knobs.workers.get());
        let sum = |of: fn(&Counts) -> u64| self.classes.iter().map(|tally| of(&tally.counts)).sum();
        let activity = Activity {
            backlog: self.inside.backlog(),
            offered: sum(|counts| counts.offered),
            lost: sum(|counts| counts.rejected + counts.dropped + counts.terminated),
            completed: sum(|counts| counts.completed),
            workers_idle,
        };
        let Some(knobs) = self.ruling.govern(Timestamp::from_nanos(now), &activity) else {
            return false;
        };
        for (index, limit) in self.limits.iter_mut().enumerate() {
            *limit = self.ruling.limit(ClassId::new(index)).map_or(u64::MAX, nanos);
        }
        let changed = std::mem::replace(&mut self.knobs, knobs) != knobs;
        if changed {
            self.inside.workers = knobs.workers;
            self.times = times(plan, knobs.quality);
            self.courses.workers.set(now, f64::from(knobs.workers.get()));
            self.courses.batch.set(now, f64::from(knobs.batch.get()));
            self.courses.quality.set(now, knobs.quality.get());
        }
        changed
    }

    /// How busy the processors are, each worker being taken for a core of its own.
    fn tell_cpu(&mut self, now: u64) {
        let area = self.inside.running.area(now);
        let (told_at, told_area) = std::mem::replace(&mut self.cpu_told, (now, area));
        let passed = (now - told_at).max(1) as f64;
        let cores = f64::from(self.knobs.workers.get());
        let busy = (area - told_area) as f64 / (passed * cores);
        let law = self.ruling.admission_mut();
        law.on_cpu(Timestamp::from_nanos(now), Ratio::saturating(busy));
    }

    /// Takes out what is of no use any more, wherever it stands: what waits behind a
    /// higher priority may never become next.
    fn take_overdue(&mut self, now: u64, jobs: &Jobs, overdue: &mut Vec<u32>) {
        let first = overdue.len();
        let (at, backlog) = (Timestamp::from_nanos(now), self.inside.backlog());
        let law = self.ruling.admission_mut();
        self.lines.retain(|id| {
            let job = &jobs[id];
            let stays =
                job.deadline > now && law.on_sweep(at, &waiting(job), &backlog) == Dequeue::Run;
            if !stays {
                overdue.push(id);
            }
            stays
        });
        for &id in &overdue[first..] {
            let job = &jobs[id];
            self.inside.unqueue(now, job.class);
            self.drop_event(now, job, Change::Dropped);
        }
    }
}
