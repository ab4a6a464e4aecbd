//! The event loop of a simulation: takes the next event from the calendar and executes it.

mod batch;
mod calendar;
mod clients;
pub(in crate::sim) mod global;
mod governor;
mod job;
pub(in crate::sim) mod ledger;
mod occupancy;
mod pages;
mod queue;
mod resource;
pub(in crate::sim) mod ruling;
mod service;
pub(in crate::sim) mod simulation;
pub(in crate::sim) mod stage;
pub(in crate::sim) mod tally;
mod termination;
mod upstream;
mod visit;
pub(in crate::sim) mod watch;

use std::ops::Range;

use tamarisk_control::Timestamp;

use self::calendar::{Calendar, Event};
use self::clients::ClientRun;
use self::global::GlobalRun;
use self::governor::Displaced;
use self::job::{Job, Jobs};
use self::ledger::Ledger;
use self::pages::Pages;
use self::resource::ResourceRun;
use self::stage::StageRun;
use self::watch::{Seen, Watch, What};
use super::plan::resolved::Plan;

/// One run of a simulation.
pub struct Run<'a, W> {
    pub(in crate::sim) plan: &'a Plan,
    pub(in crate::sim) seed: u64,
    /// Nanoseconds since the beginning, as all times here.
    now: u64,
    calendar: Calendar,
    jobs: Jobs,
    pages: Pages,
    /// Attempts so far.
    offered: u64,
    pub(in crate::sim) stages: Box<[StageRun]>,
    resources: Box<[ResourceRun]>,
    clients: Box<[ClientRun]>,
    pub(in crate::sim) ledger: Ledger,
    pub(in crate::sim) global: Option<GlobalRun>,
    /// Stays of requests at stages so far.
    visits: u64,
    displaced: Displaced,
    watch: W,
    /// From when until when it is measured.
    pub(in crate::sim) window: Range<u64>,
}

const SECOND: u64 = 1_000_000_000;

impl<W: Watch> Run<'_, W> {
    /// What is there from the beginning comes.
    pub(in crate::sim) fn begin(&mut self) {
        for stage in 0..self.stages.len() {
            if self.stages[stage].ruling.has_slow_laws() {
                self.tell_knobs(stage);
            }
        }
        self.at(0, Event::Tick);
        for client in 0..self.clients.len() {
            self.begin_client(client as u32);
        }
    }

    /// Runs on to the beginning of `window`, and measures until its end.
    pub(in crate::sim) fn measure(&mut self, window: Range<u64>) {
        let Range { start, end } = window;
        self.window = window;
        self.run_until(start);
        self.ledger.begin(start, &mut self.stages);
        self.mark();
        self.measured_at(start.saturating_add(SECOND), Event::Second);
        self.run_until(end);
        if (end - start).is_multiple_of(SECOND) {
            self.ledger.second();
        }
        self.ledger.mark(&mut self.stages);
    }

    /// Everything happens that happens before `until`.
    fn run_until(&mut self, until: u64) {
        while let Some((at, event)) = self.calendar.pop_before(until) {
            self.now = at;
            self.happen(Event::unpack(event));
            debug_assert!(self.balances(), "the accounts do not balance at {at} ns");
        }
        self.now = until;
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        match event {
            Event::StepDone(id) => self.step_done(id),
            Event::Arrival(client) => self.arrive(client),
            Event::Resource(resource) => self.resource_due(resource),
            Event::Wake(id) => self.wake(id),
            Event::Users(client) => self.change_users(client),
            Event::Limit(id) => self.limit_reached(id),
            Event::CleanedUp(id) => self.end_early(id),
            Event::AnswerTime(id) => self.answer_time_over(id),
            Event::FirstData(id) => self.first_data_due(id),
            Event::Leave(id) => self.client_leaves(id),
            Event::Resend(id) => self.answer_is_late(id),
            Event::Tick => self.tick(),
            Event::Second => {
                self.ledger.second();
                self.measured_at(self.now + SECOND, Event::Second);
            }
            Event::Mark => self.mark(),
        }
    }

    /// Enters into the calendar what happens before the end.
    #[inline]
    fn at(&mut self, nanos: u64, event: Event) {
        if nanos < self.plan.end {
            self.calendar.push(nanos, event.pack());
        }
    }

    /// Enters into the calendar what happens before the present window ends.
    fn measured_at(&mut self, nanos: u64, event: Event) {
        if nanos < self.window.end {
            self.at(nanos, event);
        }
    }

    #[inline]
    fn see(&mut self, id: u32, what: What) {
        let job = &self.jobs[id];
        self.watch.see(&Seen {
            at: Timestamp::from_nanos(self.now),
            number: job.number,
            stage: job.stage,
            class: job.class,
            kind: u64::from(job.kind),
            flow: job.flow,
            what,
        });
    }

    fn tick(&mut self) {
        self.at(self.now + self.plan.tick, Event::Tick);
        for stage in 0..self.stages.len() {
            let mut displaced = std::mem::take(&mut self.displaced);
            let plan = &self.plan.stages[stage];
            if self.stages[stage].tick(self.now, &mut self.jobs, plan, &mut displaced) {
                self.tell_knobs(stage);
            }
            for id in displaced.parked.drain(..) {
                self.see(id, What::Parked);
            }
            self.begin_behind(stage as u32);
            self.dispatch(stage as u32);
            for id in displaced.overdue.drain(..) {
                self.drop_queued(id);
            }
            self.displaced = displaced;
        }
        if let Some(global) = &mut self.global {
            global.tick(self.now, &mut self.stages);
        }
    }

    fn tell_knobs(&mut self, stage: usize) {
        let now = Timestamp::from_nanos(self.now);
        self.watch.set(now, stage as u32, &self.stages[stage].knobs);
    }

    /// A part of the window begins.
    fn mark(&mut self) {
        self.ledger.mark(&mut self.stages);
        let Range { start, end } = self.window;
        let next = u128::from(end - start) * u128::from(self.ledger.batches_begun);
        self.measured_at(start + (next / u128::from(self.plan.batches)) as u64, Event::Mark);
    }

    /// Every request is in exactly one place.
    fn balances(&self) -> bool {
        self.stages.iter().zip(&self.plan.stages).all(|(stage, plan)| stage.balances(plan))
            && self.ledger.classes.iter().enumerate().all(|(class, tally)| {
                let inside: u64 = self.stages.iter().map(|stage| stage.inside.of(class)).sum();
                tally.counts.offered == tally.counts.ended() + inside
            })
    }

    /// A slot for a new client or request; `None` if there are too many.
    #[inline]
    fn insert(&mut self, job: Job) -> Option<u32> {
        self.jobs.insert(job)
    }
}

/// Of nanoseconds that are not negative; what is too long saturates.
#[inline]
fn round(nanos: f64) -> u64 {
    (nanos + 0.5) as u64
}
