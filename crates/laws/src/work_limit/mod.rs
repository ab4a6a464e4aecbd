//! Work limit: limits the work in flight to an upstream that cannot be observed.
//!
//! **Intuition.** A proxy sees what it has sent and what came back, not the workers behind the
//! port. If it sends everything on, the queue stands in the upstream, first come, first served.
//! So it keeps in flight what the upstream is busy with and a little more, and lets the queue
//! stand here, where the target, the client and the class count.
//!
//! **Why the obvious way fails.** Long answers are no evidence of a full upstream: reports take
//! long. A limit on requests counts a report as much as a thumbnail. A request that waits for an
//! event, or whose answer was lost, holds a place and does no work.
//!
//! **Mechanism.** Work is counted, by kind: each has its *unhurried* service, what it takes where
//! nobody waits (`kinds.rs`, `service.rs`).
//! 1. *The limit* (`search.rs`) grows freely while answers are unhurried. If places run out and
//!    answers take longer, the first of them show how many the upstream works at (`curve.rs`),
//!    or the limit is lowered by trials until work is lost. Then it follows the work that comes
//!    out. A trial is judged by throughput and response together (`trial.rs`).
//! 2. *One bound on the queue*: an event is rejected if the work ahead of it means a wait of more
//!    than a quarter of what its service leaves of its target. The quarter shrinks if answers are
//!    late nevertheless, and grows if places stay free.
//! 3. *One drop*: what would be late is dropped when its turn comes.
//!
//! Who is next is decided by priority and by due times (`due`): arrival and five times the own
//! service, or what is promised.
//! Short work has places kept free of long work that would make it late (`kept_places.rs`).
//! Clients and classes share while not all can be served (`sharing.rs`); a client that has just begun
//! may fill more of the queue, so that pages of many calls are whole. Streams have places of
//! their own, by those that flow and what they send (`streams.rs`). What is in flight in a pause teaches nothing (`stall.rs`), and
//! what stays far beyond its target is parked.
//!
//! Where the target is shorter than the service, answers are given as soon as can be, and the
//! reading `target_out_of_reach_ratio` says so.
//!
//! **Source.** Our own. To count work as busy servers is Little's law \[Little61\]; to judge a
//! trial by both throughput and response is its derivative. Trunk reservation is from loss
//! networks; what is fair is found as by [`PredictGateTrim`](crate::PredictGateTrim).
//!
//! **Limits.** With a few answers a second a trial takes many seconds. Kinds that nobody tells
//! apart are one kind: the mean of a mixture stands for all of it.

mod builder;
mod client_patience;
mod curve;
mod first_data;
mod growth;
pub(crate) mod kept_places;
pub(crate) mod kinds;
mod place_share;
mod promises;
mod queue_trim;
mod search;
pub(crate) mod service;
mod service_fit;
mod sharing;
mod stall;
mod stream_pace;
mod streams;
mod trial;
mod window;

use std::time::Duration;

pub use builder::WorkLimitBuilder;
pub(crate) use builder::WorkLimitConstants;
use client_patience::ClientPatience;
use kinds::{Kind, Kinds};
use promises::Promises;
use queue_trim::QueueTrim;
use search::{Answered, Mode, Search};
use service::Answer;
use sharing::Sharing;
use stall::Stall;
use streams::{SLOW, Streams, Tells};

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Change, ClassId, Classes, Concurrency, Decision, Dequeue,
    Ending, Finished, Moved, PlaceLimits, QueueOrder, Reading, Reason, Rejection, Timestamp,
    Waiting,
};

