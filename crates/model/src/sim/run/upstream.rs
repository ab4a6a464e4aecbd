//! What stands behind a stage, where that is more than its workers: work without a worker,
//! replies that never come, streams, and times in which nothing moves.

use super::job::Phase;
use super::watch::{Outcome, Watch, What};
use super::{Event, Run, round};
use crate::sim::plan::distribution::Sampler;
use crate::sim::plan::random::Stream;

/// Spans of time, in order, none of which touch.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Spans(Box<[(u64, u64)]>);

impl Spans {
    /// `None` if they are empty, or out of order.
    pub(in crate::sim) fn new(spans: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let spans: Box<[_]> = spans.into_iter().collect();
        let ordered = spans.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (ordered && spans.iter().all(|span| span.0 < span.1)).then_some(Self(spans))
    }

    pub(in crate::sim) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::sim) fn contain(&self, at: u64) -> bool {
        self.0.iter().any(|&(from, until)| from <= at && at < until)
    }

    /// When, from `at` on, so much time has passed that is in none of them.
    #[inline]
    pub(in crate::sim) fn after(&self, at: u64, time: u64) -> u64 {
        let mut end = at.saturating_add(time);
        for &(from, until) in &self.0 {
            if until > at && from <= end {
                end = end.saturating_add(until - from.max(at));
            }
        }
        end
    }

    /// How much of the time from `from` until `until` is in none of them.
    #[inline]
    pub(in crate::sim) fn outside(&self, from: u64, until: u64) -> u64 {
        let within = self.0.iter().map(|span| span.1.min(until).saturating_sub(span.0.max(from)));
        until - from - within.sum::<u64>()
    }
}

/// What a stage has behind it besides workers.
#[derive(Clone, Debug)]
pub(in crate::sim) struct UpstreamPlan {
    /// For each sort of events.
    pub(in crate::sim) sorts: Box<[SortPlan]>,
    /// What is sent in these is lost.
    pub(in crate::sim) outages: Spans,
    /// After so long a reply that never comes is given up, in nanoseconds.
    pub(in crate::sim) answer_time: u64,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct SortPlan {
    pub(in crate::sim) needs_worker: bool,
    /// From having a worker to the first data of a stream; `None` of what is no stream.
    pub(in crate::sim) first_data: Option<Sampler>,
    /// The share of which no reply comes.
    pub(in crate::sim) lost: f64,
}

/// Where the draws begin that decide which requests are lost: retries draw below it.
const LOSSES: u64 = 1 << 32;

impl<W: Watch> Run<'_, W> {
    /// Begins an event that needs no worker, and says whether it is one.
    #[cold]
    pub(in crate::sim) fn starts_without_worker(&mut self, id: u32) -> bool {
        let job = &mut self.jobs[id];
        let Some(upstream) = &self.plan.stages[job.stage as usize].upstream else { return false };
        let sort = &upstream.sorts[job.sort as usize];
        let draw = LOSSES | u64::from(job.stage) << 33 | u64::from(job.attempts);
        let is_lost = upstream.outages.contain(self.now)
            || sort.lost > 0.0 && Stream::derived(job.seed, draw).uniform() < sort.lost;
        if is_lost {
            job.is_lost = true;
            job.due = self.now.saturating_add(upstream.answer_time);
            let due = job.due;
            self.at(due, Event::AnswerTime(id));
            return true;
        }
        if sort.needs_worker {
            return false;
        }
        self.begin_service(id);
        true
    }

    /// A reply has not come in time.
    pub(in crate::sim) fn answer_time_over(&mut self, id: u32) {
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
    pub(in crate::sim) fn expect_first_data(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        let stage = &self.plan.stages[job.stage as usize];
        let sort = stage.upstream.as_ref().map(|upstream| &upstream.sorts[job.sort as usize]);
        if let Some(first_data) = sort.and_then(|sort| sort.first_data.as_ref()) {
            let time = round(first_data.sample(&mut job.draws));
            let at = stage.pauses.after(self.now, time);
            job.first_data = at;
            self.at(at, Event::FirstData(id));
        }
    }

    /// The first data of a stream may be out.
    pub(in crate::sim) fn first_data_due(&mut self, id: u32) {
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
    pub(in crate::sim) fn client_leaves(&mut self, id: u32) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stands_still_in_a_pause_and_goes_on_after() {
        let pauses = Spans::new([(10, 20), (30, 35)]).unwrap();
        for (at, time, end) in
            [(0, 9, 9), (0, 11, 21), (5, 5, 20), (12, 3, 23), (0, 25, 40), (20, 5, 25), (40, 7, 47)]
        {
            assert_eq!(pauses.after(at, time), end, "{time} from {at}");
            assert_eq!(pauses.outside(at, end), time, "from {at} to {end}");
        }
    }

    #[test]
    fn spans_that_touch_or_end_before_they_begin_are_refused() {
        assert!(Spans::new([(10, 20), (20, 30)]).is_none());
        assert!(Spans::new([(10, 10)]).is_none());
        assert!(Spans::new([(10, 20), (5, 6)]).is_none());
        assert!(Spans::new([]).is_some_and(|spans| spans.is_empty()));
    }
}
