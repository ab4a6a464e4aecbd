//! The way of a request: into the network, through its stages, and out.

use std::time::Duration;

use tamarisk_control::Rejection;

use super::calendar::Event;
use super::job::{NOBODY, Phase};
use super::stage::{Entered, Next};
use super::watch::{Outcome, Watch, What};
use super::{Run, round};
use crate::sim::plan::random::Stream;
use crate::sim::plan::resolved::EXIT;

/// Where the draws begin that decide when clients leave: retries draw below it.
const DEPARTURES: u64 = 1 << 40;

impl<W: Watch> Run<'_, W> {
    /// A request, or one more attempt at it, comes to the network.
    #[inline]
    pub(super) fn offer(&mut self, id: u32) {
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
        job.told_flow = if plan.tells_flows { job.flow + 1 } else { 0 };
        if let Some(leaves) = &client.leaves {
            let mut random = Stream::derived(job.seed, DEPARTURES | u64::from(job.attempts));
            let after = round(leaves.sample(&mut random));
            job.leaves = self.now.saturating_add(after);
            let at = job.leaves;
            self.at(at, Event::Leave(id));
        }
        if let Some(after) = client.resend {
            let at = self.now.saturating_add(after);
            self.jobs[id].resend = at;
            self.at(at, Event::Resend(id));
        }
        let job = &self.jobs[id];
        self.ledger.offer(job.class, job.flow);
        let class = job.class;
        self.see(id, What::Offered);
        match self.global.as_mut().map_or(Ok(()), |global| global.ask(self.now)) {
            Ok(()) => self.enter(id, client.entry),
            Err(rejection) => {
                self.stages[client.entry as usize].reject_by_global_law(class, rejection.reason);
                self.reject(id, rejection);
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
        job.step = plan.first_step[job.request_type as usize] - plan.steps_of_batch;
        let workers = self.stages[stage as usize].knobs.workers;
        let entered = self.stages[stage as usize].enter(self.now, id, job, plan);
        if let Some(global) = &mut self.global
            && job.at_entry
            && !matches!(entered, Entered::Rejected(_))
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
            Entered::Rejected(rejection) => self.reject(id, rejection),
        }
        if self.stages[stage as usize].knobs.workers != workers {
            self.tell_knobs(stage as usize);
            self.begin_behind(stage);
            self.dispatch(stage);
        }
    }

    fn reject(&mut self, id: u32, rejection: Rejection) {
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
    pub(super) fn note_start(&mut self, id: u32) {
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
    pub(super) fn begin_service(&mut self, id: u32) {
        if self.plan.stages[self.jobs[id].stage as usize].upstream.is_some() {
            self.expect_first_data(id);
        }
        self.begin_step(id);
    }

    #[inline]
    pub(super) fn finish_stage(&mut self, id: u32) {
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
    pub(super) fn end_early(&mut self, id: u32) {
        self.end_at_stage(id, Outcome::Terminated);
        self.leave(id, Outcome::Terminated, None);
    }

    /// An event that ran has ended at its stage.
    #[inline(always)]
    pub(super) fn end_at_stage(&mut self, id: u32, outcome: Outcome) {
        let job = &mut self.jobs[id];
        let stage = job.stage;
        job.at_entry = false;
        job.limit = u64::MAX;
        self.stages[stage as usize].finish(self.now, job, outcome);
        if let Some(global) = &mut self.global {
            global.ended(stage);
        }
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
    pub(super) fn begin_behind(&mut self, stage: u32) {
        while let Some(next) = self.stages[stage as usize].take_behind() {
            self.begin_with_worker(next);
        }
    }

    /// Lets as many run as there are places.
    #[inline]
    pub(super) fn dispatch(&mut self, stage: u32) {
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

    pub(super) fn drop_queued(&mut self, id: u32) {
        self.jobs[id].phase = Phase::Away;
        self.see(id, What::Ended(Outcome::Dropped));
        self.leave(id, Outcome::Dropped, None);
    }

    /// A request has ended altogether, and its client does what it does then.
    #[inline]
    pub(super) fn leave(&mut self, id: u32, outcome: Outcome, rejection: Option<Rejection>) {
        self.see(id, What::Left(outcome));
        let job = &mut self.jobs[id];
        (job.leaves, job.resend) = (u64::MAX, u64::MAX);
        let response = job.first_data.min(self.now) - job.arrived;
        self.ledger.leave(job.class, job.flow, outcome, response);
        let retry_after = rejection.and_then(|rejection| rejection.retry_after);
        self.client_told(id, outcome, retry_after.unwrap_or(Duration::ZERO));
    }
}