/// An event may wait for this share of what its service leaves of its target.
const QUEUE: f64 = 0.25;
/// A stream may wait for more: how long that is, is known from the ends of others.
const QUEUE_STREAMS: f64 = 0.9;
/// While nothing is known of its service, an event finds a queue of at most so many times the limit.
const QUEUE_UNKNOWN: f64 = 16.0;
/// While the upstream is not known to be full, an event may wait for this share, …
const QUEUE_FREE: f64 = 0.9;
/// … and the limit is expected to double so often meanwhile, at most.
const DOUBLINGS_MAX: f64 = 7.0;
/// A kind is due after so many times its unhurried service, or when its promise ends.
const DUE_SERVICES: f64 = 5.0;
/// Whoever has waited for less is not dropped: the decision would be chance.
const WAITED_MIN: f64 = 0.005;

/// The share of answers that are out of reach is an average over so many, or all before.
const REACH_ANSWERS: f64 = 100.0;

/// Holds the work in flight to an upstream near the least that keeps it busy.
#[derive(Clone, Debug)]
pub struct WorkLimit {
    kinds: Kinds,
    promises: Promises,
    search: Search,
    stall: Stall,
    sharing: Sharing,
    trim: QueueTrim,
    patience: ClientPatience,
    /// The share of answers whose kind takes longer than its target.
    out_of_reach: f64,
    /// So many answers are in that share.
    reach_answers: f64,
    streams_running: u32,
    /// When the last stream ended, of any kind.
    last_stream_end: f64,
    /// The first instant that it was told, from which seconds are counted.
    began: Option<Timestamp>,
    /// The instant that it was told last, in seconds.
    now: f64,
}

impl WorkLimit {
    /// The law with its default constants.
    pub fn new(classes: &Classes) -> Self {
        Self::builder(classes).law()
    }

