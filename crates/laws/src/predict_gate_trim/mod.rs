//! Predict, gate, trim: the default admission law.
//!
//! **Intuition.** When an event arrives, the stage knows what is queued, how long each class
//! takes to serve and how many workers there are. So it can predict the response time. If the
//! prediction is within the target, the event is admitted; if not, an immediate rejection is worth
//! more than an answer that comes too late. The target is the *only* thing that an operator states.
//!
//! **Why the obvious way fails.** Rejecting events
//! when response times grow reacts a queue too late: what is measured now was let in long
//! ago, so such a law swings between too much and too little
//! (`ResponseTime` of `tamarisk-laws-papers` shows it). A law that steers the
//! percentile *to* its target fails more quietly: it lets the queue grow until
//! answers land around the target, and half of what lands around a target lands
//! behind it. The target is a ceiling, not a set-point.
//!
//! **Mechanism.** Three loops, from fast to slow.
//! 1. *Predict*, for each arrival. With `s_k` the mean service time of class k
//!    and `ĉ` the workers, `w = g · (Σ queued s + s̄ of the running) ÷ ĉ` is how
//!    long the arrival would wait; with `q_k` its class's service time at the
//!    promised percentile it is rejected if `w + q_k` exceeds its target or its
//!    deadline. While a worker is idle `w` is zero: nothing is ever rejected by an
//!    idle stage. Only work of the same or a higher priority counts as ahead.
//! 2. *Gate*, every half target (`gate.rs`): a queue that never empties only adds
//!    to every response time, so what may stand is narrowed to a share θ of the
//!    target, or of less where service takes much of it. A burst may fill the target; a
//!    standing queue may not.
//! 3. *Trim*, every 100 completions (`trim.rs`): if the promised percentile of real
//!    response times exceeds the target, predictions are too rosy and `g` grows.
//!
//! *How many work* is decided by trials (`useful_workers/`): where the workers crowd something
//! that they wait for, in an overload, fewer of them do as much, and the rest wait in the queue.
//!
//! *How fast they work* is measured by recent completions; where they cease, that is
//! noticed before the slow events complete (`stall/`).
//!
//! *Whose turn it is* decides while not all can be served: a client that has had
//! more than its share recently leaves the queue to those who have had less
//! (`clients.rs`, `fair_share.rs`), or where no queue can form a worker (`kept_room.rs`), and a class that has had more than its weight leaves
//! it to the others of its priority (`class_shares.rs`). What the modest leave over is
//! the greedy one's, and without an overload nobody is rejected for it. A client of whom a call has
//! just been let in may wait in twice as long a queue (`bursts.rs`), so that pages are whole.
//!
//! A reserve admits a few events of classes that the estimates would exclude. At the head of the queue an event is dropped if it would come too late,
//! and while the gate is narrow and the oldest events have used up half of their
//! time the newest is served first, for it still has time left.
//! On a stage of one or two workers a single event may wait that long for a worker;
//! there a newcomer is let in now and then to overtake those who wait (`level.rs`).
//!
//! **Source.** Our own, from parts: prediction per type as in Bouncer \[Bouncer24\],
//! the least wait over an interval from CoDel [RFC8289 §3], the percentile
//! target, the 100 samples and the 1 s from [Welsh03 §3.2], the fair share that is
//! steered by the queue from [Pan03 §3], the sketch from [Cormode05 §3].
//!
//! **Limits.** Workers are taken to be equal, and running events to be done at
//! an exponential rate. A stage whose real drain rate is not its workers' is off
//! by what the trim finds out; workers that crowd a dependency out of its sight are found
//! out by trials under overload, one at a time (`useful_workers/`). A class that cannot
//! meet its target even on an idle stage is served while nobody else waits, and by the reserve.
//! A client is who the stage says it is: one with a thousand names has a thousand
//! shares, and events of no known client (flow 0) are not limited as one. Clients
//! are charged the mean of a class, so that one whose events of a class are longer
//! than others' gets more than its share of the work. Where classes have weights, these
//! alone share, for the clients of a heavy class are meant to have more. The fair share is found
//! within some ten intervals of half a target from the beginning of an overload.

mod batch_cost;
mod builder;
mod level;
mod reserve;
mod seconds;
mod service_model;
mod stall;
mod trim;
mod useful_workers;

use std::time::Duration;

