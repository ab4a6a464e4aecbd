//! The queue of a stage: one line for each priority or type, and the choice of the next event.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use tamarisk_control::{AdmissionLaw, Backlog, Order};

use super::job::{Job, Jobs, waiting};
use crate::sim::plan::resolved::stage::{ServiceOrder, StagePlan};

/// The lines in which events wait, of more important classes before others.
pub(super) struct QueueLines(Box<[VecDeque<u32>]>);

impl QueueLines {
    pub(super) fn new(plan: &StagePlan) -> Self {
        Self(vec![VecDeque::new(); plan.level_of_line.len()].into())
    }

    #[inline]
    pub(super) fn push(&mut self, id: u32, job: &Job, plan: &StagePlan) {
        self.0[plan.line_of_type[job.request_type as usize]].push_back(id);
    }

    /// Takes out the next event: `None` if there is none that may start.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        now: u64,
        jobs: &Jobs,
        plan: &StagePlan,
        law: &dyn AdmissionLaw,
        backlog: &Backlog<'_>,
    ) -> Option<u32> {
        if plan.service_order == ServiceOrder::EarliestDue {
            return self.take_due(now, jobs, plan, law, backlog);
        }
        let order = match plan.service_order {
            ServiceOrder::ByLaw => self.order(now, jobs, law),
            _ => Order::OldestFirst,
        };
        let line = self.0.iter_mut().find(|line| !line.is_empty())?;
        match order {
            Order::OldestFirst => line.pop_front(),
            Order::NewestFirst => line.pop_back(),
        }
    }

    fn order(&self, now: u64, jobs: &Jobs, law: &dyn AdmissionLaw) -> Order {
        let heads = self.0.iter().filter_map(VecDeque::front);
        let oldest = heads.map(|&id| jobs[id].entered).min().unwrap_or(now);
        law.order(Duration::from_nanos(now - oldest))
    }

    /// In the most important priority in which any may start, the one that is due first, or
    /// the newest.
    fn take_due(
        &mut self,
        now: u64,
        jobs: &Jobs,
        plan: &StagePlan,
        law: &dyn AdmissionLaw,
        backlog: &Backlog<'_>,
    ) -> Option<u32> {
        let order = self.order(now, jobs, law);
        let may_start = |&line: &usize| {
            self.0[line].front().is_some_and(|&head| {
                let job = &jobs[head];
                law.may_start(job.class, u64::from(job.kind), backlog)
            })
        };
        let first = (0..self.0.len()).find(may_start)?;
        let level = plan.level_of_line[first];
        let same = (first..self.0.len()).take_while(|&line| plan.level_of_line[line] == level);
        let eligible = same.filter(|line| *line == first || may_start(line));
        match order {
            Order::OldestFirst => {
                let due = |&line: &usize| {
                    let head = self.0[line].front().map(|&head| &jobs[head]);
                    head.map(|head| (law.due(&waiting(head)), head.entered))
                };
                let line = eligible.min_by_key(due)?;
                self.0[line].pop_front()
            }
            Order::NewestFirst => {
                let newest = |&line: &usize| {
                    let tail = self.0[line].back().map(|&tail| jobs[tail].visit);
                    Reverse(tail)
                };
                let line = eligible.min_by_key(newest)?;
                self.0[line].pop_back()
            }
        }
    }

    /// Keeps those of which `stays` is true.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(u32) -> bool) {
        for line in &mut self.0 {
            line.retain(|&id| stays(id));
        }
    }

    /// Takes out `id`, wherever it stands in its line.
    pub(super) fn remove(&mut self, id: u32, job: &Job, plan: &StagePlan) {
        self.0[plan.line_of_type[job.request_type as usize]].retain(|&other| other != id);
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(VecDeque::len).sum()
    }
}