    /// The law with constants of one's own.
    pub fn builder(classes: &Classes) -> WorkLimitBuilder<'_> {
        WorkLimitBuilder::new(classes)
    }

    fn with_limits(classes: &Classes, initial: f64, max: f64) -> Self {
        let promises = Promises::new(classes);
        Self {
            kinds: Kinds::new(classes),
            search: Search::new(initial, max),
            stall: Stall::default(),
            sharing: Sharing::new(classes, &promises),
            promises,
            trim: QueueTrim::default(),
            patience: ClientPatience::default(),
            out_of_reach: 0.0,
            reach_answers: 0.0,
            streams_running: 0,
            last_stream_end: 0.0,
            began: None,
            now: 0.0,
        }
    }

    /// It is `now`, in seconds since it was told first. Clocks begin at any number.
    fn tell(&mut self, now: Timestamp) -> f64 {
        let began = *self.began.get_or_insert(now);
        self.now = now.since(began).as_secs_f64();
        self.now
    }

    /// Places beside those of streams.
    fn places(&self) -> u32 {
        (self.search.limit() + 1e-9) as u32
    }

    /// Whether somebody waits because the limit is reached.
    fn is_pressed(&self) -> bool {
        let places = self.places();
        let waits = |kind: &Kind| kind.streams.is_none() && kind.share.kept_to(places).is_none();
        self.kinds.waiting().any(waits)
    }

    fn row_may_start(&self, row: usize) -> bool {
        let kind = self.kinds.row(row);
        match &kind.streams {
            Some(streams) => streams.may_start(self.now, self.promises.to_first_data(kind)),
            None => {
                kind.running < kind.share.places(self.places())
                    && !self.search.is_cautious(row, kind.running)
            }
        }
    }

    /// How long a kind may stay in the queue before its service, in seconds.
    fn due_after(&self, kind: &Kind) -> f64 {
        let kept = self.promises.kept(kind);
        kind.service.unhurried().map_or(0.0, |unhurried| (DUE_SERVICES * unhurried).min(kept))
    }

    /// Seconds of work in the queue that goes before one of the kind in `row`. Streams have places
    /// of their own.
    fn work_ahead(&self, row: usize) -> f64 {
        let kind = self.kinds.row(row);
        let (own, due) = (self.promises.priority(kind), self.due_after(kind));
        let ahead = self.kinds.waiting().filter(|kind| {
            kind.streams.is_none() && {
                let priority = self.promises.priority(kind);
                priority < own || (priority == own && self.due_after(kind) <= due)
            }
        });
        ahead.map(|kind| f64::from(kind.queued()) * kind.service.unhurried().unwrap_or(0.0)).sum()
    }

    /// How long an arrival of the kind in `row` would wait, if that can be told.
    fn wait(&self, row: usize, backlog: &Backlog<'_>) -> Option<f64> {
        let kind = self.kinds.row(row);
        match &kind.streams {
            Some(streams) => streams.wait(self.now, kind.queued(), self.promises.kept(kind)),
            None => {
                let unhurried = kind.service.unhurried()?;
                let drain = match self.search.drain() {
                    Some(drain) => drain,
                    // Not known to be full: the limit doubles with each response.
                    None => {
                        let responses = self.promises.room(kind) / unhurried;
                        self.search.limit() * responses.clamp(0.0, DOUBLINGS_MAX).exp2()
                    }
                };
                // Those beyond the limit, which was higher, have to come back first.
                let beyond = self.in_flight(backlog).saturating_sub(self.places());
                let beyond = f64::from(beyond) * unhurried;
                let wait = (self.work_ahead(row) + beyond) / drain;
                // Work that is kept to some of the places has these only.
                let own_work = f64::from(kind.queued()) * unhurried;
                let own_places = kind.share.kept_to(self.places());
                let own = own_places.map_or(0.0, |places| own_work / f64::from(places));
                Some(wait.max(own))
            }
        }
    }

    /// What speaks against an arrival that would not start at once, and for how long.
    fn objection(
        &mut self,
        now: Timestamp,
        row: usize,
        arrival: &Arrival,
        backlog: &Backlog<'_>,
    ) -> Option<(Reason, f64)> {
        let kind = self.kinds.row(row);
        let Some(wait) = self.wait(row, backlog) else {
            let most = QUEUE_UNKNOWN * self.search.limit();
            let is_full = f64::from(backlog.queued_total) >= most;
            return is_full.then_some((Reason::QueueFull, self.promises.kept(kind)));
        };
        if wait == 0.0 {
            self.sharing.observe(now, kind.class, 0.0);
            return None;
        }
        let service = kind.service.recent();
        let kept = self.promises.kept(kind).min(self.patience.of_use(arrival.flow));
        let left = match arrival.deadline {
            Some(deadline) => deadline.since(now).as_secs_f64().min(kept),
            None => kept,
        };
        let share = match kind.streams {
            Some(_) => QUEUE_STREAMS,
            None if self.search.is_full() || kind.share.kept_to(self.places()).is_some() => {
                self.trim.share() * QUEUE
            }
            None => QUEUE_FREE,
        };
        let room = self.promises.room(kind).min((kept - service).max(0.25 * kept));
        let filled = wait / (share * room);
        self.sharing.observe(now, kind.class, filled);
        if wait + service.min(0.7 * left) > left {
            Some((Reason::PredictedLate, wait))
        } else if filled > self.sharing.burst_allowance(now, kind.class, arrival.flow) {
            Some((Reason::StandingQueue, wait))
        } else if self.sharing.is_exceeded(now, kind.class, arrival.flow, filled) {
            Some((Reason::ShareExceeded, wait))
        } else {
            None
        }
    }

    /// One of the kind in `row` gets a place after `waited` seconds.
    fn start(&mut self, now: Timestamp, row: usize, waited: f64, backlog: &Backlog<'_>) {
        let seconds = self.tell(now);
        let kind = self.kinds.row_mut(row);
        kind.start(seconds);
        if let Some(streams) = &mut kind.streams {
            streams.start(seconds);
        }
        let is_stream = kind.streams.is_some();
        self.streams_running += u32::from(is_stream);
        if !is_stream {
            let in_flight = self.in_flight(backlog);
            self.stall.on_start(seconds, in_flight == 0);
            self.search.on_start(seconds - waited, seconds, row, in_flight + 1);
        }
    }

    /// One that held a place holds it no longer; a stream has had data, or has not.
    fn stop(&mut self, row: usize, start: f64, has_data: bool) {
        let kind = self.kinds.row_mut(row);
        let is_stream = kind.streams.is_some();
        kind.stop(start, has_data);
        kind.worked(self.now - start);
        self.streams_running = self.streams_running.saturating_sub(u32::from(is_stream));
    }

    /// One of the kind in `row` is a stream, which has had data: all of this kind are streams from
    /// now on.
    fn become_streams(&mut self, row: usize) -> &mut Streams {
        let kind = self.kinds.row_mut(row);
        if kind.streams.is_none() {
            self.streams_running += kind.running;
            self.search.forget_row(self.now, row);
        }
        kind.streams.get_or_insert_default()
    }

    /// Learns from an answer of the kind in `row` that took `took` seconds of service; when it came,
    /// if that is known.
    fn learn(
        &mut self,
        now: f64,
        row: usize,
        took: f64,
        entered: Option<f64>,
        backlog: &Backlog<'_>,
    ) {
        let sent = now - took;
        if !self.stall.on_answer(now, sent) {
            self.search.forget(entered, sent, row, took);
            return;
        }
        let full = self.search.is_full();
        // It takes a look at all kinds.
        let is_batch = self.kinds.row(row).service.may_end_batch(full);
        let spread = if is_batch { self.kinds.spread() } else { 1.0 };
        let kind = self.kinds.row_mut(row);
        let answer =
            Answer { at: now, took, ages: kind.ages(now), running: f64::from(kind.running) };
        // What came too much for the upstream may still wait there; streams do not wait for it.
        let has_waited = kind.streams.is_none() && self.search.is_settling();
        if !(has_waited && kind.service.is_new()) {
            kind.service.learn(answer, full, spread);
        }
        if let Some(unhurried) = kind.service.known() {
            let out_of_reach = f64::from(u8::from(unhurried > self.promises.target(kind)));
            self.reach_answers = (self.reach_answers + 1.0).min(REACH_ANSWERS);
            self.out_of_reach += (out_of_reach - self.out_of_reach) / self.reach_answers;
        }
        if kind.streams.is_some() {
            return;
        }
        let in_flight = f64::from(self.in_flight(backlog) + 1);
        let pressed = self.is_pressed() || in_flight + 1.0 > self.search.limit();
        let answered = Answered { row, entered, sent, took, in_flight, pressed };
        self.search.on_answer(now, answered, &mut self.kinds, &self.promises);
    }

    /// How many hold a place that is not a stream's.
    fn in_flight(&self, backlog: &Backlog<'_>) -> u32 {
        backlog.running_total.saturating_sub(self.streams_running)
    }

    /// Bounds the queue by how late answers are that came through it.
    fn trim(&mut self, response: f64, row: usize, backlog: &Backlog<'_>) {
        let kind = self.kinds.row(row);
        self.trim.on_answer(response > self.promises.kept(kind), self.promises.may_be_late(kind));
        if backlog.queued_total == 0 && self.in_flight(backlog) < self.places() {
            self.trim.on_free_place(self.search.is_full());
        }
    }
}

