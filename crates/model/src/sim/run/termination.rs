//! Termination of running events.

use super::Run;
use super::calendar::Event;
use super::resource::ResourceRun;
use super::watch::Watch;
use crate::sim::plan::resolved::stage::StepResource;

impl<W: Watch> Run<'_, W> {
    /// Somebody's limit may have come.
    pub(super) fn limit_reached(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if job.limit != self.now {
            // It has ended, and its place may be another's.
            return;
        }
        job.limit = u64::MAX;
        let stage = job.stage as usize;
        if self.stages[stage].leave_behind(id) {
            if let Some(next) = self.begin_follower(id) {
                self.stages[stage].wait_behind(next);
            }
            self.end_early(id);
            return;
        }
        self.withdraw(id);
        match self.plan.stages[stage].clean_up {
            0 => self.end_early(id),
            clean_up => self.at(self.now.saturating_add(clean_up), Event::CleanedUp(id)),
        }
    }

    /// Takes a job away from where its step is done.
    fn withdraw(&mut self, id: u32) {
        let due = std::mem::replace(&mut self.jobs[id].due, u64::MAX);
        if self.jobs[id].is_lost {
            return;
        }
        match self.plan.steps[self.jobs[id].step as usize].place {
            StepResource::Own => {}
            StepResource::Shared(index) => {
                if let ResourceRun::Shared(shared) = &mut self.resources[index as usize] {
                    shared.withdraw(self.now, id);
                }
                self.schedule(index);
            }
            StepResource::Pool(index) => {
                let ResourceRun::Pool(pool) = &mut self.resources[index as usize] else { return };
                // Nothing of it is in the calendar while it waits for a connection.
                if due == u64::MAX {
                    pool.withdraw(id);
                } else if let Some(next) = pool.end() {
                    self.begin_alone(next);
                }
            }
        }
    }
}