use crate::sharing::clients::{Clients, Standing};
pub(crate) use builder::PredictGateTrimConstants;
pub use builder::{InvalidPredictGateTrim, PredictGateTrimBuilder};
use level::{Levels, Wait};
use reserve::Reserve;
use seconds::seconds;
use service_model::{Refreshed, ServiceModel};
use stall::Stall;
use useful_workers::UsefulWorkers;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, BatchDecisions, ClassId, Classes, Concurrency, Decision,
    Dequeue, Ending, Finished, Order, PlaceLimits, QueueOrder, Reading, Reason, Rejection,
    Timestamp, Waiting,
};

use crate::promise::Promise;

/// The scale of measured to expected service is kept within what a change of the number
/// that run at once can explain.
const SCALE_MIN: f64 = 0.01;
const SCALE_MAX: f64 = 100.0;

/// The 90th percentile of an exponential wait, of its mean: who has had little is not to be late
/// every other time.
const WAIT_P90: f64 = 2.3;

/// Admits an event if it will meet its target, judging by what is ahead of it.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # use tamarisk_control::*;
/// # use tamarisk_laws::*;
/// let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
/// let mut law = PredictGateTrim::new(&classes);
///
/// let idle = Backlog {
///     queued: &[0],
///     running: &[3],
///     queued_total: 0,
///     running_total: 3,
///     workers: Concurrency::new(8),
/// };
/// let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
/// assert_eq!(law.on_arrival(Timestamp::ZERO, &arrival, &idle), Decision::Admit);
/// # Ok::<(), InvalidTarget>(())
/// ```
#[derive(Clone, Debug)]
pub struct PredictGateTrim {
    promises: Box<[Promise]>,
    service: ServiceModel,
    levels: Levels,
    reserve: Reserve,
    clients: Clients,
    /// ε: a wait of at most this share of the target counts as no wait.
    negligible_wait: f64,
    /// How many times as long service takes now as when it was measured: 1, unless
    /// fewer workers have proved to be enough.
    service_scale: f64,
    useful: UsefulWorkers,
    /// Where the trials of fewer workers have found nothing.
    stall: Stall,
}

impl PredictGateTrim {
    /// The law with its default constants.
    pub fn new(classes: &Classes) -> Self {
        Self::builder(classes).law()
    }