impl AdmissionLaw for WorkLimit {
    fn name(&self) -> &'static str {
        "work-limit"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        // As the stage was told when it asked, of the same instant and the same row.
        let may_start = self.may_start(arrival.class, arrival.kind, backlog);
        self.tell(now);
        let row = self.kinds.arrive(now, arrival.class, arrival.kind);
        let kind = self.kinds.row(row);
        let (class, work) = (kind.class, kind.service.unhurried().unwrap_or(0.0));
        if arrival.deadline.is_some_and(|deadline| deadline <= now) {
            return Decision::Reject(Rejection::new(Reason::PredictedLate));
        }
        if backlog.has_idle_worker() && may_start {
            self.sharing.observe(now, class, 0.0);
            self.sharing.charge(now, class, arrival.flow, work);
            self.kinds.row_mut(row).wait(0.0);
            self.start(now, row, 0.0, backlog);
            return Decision::Admit;
        }
        if let Some((reason, wait)) = self.objection(now, row, arrival, backlog) {
            self.trim.on_rejection();
            self.sharing.on_rejection(now, class, arrival.flow);
            let after = Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX);
            return Decision::Reject(Rejection::new(reason).retry_after(after));
        }
        self.sharing.charge(now, class, arrival.flow, work);
        self.kinds.queue(row);
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let verdict = self.on_sweep(now, waiting, backlog);
        if verdict == Dequeue::Run {
            let row = self.kinds.find(waiting.class, waiting.kind);
            self.kinds.unqueue(row);
            let waited = now.since(waiting.entered).as_secs_f64();
            self.kinds.row_mut(row).wait(waited);
            self.patience.stayed(waiting.flow, waited);
            self.start(now, row, waited, backlog);
        }
        verdict
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        let kind = self.kinds.row(self.kinds.find(waiting.class, waiting.kind));
        let waited = now.since(waiting.entered).as_secs_f64();
        let kept = self.promises.kept(kind);
        let of_use = kept.min(self.patience.of_use(waiting.flow));
        let late = waited + kind.service.recent().min(0.7 * kept) > of_use;
        if late && waited > WAITED_MIN { Dequeue::Drop } else { Dequeue::Run }
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        let row = self.kinds.find(moved.class, moved.kind);
        let (seconds, time) = (self.tell(now), moved.time.as_secs_f64());
        let start = seconds - time;
        match moved.change {
            Change::Dropped | Change::Abandoned => {
                self.kinds.unqueue(row);
                if moved.change == Change::Abandoned {
                    self.patience.left(moved.flow, time);
                }
            }
            Change::Parked => {
                self.stop(row, start, false);
                self.search.on_parked(start, row, time);
            }
            Change::Suspended => {
                if let Some(streams) = &mut self.kinds.row_mut(row).streams {
                    streams.stop(start);
                }
                self.stop(row, start, false);
                self.search.forget(None, start, row, time);
            }
            Change::Resumed => {
                let kind = self.kinds.row_mut(row);
                kind.start(start);
                if let Some(streams) = &mut kind.streams {
                    streams.start(start);
                    self.streams_running += 1;
                }
            }
            Change::StreamSuspended => self.stop(row, start, true),
            Change::StreamResumed => {
                self.become_streams(row);
                self.streams_running += 1;
                self.kinds.row_mut(row).resume_flowing();
            }
            Change::ParkedEnded => self.kinds.row_mut(row).service.note(time),
            Change::FirstData => {
                let to_first_data = self.promises.to_first_data(self.kinds.row(row));
                let last_end = self.last_stream_end;
                let streams = self.become_streams(row);
                let tells = streams.on_first_data(seconds, time, to_first_data, last_end);
                let kind = self.kinds.row_mut(row);
                kind.begin_flowing(start);
                match tells {
                    Tells::Nothing => {}
                    Tells::OfOthers => self.learn(seconds, row, time, None, backlog),
                    Tells::LongerThanBefore(mean) => kind.service.restart(mean, f64::from(SLOW)),
                }
            }
            Change::Progressed => {
                if let Some(streams) = &mut self.kinds.row_mut(row).streams {
                    streams.pace.learn(seconds, time, streams.flowing);
                }
            }
        }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let row = self.kinds.find(finished.class, finished.kind);
        let (took, response) = (finished.service.as_secs_f64(), finished.response.as_secs_f64());
        let seconds = self.tell(now);
        let entered = Some(seconds - response);
        let start = seconds - took;
        if let Some(streams) = &mut self.kinds.row_mut(row).streams {
            // Without data it says nothing of the time to that.
            let has_data = finished.ending == Ending::Untimed && !streams.is_waiting(start);
            match has_data {
                true => streams.on_end(seconds, took),
                false => streams.stop(start),
            }
            self.stop(row, start, has_data);
            self.last_stream_end = seconds;
            return;
        }
        self.stop(row, start, false);
        match finished.ending {
            Ending::Completed => {
                self.learn(seconds, row, took, entered, backlog);
                self.trim(response, row, backlog);
            }
            // It took at least so long, and held its place meanwhile.
            Ending::Terminated => self.learn(seconds, row, took, entered, backlog),
            // It says something only if it is already long.
            Ending::Abandoned
                if self.kinds.row(row).service.known().is_some_and(|known| took > known) =>
            {
                self.learn(seconds, row, took, entered, backlog);
            }
            Ending::Untimed | Ending::Failed | Ending::Abandoned => {
                self.search.forget(entered, start, row, took);
            }
        }
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        let seconds = self.tell(now);
        let in_flight = self.in_flight(backlog);
        if self.stall.on_tick(seconds, &self.kinds, &self.promises) {
            self.search.interrupt(seconds);
        }
        for kind in self.kinds.iter_mut() {
            let to_first_data = self.promises.to_first_data(kind);
            if let Some(streams) = &mut kind.streams {
                streams.observe(seconds, to_first_data);
            }
        }
        self.kinds.on_tick();
        self.patience.on_tick();
        if !self.stall.is_stalled() {
            let pressed = self.is_pressed();
            let (kinds, promises) = (&mut self.kinds, &self.promises);
            self.search.on_tick(seconds, f64::from(in_flight), pressed, kinds, promises);
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.promises = Promises::new(classes);
        self.sharing.set_targets(classes, &self.promises);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("limit_count", self.search.limit());
        show("saturated_ratio", f64::from(u8::from(self.search.mode() != Mode::Free)));
        show("work_busy_count", self.search.drain().unwrap_or(0.0));
        show("queue_share_ratio", self.trim.share() * QUEUE);
        show("stalled_ratio", f64::from(u8::from(self.stall.is_stalled())));
        show("streams_count", f64::from(self.streams_running));
        show("target_out_of_reach_ratio", self.out_of_reach);
        let kinds = self.kinds.iter().filter(|(_, kind)| kind.service.unhurried().is_some());
        show("kinds_count", kinds.count() as f64);
        show("kinds_used_up_ratio", f64::from(u8::from(self.kinds.is_full())));
        if let Some(patience) = self.patience.known() {
            show("patience_seconds", patience);
        }
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for WorkLimit {
    fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        let kind = self.kinds.row(self.kinds.find(class, kind));
        let limit = self.promises.park_after(kind);
        let parks = kind.streams.is_none();
        Duration::try_from_secs_f64(limit).ok().filter(|_| parks)
    }

    fn may_start(&self, class: ClassId, kind: u64, _: &Backlog<'_>) -> bool {
        self.row_may_start(self.kinds.find(class, kind))
    }

    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new((self.places() + self.streams_running).max(1)))
    }
}

impl QueueOrder for WorkLimit {
    fn due(&self, waiting: &Waiting) -> Timestamp {
        let kind = self.kinds.row(self.kinds.find(waiting.class, waiting.kind));
        let after = Duration::try_from_secs_f64(self.due_after(kind));
        waiting.entered + after.unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Target;

    use super::*;

    #[test]
    fn queued_streams_are_no_work_ahead_of_others() {
        let target = Target::p90(Duration::from_secs(2)).expect("it is a target");
        let mut law = WorkLimit::new(&Classes::single(target));
        let queue = |law: &mut WorkLimit, kind, count| {
            let row = law.kinds.arrive(Timestamp::ZERO, ClassId::DEFAULT, kind);
            law.kinds.row_mut(row).service.restart(0.5, 24.0);
            (0..count).for_each(|_| law.kinds.queue(row));
            row
        };
        let streams = queue(&mut law, 1, 20);
        let others = queue(&mut law, 2, 4);
        assert_eq!(law.work_ahead(others), 12.0);
        law.become_streams(streams);
        assert_eq!(law.work_ahead(others), 2.0);
    }
}
