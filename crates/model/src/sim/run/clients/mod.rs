//! Clients of a run: when the next request comes, and what follows an answer.

pub(super) mod pages;

use std::time::Duration;

use tamarisk_control::ClassId;

use super::calendar::Event;
use super::job::{Job, NOBODY, Phase};
use super::watch::{Outcome, Watch};
use super::{Run, round};
use crate::sim::plan::client::{Heed, UNANSWERED_MAX};
use crate::sim::plan::random::Stream;
use crate::sim::plan::resolved::client::{ClientPlan, LoadPlan, RenewalProcess};
use crate::sim::plan::resolved::request_type::RequestType;
use crate::sim::plan::time::nanos;

/// A group of clients.
#[derive(Debug)]
pub(super) struct ClientRun {
    stream: Stream,
    /// The next arrival of a trace, or the next change of the number of users.
    next: usize,
    /// How many users there are to be now.
    users: u32,
    /// Which users there are.
    alive: Vec<bool>,
}

impl ClientRun {
    pub(super) const fn new(seed: u64, index: usize) -> Self {
        let stream = Stream::derived(seed, index as u64);
        Self { stream, next: 0, users: 0, alive: Vec::new() }
    }
}

/// New users come within this time, as after a link was posted.
const JOIN_NANOS: u32 = 1_000_000;

/// Nobody comes back sooner: so that a client without manners cannot stop the clock.
const PAUSE_MIN_NANOS: u64 = 1_000;

