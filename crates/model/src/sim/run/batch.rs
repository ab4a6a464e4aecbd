//! Batches: the events that a worker takes at once, served one after the other.

use super::Run;
use super::job::{NOBODY, Phase};
use super::stage::Next;
use super::watch::Watch;

impl<W: Watch> Run<'_, W> {
    /// A worker that has taken `first` takes more along.
    #[inline]
    pub(super) fn fill_batch(&mut self, first: u32) {
        let more = self.stages[self.jobs[first].stage as usize].batch_beside_first();
        if more > 0 {
            self.take_along(first, more);
        }
    }

    #[cold]
    fn take_along(&mut self, first: u32, more: u32) {
        let stage = self.jobs[first].stage as usize;
        let plan = &self.plan.stages[stage];
        let (mut last, mut taken) = (first, 1);
        for _ in 0..more {
            match self.stages[stage].take_along(self.now, &self.jobs, plan) {
                Some(Next::Run(id)) => {
                    let job = &mut self.jobs[id];
                    job.phase = Phase::Held;
                    if taken % plan.batch_cost_covers > 0 {
                        job.step = plan.first_step[job.request_type as usize];
                    }
                    taken += 1;
                    self.jobs[last].follower = id;
                    last = id;
                }
                Some(Next::Drop(id)) => self.drop_queued(id),
                None => return,
            }
        }
    }

    /// The next of an event's batch that is worth beginning begins, with the worker that the
    /// event had or waited for; `None` if there is none.
    #[cold]
    pub(super) fn begin_follower(&mut self, ended: u32) -> Option<u32> {
        let mut next = self.take_follower(ended);
        while next != NOBODY {
            let id = next;
            let job = &mut self.jobs[id];
            let stage = job.stage as usize;
            if self.stages[stage].begin_held(self.now, id, job) {
                self.note_start(id);
                return Some(id);
            }
            next = self.take_follower(id);
            self.drop_queued(id);
        }
        None
    }

    fn take_follower(&mut self, id: u32) -> u32 {
        std::mem::replace(&mut self.jobs[id].follower, NOBODY)
    }
}
