//! The upstream of a stage: work without a worker, lost replies, streams and pauses.

use super::calendar::Event;
use super::job::Phase;
use super::watch::{Outcome, Watch, What};
use super::{Run, round};
use crate::sim::plan::random::Stream;

/// Where the draws begin that decide which requests are lost: retries draw below it.
const LOSSES: u64 = 1 << 32;

impl<W: Watch> Run<'_, W> {
    /// Begins an event that needs no worker, and says whether it is one.
    #[cold]
    pub(super) fn starts_without_worker(&mut self, id: u32) -> bool {
        let job = &mut self.jobs[id];
        let Some(upstream) = &self.plan.stages[job.stage as usize].upstream else { return false };
        let request_type = &upstream.request_types[job.request_type as usize];
        let draw = LOSSES | u64::from(job.stage) << 33 | u64::from(job.attempts);
        let is_lost = upstream.outages.contain(self.now)
            || request_type.lost > 0.0
                && Stream::derived(job.seed, draw).uniform() < request_type.lost;
        if is_lost {
            job.is_lost = true;
            job.due = self.now.saturating_add(upstream.answer_time);
            let due = job.due;
            self.at(due, Event::AnswerTime(id));
            return true;
        }
        if request_type.needs_worker {
            return false;
        }
        self.begin_service(id);
        true
    }

    /// A reply has not come in time.
    pub(super) fn answer_time_over(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if job.due != self.now || !job.is_lost {
            // It was ended early.
            return;
        }
        job.due = u64::MAX;
        self.end_at_stage(id, Outcome::Failed);
        self.leave(id, Outcome::Failed, None);
    }

    /// The service of an event begins: if it is a stream its first data is drawn.
    #[cold]
    pub(super) fn expect_first_data(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        let stage = &self.plan.stages[job.stage as usize];
        let request_type = stage
            .upstream
            .as_ref()
            .map(|upstream| &upstream.request_types[job.request_type as usize]);
        if let Some(first_data) =
            request_type.and_then(|request_type| request_type.first_data.as_ref())
        {
            let time = round(stage.stretched(self.now, first_data.sample(&mut job.draws)));
            let at = stage.pauses.after(self.now, time);
            job.first_data = at;
            self.at(at, Event::FirstData(id));
        }
    }

    /// The first data of a stream may be out.
    pub(super) fn first_data_due(&mut self, id: u32) {
        let job = &self.jobs[id];
        if job.first_data == self.now && matches!(job.phase, Phase::Running | Phase::Parked) {
            self.stages[job.stage as usize].first_data(self.now, job);
            self.see(id, What::FirstData);
            let stage = self.jobs[id].stage;
            self.begin_behind(stage);
            self.dispatch(stage);
        }
    }

    /// The client of a request may leave.
    pub(super) fn client_leaves(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if job.leaves != self.now {
            // Its answer has come.
            return;
        }
        job.leaves = u64::MAX;
        job.is_left = true;
        match job.phase {
            Phase::Queued => {
                let stage = job.stage;
                let plan = &self.plan.stages[stage as usize];
                self.stages[stage as usize].abandon(self.now, id, &self.jobs[id], plan);
                self.drop_queued(id);
                self.dispatch(stage);
            }
            // Its worker will not begin it.
            Phase::Held => job.deadline = self.now,
            // The stage goes on to its end.
            Phase::Running | Phase::Parked | Phase::Away => {}
        }
    }
}