impl<W: Watch> Run<'_, W> {
    pub(super) fn begin_client(&mut self, client: u32) {
        let plan = self.plan;
        match &plan.clients[client as usize].load {
            LoadPlan::Open(renewal) | LoadPlan::Sessions { starts: renewal, .. } => {
                self.schedule_arrival(client, renewal);
            }
            LoadPlan::Closed { users, .. } => self.at(users[0].0, Event::Users(client)),
            LoadPlan::Trace(arrivals) => {
                if let Some(first) = arrivals.first() {
                    self.at(nanos(first.at), Event::Arrival(client));
                }
            }
        }
    }

    #[inline]
    fn schedule_arrival(&mut self, client: u32, renewal: &RenewalProcess) {
        let stream = &mut self.clients[client as usize].stream;
        let gap = renewal.gaps.sample(stream);
        let next = match renewal.steady {
            Some(times) => Some(self.now.saturating_add(round(gap * times))),
            None => renewal.rate.reach(self.now, gap * renewal.per_gap),
        };
        if let Some(at) = next {
            self.at(at, Event::Arrival(client));
        }
    }

    /// The next request or session of an open client comes.
    #[inline]
    pub(super) fn arrive(&mut self, client: u32) {
        let plan = &self.plan.clients[client as usize];
        let run = &mut self.clients[client as usize];
        let mut behaviour = Stream::from_state(run.stream.next());
        match &plan.load {
            LoadPlan::Open(renewal) | LoadPlan::Sessions { starts: renewal, .. } => {
                let flow = plan.draw_flow(&mut behaviour);
                let mut job = new_job(client, plan.flow_first + flow, behaviour);
                job.renew(plan);
                self.schedule_arrival(client, renewal);
                if plan.calls > 1 {
                    self.offer_page(job, plan);
                } else {
                    self.offer_new(job);
                }
            }
            LoadPlan::Trace(arrivals) => {
                let arrival = arrivals[run.next];
                run.next += 1;
                let next = arrivals.get(run.next).map(|next| nanos(next.at));
                let mut job = new_job(client, plan.flow_first + arrival.flow, behaviour);
                job.renew(plan);
                job.class = arrival.class;
                job.kind = arrival.kind;
                let classes = self.plan.classes.len();
                job.request_type = RequestType::place(arrival.class, arrival.kind, classes);
                job.recorded = arrival.service.map_or(u64::MAX, nanos);
                if let Some(at) = next {
                    self.at(at, Event::Arrival(client));
                }
                self.offer_new(job);
            }
            LoadPlan::Closed { .. } => {}
        }
    }

    #[inline]
    fn offer_new(&mut self, job: Job) {
        let (class, flow, page) = (job.class, job.flow, job.page);
        match self.insert(job) {
            Some(id) => self.offer(id),
            None => {
                self.ledger.reject(class, flow);
                self.end_call(page, false);
            }
        }
    }

    /// All calls of a page come, `job` the first of them.
    fn offer_page(&mut self, mut job: Job, plan: &ClientPlan) {
        job.page = self.pages.begin(job.class, self.now, plan.calls);
        for _ in 1..plan.calls {
            let mut next = job.clone();
            next.renew(plan);
            self.offer_new(std::mem::replace(&mut job, next));
        }
        self.offer_new(job);
    }

    /// A call has ended for good; perhaps with it the page that it was a part of.
    #[inline]
    fn end_call(&mut self, page: u32, is_answered: bool) {
        if page != NOBODY
            && let Some(page) = self.pages.end_call(page, is_answered)
        {
            self.ledger.end_page(page.class, page.is_whole, self.now - page.came);
        }
    }

    /// The number of users of a closed client changes.
    pub(super) fn change_users(&mut self, client: u32) {
        let plan = &self.plan.clients[client as usize];
        let LoadPlan::Closed { users, .. } = &plan.load else { return };
        let run = &mut self.clients[client as usize];
        let count = users[run.next].1;
        run.next += 1;
        run.users = count;
        let run_next = run.next;
        if let Some(&(at, _)) = users.get(run_next) {
            self.at(at, Event::Users(client));
        }
        for user in 0..count {
            let run = &mut self.clients[client as usize];
            let known = run.alive.len() as u32;
            if user >= known {
                run.alive.push(false);
            }
            if std::mem::replace(&mut run.alive[user as usize], true) {
                continue;
            }
            let mut behaviour = Stream::from_state(run.stream.next());
            let soon = u64::from(behaviour.below(JOIN_NANOS));
            let mut job = new_job(client, plan.flow_first + user, behaviour);
            job.renew(plan);
            if let Some(id) = self.insert(job) {
                self.at(self.now + soon, Event::Wake(id));
            }
        }
    }

    /// A client that waited comes, for the first time or again.
    pub(super) fn wake(&mut self, id: u32) {
        let job = &self.jobs[id];
        let plan = &self.plan.clients[job.client as usize];
        let run = &mut self.clients[job.client as usize];
        let user = job.flow - plan.flow_first;
        if matches!(plan.load, LoadPlan::Closed { .. }) && user >= run.users {
            run.alive[user as usize] = false;
            self.jobs.free(id);
            return;
        }
        self.offer(id);
    }

    /// An answer has come, if only a rejection.
    #[inline]
    pub(super) fn client_told(&mut self, id: u32, outcome: Outcome, retry_after: Duration) {
        let plan = &self.plan.clients[self.jobs[id].client as usize];
        if self.jobs[id].is_superseded {
            self.jobs.free(id);
            return;
        }
        self.jobs[id].unanswered = 0;
        if outcome != Outcome::Completed && plan.retry.attempts_max > 0 && !self.jobs[id].is_left {
            if self.jobs[id].attempts < plan.retry.attempts_max {
                self.retry(id, plan, retry_after);
                return;
            }
            self.ledger.give_up(self.jobs[id].class);
        }
        self.end_call(self.jobs[id].page, outcome == Outcome::Completed);
        match &plan.load {
            LoadPlan::Open(_) | LoadPlan::Trace(_) => self.jobs.free(id),
            LoadPlan::Sessions { stay, think, .. } => {
                let job = &mut self.jobs[id];
                if job.behaviour.uniform() < *stay {
                    let pause = round(think.sample(&mut job.behaviour));
                    job.renew(plan);
                    self.wake_after(id, pause);
                } else {
                    self.jobs.free(id);
                }
            }
            LoadPlan::Closed { think, .. } => {
                let job = &mut self.jobs[id];
                let pause = round(think.sample(&mut job.behaviour));
                job.renew(plan);
                self.wake_after(id, pause);
            }
        }
    }

    /// A partly open client has waited for its newest answer for as long as it does: it sends
    /// another request.
    #[cold]
    pub(super) fn answer_is_late(&mut self, id: u32) {
        let job = &self.jobs[id];
        if job.resend != self.now {
            // The answer has come.
            return;
        }
        let plan = &self.plan.clients[job.client as usize];
        let has_left = job.flow - plan.flow_first >= self.clients[job.client as usize].users;
        if has_left || job.unanswered + 1 >= UNANSWERED_MAX {
            return;
        }
        let mut next = new_job(job.client, job.flow, job.behaviour.clone());
        next.unanswered = job.unanswered + 1;
        next.renew(plan);
        // Without memory for another one it goes on waiting for this one.
        if let Some(next) = self.insert(next) {
            let job = &mut self.jobs[id];
            (job.is_superseded, job.resend) = (true, u64::MAX);
            self.offer(next);
        }
    }

    fn retry(&mut self, id: u32, plan: &ClientPlan, retry_after: Duration) {
        let job = &mut self.jobs[id];
        // Its own stream: how often a request is rejected must not change what its client
        // asks for next.
        let mut random = Stream::derived(job.seed, u64::from(job.attempts));
        let growth = plan.retry.growth.powi(job.attempts as i32);
        let pause = round(plan.retry.pause.sample(&mut random) * growth).min(plan.retry.pause_max);
        let pause = match plan.retry.heed {
            Heed::Nothing => pause,
            Heed::RetryAfter => pause.max(nanos(retry_after)),
        };
        job.attempts += 1;
        job.draws = Stream::from_state(job.seed);
        self.ledger.retry(job.class);
        self.wake_after(id, pause);
    }

    fn wake_after(&mut self, id: u32, pause: u64) {
        self.at(self.now.saturating_add(pause.max(PAUSE_MIN_NANOS)), Event::Wake(id));
    }
}