    /// The law with constants of one's own.
    pub fn builder(classes: &Classes) -> PredictGateTrimBuilder<'_> {
        PredictGateTrimBuilder::new(classes)
    }

    /// The decision about one that arrives.
    #[inline]
    fn judge_arrival(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        backlog: &Backlog<'_>,
    ) -> Decision {
        let drain = self.drain(backlog);
        let class = self.resolve(arrival.class);
        let Some(remaining) = self.remaining(now, class, arrival.deadline) else {
            return Decision::Reject(Rejection::new(Reason::PredictedLate));
        };
        let (standing, kept) = self.kept_from(now, class, arrival.flow);
        let means = self.service.means();
        let mean = means[class.index()];
        if backlog.has_idle_worker() {
            self.stall.on_idle();
            self.levels.observe(now, class, 0.0);
            let idle = backlog.workers.get() - backlog.running_total;
            if idle > kept.min(backlog.workers.get() / 2) {
                self.let_in(now, class, arrival.flow, mean);
                if idle == 1 {
                    self.note_need(now, class, standing);
                }
                return Decision::Admit;
            }
        }
        let pace = self.service.pace(backlog, 0);
        let wait = self.levels.wait(now, class, backlog, means, drain, pace);
        if !backlog.has_idle_worker() {
            self.levels.observe(now, class, wait.queue);
        }

        let objection = self.objection(now, class, arrival.flow, wait, remaining);
        let kept_from = || self.leaves_no_room(class, wait, kept, backlog, drain);
        if let Some(reason) = objection.or_else(|| kept_from().then_some(Reason::ShareExceeded)) {
            let unknown = self.service.is_unknown(class);
            let needed = unknown || self.quantile(class) >= self.promises[class.index()].target;
            if !(needed && kept == 0 && self.reserve.admits(now, class, wait.total / remaining)) {
                self.useful.on_rejection(backlog);
                if self.clients.on_rejection(now) {
                    self.levels.reset_shares();
                }
                self.note_lack(now, class, standing, mean, backlog);
                let clears = Duration::try_from_secs_f64(wait.total).unwrap_or(Duration::MAX);
                return Decision::Reject(Rejection::new(reason).retry_after(clears));
            }
        }
        self.let_in(now, class, arrival.flow, mean);
        self.note_need(now, class, standing);
        self.levels.join(now, class, wait);
        Decision::Admit
    }

    fn let_in(&mut self, now: Timestamp, class: ClassId, flow: u64, mean: f64) {
        self.levels.admit(class, mean);
        self.clients.charge(now, flow, mean);
    }

    /// What the client of `flow` has had beside others, and for how many events of others it has to
    /// leave room.
    #[inline]
    fn kept_from(&mut self, now: Timestamp, class: ClassId, flow: u64) -> (Standing, u32) {
        let standing = self.clients.standing(now, flow);
        let kept = match self.levels.kept_room(class) {
            Some(kept) if standing == Standing::HadMuch => kept.events(now, self.clients.memory()),
            _ => 0,
        };
        (standing, kept)
    }

    /// Whether `kept` more events of `class` that came now would come too late.
    fn leaves_no_room(
        &self,
        class: ClassId,
        wait: Wait,
        kept: u32,
        backlog: &Backlog<'_>,
        drain: f64,
    ) -> bool {
        if kept == 0 {
            return false;
        }
        let idle = backlog.workers.get().saturating_sub(backlog.running_total);
        let before = f64::from(kept.saturating_sub(idle)) * self.service.mean(class);
        let wait = self.levels.behind(class, wait, before, drain).total;
        let target = self.promises[class.index()].target;
        WAIT_P90 * wait + self.quantile(class) > target
    }

    /// An event finds no worker left behind it: if it is of a client who has had little, all of the room
    /// that is kept for them is needed.
    #[inline]
    fn note_need(&mut self, now: Timestamp, class: ClassId, standing: Standing) {
        if standing == Standing::HadLittle
            && let Some(kept) = self.levels.kept_room(class)
        {
            kept.is_needed(now);
        }
    }

    /// An event is rejected: if it is of a client who has had little, more room is to be kept.
    fn note_lack(
        &mut self,
        now: Timestamp,
        class: ClassId,
        standing: Standing,
        mean: f64,
        backlog: &Backlog<'_>,
    ) {
        if standing == Standing::HadLittle
            && let Some(kept) = self.levels.kept_room(class)
        {
            let service = Duration::try_from_secs_f64(mean).unwrap_or(Duration::MAX);
            kept.is_too_small(now, service, (backlog.workers.get() / 2).max(1));
        }
    }

    /// How long the answer to an event of `class` is of use, in seconds; `None` if it
    /// is of none any more.
    #[inline]
    fn remaining(
        &self,
        now: Timestamp,
        class: ClassId,
        deadline: Option<Timestamp>,
    ) -> Option<f64> {
        let target = self.promises[class.index()].target;
        match deadline {
            None => Some(target),
            Some(deadline) if deadline <= now => None,
            Some(deadline) => Some(target.min(deadline.since(now).as_secs_f64())),
        }
    }

    /// What speaks against an event that would wait so long.
    #[inline]
    fn objection(
        &self,
        now: Timestamp,
        class: ClassId,
        flow: u64,
        wait: Wait,
        remaining: f64,
    ) -> Option<Reason> {
        let target = self.promises[class.index()].target;
        if wait.total <= self.negligible_wait * target {
            None
        } else if wait.total + self.quantile(class) > remaining {
            Some(Reason::PredictedLate)
        } else if self.levels.is_standing(class, wait, self.clients.burst_allowance(now, flow)) {
            Some(Reason::StandingQueue)
        } else if self.levels.exceeds_share(class, wait, self.clients.share(now, flow)) {
            Some(Reason::ShareExceeded)
        } else {
            None
        }
    }

    /// Learns from an event that has run.
    #[inline]
    fn learn(&mut self, now: Timestamp, finished: &Finished) {
        let class = self.resolve(finished.class);
        if finished.ending == Ending::Completed {
            self.service.learn_batch(finished.together, seconds(finished.service));
        }
        if self.service.wants(now, class) {
            self.learn_service(now, class, finished);
        }
        if self.levels.wants(now, class) {
            self.learn_response(now, class, finished);
        }
    }

    fn learn_service(&mut self, now: Timestamp, class: ClassId, finished: &Finished) {
        let refreshed = self.service.record(now, class, finished.service, finished.ending);
        if refreshed == Refreshed::AllClasses {
            self.refresh_rooms();
        }
    }

    fn learn_response(&mut self, now: Timestamp, class: ClassId, finished: &Finished) {
        let Promise { target, per_target, percentile } = self.promises[class.index()];
        let ratio = seconds(finished.response) * per_target;
        let ratio = match finished.ending {
            Ending::Completed => ratio,
            // An answer without its work done is late, however soon it came.
            Ending::Failed | Ending::Terminated => ratio.max(1.0),
            Ending::Abandoned if ratio >= 1.0 => ratio,
            Ending::Abandoned | Ending::Untimed => return,
        };
        // No correction of the wait can make an infeasible class meet its target.
        if self.quantile(class) < target {
            self.levels.learn(now, class, ratio, percentile);
        }
    }

    /// From now on an event takes so many seconds on average, or as long as measured.
    fn expect_service(&mut self, seconds: Option<f64>) {
        self.service_scale = seconds.map_or(1.0, |seconds| {
            (seconds / self.service_mean().max(1e-9)).clamp(SCALE_MIN, SCALE_MAX)
        });
    }

    /// The mean measured service time of all events, in seconds.
    fn service_mean(&self) -> f64 {
        self.service.stage_mean()
    }

    /// How long an event of `class` may wait before it is not worth running, if
    /// nothing but its target matters.
    fn patience(&self, class: ClassId, median: f64) -> f64 {
        let target = self.promises[class.index()].target;
        if self.measured_quantile(class) < target {
            target - median
        } else {
            // It would be late in any case; it is here by the reserve's leave,
            // which allows it as long.
            target * reserve::WAIT_SHARE_MAX
        }
    }

    fn quantile(&self, class: ClassId) -> f64 {
        self.measured_quantile(class).max(self.stall.service_min(self.service.mean(class)))
    }

    fn measured_quantile(&self, class: ClassId) -> f64 {
        self.service_scale * self.service.quantile(class)
    }

    fn median(&self, class: ClassId) -> f64 {
        let measured = self.service_scale * self.service.median(class);
        measured.max(self.stall.service_min(self.service.mean(class)))
    }

    fn refresh_rooms(&mut self) {
        self.levels.forget_rooms();
        for index in 0..self.promises.len() {
            let class = ClassId::new(index);
            let room = self.promises[index].target - self.quantile(class);
            if room > 0.0 {
                self.levels.lower_room(class, room);
            }
        }
    }

    /// Seconds of work, as it was measured, that the stage gets through in a second.
    fn drain(&self, backlog: &Backlog<'_>) -> f64 {
        match self.useful.known() {
            Some((rate, _)) => rate * self.service_mean(),
            None => f64::from(backlog.workers.get()) * self.stall.speed(),
        }
    }

    fn resolve(&self, class: ClassId) -> ClassId {
        if class.index() < self.promises.len() { class } else { ClassId::DEFAULT }
    }
}

