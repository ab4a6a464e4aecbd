//! The steps of a service: by the worker alone, on a shared resource, or with a connection of a pool.

use super::calendar::Event;
use super::job::{Job, Phase};
use super::resource::ResourceRun;
use super::watch::Watch;
use super::{Run, round};
use crate::sim::plan::resolved::stage::StepResource;

impl<W: Watch> Run<'_, W> {
    #[inline]
    pub(super) fn begin_step(&mut self, id: u32) {
        match self.plan.steps[self.jobs[id].step as usize].place {
            StepResource::Own => self.begin_alone(id),
            StepResource::Shared(index) => {
                let work = self.work(id);
                let ResourceRun::Shared(shared) = &mut self.resources[index as usize] else {
                    unreachable!("the plan says which resources are shared");
                };
                shared.begin(self.now, id, work);
                self.schedule(index);
            }
            StepResource::Pool(index) => {
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
    pub(super) fn begin_alone(&mut self, id: u32) {
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
        if times < 1.0 && job.step < stage.first_step[job.request_type as usize] {
            // What a batch costs does not fall with the quality.
            times = 1.0;
        }
        let step = &self.plan.steps[job.step as usize];
        let work = if job.recorded == u64::MAX || !self.at_first_step(id) {
            step.work.sample(&mut self.jobs[id].draws)
        } else {
            job.recorded as f64
        };
        stage.stretched(self.now, work * times)
    }

    fn at_first_step(&self, id: u32) -> bool {
        self.jobs[id].at_entry && self.at_first_step_of_stage(id)
    }

    fn at_first_step_of_stage(&self, id: u32) -> bool {
        let Job { stage, request_type, step, .. } = self.jobs[id];
        step == self.plan.stages[stage as usize].first_step[request_type as usize]
    }

    pub(super) fn schedule(&mut self, resource: u32) {
        if let ResourceRun::Shared(shared) = &mut self.resources[resource as usize]
            && let Some(at) = shared.schedule(self.now)
        {
            self.at(at, Event::Resource(resource));
        }
    }

    pub(super) fn resource_due(&mut self, resource: u32) {
        let ResourceRun::Shared(shared) = &mut self.resources[resource as usize] else { return };
        let done = shared.due(self.now);
        if let Some(id) = done {
            self.next_step(id);
        }
        self.schedule(resource);
    }

    #[inline]
    pub(super) fn step_done(&mut self, id: u32) {
        if self.jobs[id].due != self.now {
            // It was ended early.
            return;
        }
        self.jobs[id].due = u64::MAX;
        if let StepResource::Pool(index) = self.plan.steps[self.jobs[id].step as usize].place
            && let ResourceRun::Pool(pool) = &mut self.resources[index as usize]
            && let Some(next) = pool.end()
        {
            self.begin_alone(next);
        }
        self.next_step(id);
    }

    #[inline]
    fn next_step(&mut self, id: u32) {
        if self.plan.steps[self.jobs[id].step as usize].is_last {
            self.finish_stage(id);
        } else {
            let is_first = self.at_first_step_of_stage(id);
            let job = &mut self.jobs[id];
            job.step += 1;
            if is_first && job.first_data < self.now && job.phase == Phase::Running {
                self.stages[job.stage as usize].progressed(self.now, job);
            }
            self.begin_step(id);
        }
    }
}