impl ClientPlan {
    #[inline]
    fn draw_flow(&self, random: &mut Stream) -> u32 {
        if self.flows == 1 {
            return 0;
        }
        match self.greedy {
            None => random.below(self.flows),
            Some(share) if random.uniform() < share => 0,
            Some(_) => 1 + random.below(self.flows - 1),
        }
    }
}

impl Job {
    /// Makes it the client's next request.
    #[inline]
    fn renew(&mut self, plan: &ClientPlan) {
        let RequestType { class, kind, index } = *plan.mix.draw(&mut self.behaviour);
        self.class = class;
        self.kind = kind;
        self.request_type = index;
        self.seed = self.behaviour.next();
        self.draws = Stream::from_state(self.seed);
        self.attempts = 0;
    }
}

#[inline]
fn new_job(client: u32, flow: u32, behaviour: Stream) -> Job {
    Job {
        draws: behaviour.clone(),
        behaviour,
        seed: 0,
        number: 0,
        arrived: 0,
        entered: 0,
        started: 0,
        deadline: u64::MAX,
        recorded: u64::MAX,
        due: u64::MAX,
        limit: u64::MAX,
        leaves: u64::MAX,
        resend: u64::MAX,
        first_data: u64::MAX,
        visit: 0,
        class: ClassId::DEFAULT,
        kind: 0,
        request_type: 0,
        stage: 0,
        client,
        flow,
        told_flow: 0,
        step: 0,
        attempts: 0,
        page: NOBODY,
        unanswered: 0,
        follower: NOBODY,
        at_entry: true,
        phase: Phase::Away,
        has_worker: false,
        is_lost: false,
        is_left: false,
        is_superseded: false,
    }
}