impl AdmissionLaw for PredictGateTrim {
    fn name(&self) -> &'static str {
        "predict-gate-trim"
    }

    #[inline]
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.useful.on_arrival(1, backlog);
        self.judge_arrival(now, arrival, backlog)
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        if waiting.deadline.is_some_and(|deadline| deadline <= now) {
            return Dequeue::Drop;
        }
        let class = self.resolve(waiting.class);
        let median = self.median(class);
        let until_deadline = waiting.deadline.map_or(f64::INFINITY, |deadline| {
            deadline.since(waiting.entered).as_secs_f64() - median
        });
        let negligible = self.negligible_wait * self.promises[class.index()].target;
        let patience = self.patience(class, median).min(until_deadline).max(negligible);
        if seconds(now.since(waiting.entered)) > patience { Dequeue::Drop } else { Dequeue::Run }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let class = self.resolve(finished.class);
        let tells = self.service.wants(now, class) || self.useful.wants_each(backlog);
        self.learn(now, finished);
        match self.useful.known() {
            None => self.stall.on_finish(now, class, backlog, &self.service),
            Some(_) => self.stall.end(),
        }
        if tells && finished.ending == Ending::Completed {
            self.useful.on_completion(now, class, finished.service, backlog, &self.service);
        }
        if self.useful.limit().is_some() || self.service_scale != 1.0 {
            self.expect_service(self.useful.known().map(|(_, seconds)| seconds));
        }
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.stall.on_tick(now, backlog, &self.service);
        let drain = self.drain(backlog);
        self.refresh_rooms();
        let pace = self.service.pace(backlog, 0);
        self.levels.on_tick(now, backlog, self.service.means(), drain, pace);
        self.levels.fit_spans();
    }

    fn set_targets(&mut self, classes: &Classes) {
        for (index, target) in classes.targets().enumerate().take(self.promises.len()) {
            self.promises[index] = Promise::of(target);
            self.service.set_percentile(ClassId::new(index), target.at().get());
        }
        self.levels.set_targets(classes);
        self.clients.set_targets(classes.longest(), classes.strictest());
        self.useful.set_target(classes.strictest().as_secs_f64());
        self.refresh_rooms();
        self.levels.fit_spans();
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        if let Some(useful) = self.useful.limit() {
            let value = f64::from(useful.get());
            visit(Reading { name: "useful_workers_count", class: None, value });
        }
        if self.stall.speed() < 1.0 {
            visit(Reading { name: "service_speed_ratio", class: None, value: self.stall.speed() });
        }
        for index in 0..self.promises.len() {
            let class = ClassId::new(index);
            let mut show = |name, value| visit(Reading { name, class: Some(class), value });
            show("gate_ratio", self.levels.gate_share(class));
            show("client_share_ratio", self.levels.client_share(class));
            if let Some(share) = self.levels.class_share(class) {
                show("class_share_ratio", share);
            }
            show("trim_ratio", self.levels.correction(class));
            show("service_mean_seconds", self.service_scale * self.service.mean(class));
            show("service_median_seconds", self.median(class));
            show("service_quantile_seconds", self.quantile(class));
        }
    }

    fn batch_decisions(&mut self) -> Option<&mut dyn BatchDecisions> {
        Some(self)
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl BatchDecisions for PredictGateTrim {
    /// If even the last of them is let in, behind all others, so are those. Each is
    /// looked at where clients or weights share, and when a gate is to be judged anew.
    fn admits_all(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool {
        let class = self.resolve(arrival.class);
        let Some(remaining) = self.remaining(now, class, arrival.deadline) else { return false };
        let is_shared = arrival.flow != 0 || self.levels.class_share(class).is_some();
        if is_shared || self.levels.is_verdict_due(now, class) {
            return false;
        }
        let (means, drain) = (self.service.means(), self.drain(backlog));
        let mean = means[class.index()];
        let pace = self.service.pace(backlog, count);
        let first = self.levels.wait(now, class, backlog, means, drain, pace);
        let work = pace.queued * f64::from(count - 1) * mean;
        let last = self.levels.behind(class, first, work, drain);
        if first.overtakes || self.objection(now, class, arrival.flow, last, remaining).is_some() {
            return false;
        }
        self.useful.on_arrival(count, backlog);
        let is_first_free = backlog.has_idle_worker();
        if is_first_free {
            self.stall.on_idle();
        }
        self.levels.observe(now, class, if is_first_free { 0.0 } else { first.queue });
        self.levels.admit(class, f64::from(count) * mean);
        (0..count).for_each(|_| self.clients.charge(now, arrival.flow, mean));
        // Who finds a worker free joins no queue; those behind it do.
        if !is_first_free || count > 1 {
            self.levels.join(now, class, last);
        }
        true
    }

    /// If the one that has waited longest is still of use, so are the others.
    fn runs_all(
        &mut self,
        now: Timestamp,
        waiting: &Waiting,
        _: u32,
        backlog: &Backlog<'_>,
    ) -> bool {
        self.on_dequeue(now, waiting, backlog) == Dequeue::Run
    }

    fn on_finish_all(
        &mut self,
        now: Timestamp,
        finished: &Finished,
        count: u32,
        backlog: &Backlog<'_>,
    ) {
        (0..count).for_each(|_| self.on_finish(now, finished, backlog));
    }
}

impl PlaceLimits for PredictGateTrim {
    fn useful_workers(&self) -> Option<Concurrency> {
        self.useful.limit()
    }
}

impl QueueOrder for PredictGateTrim {
    fn order(&self, head_age: Duration) -> Order {
        self.levels.order(head_age)
    }
}
