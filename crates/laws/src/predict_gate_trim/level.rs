//! Priority levels: the predicted wait of an event behind its own level and those above.
//!
//! The stage serves a higher level first, so a level sees a faster or slower
//! stage of its own: its queue is the events of its level and of those above,
//! and what drains it is what the levels above leave over. Each level therefore
//! has its own gate and its own trim. With one priority for all there is one level.

use std::time::Duration;

use tamarisk_control::{Backlog, ClassId, Classes, Order, Timestamp};

use super::batch_cost::BatchPace;
use super::seconds::seconds;
use super::trim::Trim;
use crate::sharing::class_shares::ClassShares;
use crate::sharing::clients;
use crate::sharing::fair_share::FairShare;
use crate::sharing::gate::Gate;
use crate::sharing::kept_room::KeptRoom;

/// However busy the levels above are, a level is taken to get this share of the
/// stage, so that its predicted wait stays finite.
const SHARE_LEFT_MIN: f64 = 0.02;

/// The newest event goes first once the oldest has used up this share of its target.
///
/// Deviation: \[Maurer15\] turns the queue over as soon as one stands. That starves
/// events that were promised an answer: turned over at a tenth of the target, a
/// flash crowd's queue drops one admitted event in eleven, at half of it one in
/// eighty.
const NEWEST_FIRST_AGE: f64 = 0.5;

/// Where it takes longer than this share of the target until a worker is free, who
/// waits for it grows old while others come who still have their whole time.
const OVERTAKING_WAIT: f64 = 0.1;

/// There a newcomer overtakes the queue once its newest event has waited for this
/// share of its room: often enough that the next to run has most of its time left,
/// and seldom enough that few are admitted in vain.
const OVERTAKING_AGE: f64 = 0.25;

/// Where service leaves the room r of the target T, a queue may have shares of so many times
/// r · r ÷ T. With service of a third of the target (at its percentile) this is the room, and
/// the prediction is the narrower bound; with two thirds it is half of the room. With a
/// factor of 1.25, bursts that a stage at 80 % load bears are rejected.
const SPAN_ROOMS: f64 = 1.5;

/// The levels, most important first, and which one each class is on.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    level_of: Box<[u8]>,
    levels: Box<[Level]>,
    /// The longest wait, in seconds, that leaves each class time to be served.
    rooms: Box<[f64]>,
    /// The queue in front of each class is bounded by shares of this, in seconds (`gate.rs`).
    spans: Box<[f64]>,
}

#[derive(Clone, Debug)]
struct Level {
    gate: Gate,
    trim: Trim,
    client_share: FairShare,
    kept: KeptRoom,
    /// If any of its classes has a weight.
    class_shares: Option<ClassShares>,
    /// The least target of its classes, in seconds: its queue is judged by it.
    target: f64,
    /// The least room of its classes, in seconds, and the span that it makes.
    room: f64,
    span: f64,
    /// Seconds of work admitted since the gate's interval began.
    admitted: f64,
    /// Seconds of work admitted a second, recently.
    load: f64,
    /// The sum of `load` over the levels above.
    load_above: f64,
    /// When the newest event joined the queue …
    joined: Timestamp,
    /// … and whether it was let in to overtake those before it.
    overtaking: bool,
}

/// A predicted wait, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Behind events in the queue.
    pub(crate) queue: f64,
    /// The same, and until a worker is free.
    pub(crate) total: f64,
    /// The newcomer would not wait for the queue: it would be served first.
    pub(crate) overtakes: bool,
}

impl Levels {
    /// `standing` as for [`Gate::new`].
    pub(crate) fn new(classes: &Classes, standing: f64) -> Self {
        let mut priorities: Vec<_> = classes.iter().map(|(_, class)| class.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let level_of = classes.iter().map(|(_, class)| {
            priorities.partition_point(|&priority| priority < class.priority) as u8
        });
        let levels: Box<[Level]> = priorities
            .iter()
            .map(|&priority| {
                let on_level = classes.iter().filter(|(_, class)| class.priority == priority);
                let targets = on_level.map(|(_, class)| class.target.response_time());
                let target = targets.min().unwrap_or(Duration::MAX);
                let class_shares =
                    ClassShares::new(classes, priority, standing * target.as_secs_f64());
                Level::new(target, standing, class_shares)
            })
            .collect();
        let level_of: Box<[u8]> = level_of.collect();
        let spans = level_of.iter().map(|&of| levels[usize::from(of)].target).collect();
        let rooms = vec![f64::INFINITY; level_of.len()].into();
        Self { level_of, levels, rooms, spans }
    }

    /// How long an event of `class` that arrives now will wait, for a stage that
    /// gets through `drain` seconds of work a second.
    ///
    /// `pace` is that of its batches.
    ///
    /// Until the first of c equal workers is free takes a c-th of what one of
    /// them takes for a running event: exact if service is exponential.
    #[inline]
    pub(crate) fn wait(
        &self,
        now: Timestamp,
        class: ClassId,
        backlog: &Backlog<'_>,
        means: &[f64],
        drain: f64,
        pace: BatchPace,
    ) -> Wait {
        let own = self.level_of[class.index()];
        let level = &self.levels[usize::from(own)];
        let (mut above, mut beside, mut running) = (0.0, 0.0, 0.0);
        let counts = backlog.queued.iter().zip(backlog.running);
        for (((&in_queue, &in_work), &mean), &of) in counts.zip(means).zip(&self.level_of) {
            let queued = f64::from(in_queue) * mean;
            above += if of < own { queued } else { 0.0 };
            beside += if of == own { queued } else { 0.0 };
            running += f64::from(in_work) * mean;
        }
        let scale = level.scale(drain);
        let until_free = pace.running * running / f64::from(backlog.running_total.max(1));
        let overtakes = until_free > OVERTAKING_WAIT * level.target * drain
            && seconds(now.since(level.joined)) > OVERTAKING_AGE * level.room();
        let queued = pace.queued * if overtakes { above } else { above + beside };
        Wait { queue: scale * queued, total: scale * (queued + until_free), overtakes }
    }

    /// The wait of one before whom `work` more seconds of work of `class` join the queue.
    #[inline]
    pub(crate) fn behind(&self, class: ClassId, wait: Wait, work: f64, drain: f64) -> Wait {
        let more = self.level(class).scale(drain) * work;
        Wait { queue: wait.queue + more, total: wait.total + more, ..wait }
    }

    /// Whether a queue that means such a wait is more than an event of `class` may join.
    ///
    /// A queue has to leave every class of the level its room: those with time to spare would
    /// fill it, and keep those without from ever entering it. As long as none stands, a short one
    /// is judged by the room of the class itself, whatever is in service.
    #[inline]
    pub(crate) fn is_standing(&self, class: ClassId, wait: Wait, allowance: f64) -> bool {
        let level = self.level(class);
        let (share, own_room) = (level.gate.share(), self.rooms[class.index()]);
        let is_short = wait.queue <= level.gate.standing_wait().min(level.room);
        let (span, room) = if share == 1.0 && is_short && own_room.is_finite() {
            (self.spans[class.index()], own_room)
        } else {
            (level.span, level.room)
        };
        wait.queue > allowance * share * span || wait.total > room
    }

    /// Whether an event of `class`, from a client that has had `share` of all, has to
    /// leave the queue to other classes or, where these have no weights, clients.
    #[inline]
    pub(crate) fn exceeds_share(&self, class: ClassId, wait: Wait, share: f64) -> bool {
        let level = self.level(class);
        match &level.class_shares {
            Some(shares) => shares.is_exceeded(class, wait.queue),
            None => level.client_share.is_exceeded(share, wait.queue),
        }
    }

    /// The room that is kept on the level of `class`; none where classes share by weights.
    #[inline]
    pub(crate) fn kept_room(&mut self, class: ClassId) -> Option<&mut KeptRoom> {
        let level = self.level_mut(class);
        level.class_shares.is_none().then_some(&mut level.kept)
    }

    /// An overload begins: whatever the queue was before, nobody has had too much.
    pub(crate) fn reset_shares(&mut self) {
        for level in &mut self.levels {
            level.client_share.reset();
            level.kept.reset();
            level.class_shares.iter_mut().for_each(ClassShares::reset);
        }
    }

    /// Whether the gate of the level of `class` will be judged by the next wait.
    #[inline]
    pub(crate) fn is_verdict_due(&self, now: Timestamp, class: ClassId) -> bool {
        self.level(class).gate.is_verdict_due(now)
    }

    /// Takes note of the wait in the queue of the level of `class`.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, class: ClassId, wait_seconds: f64) {
        let level = self.level_mut(class);
        if let Some(interval) = level.gate.observe(now, wait_seconds) {
            let load = level.admitted / interval.length.as_secs_f64();
            level.load = f64::midpoint(level.load, load);
            level.admitted = 0.0;
            level.client_share.judge(interval.least_wait);
            level.class_shares.iter_mut().for_each(|shares| shares.judge(interval));
            self.sum_loads();
        }
    }

    /// An event of `class` joins the queue, for which `wait` was predicted.
    #[inline]
    pub(crate) fn join(&mut self, now: Timestamp, class: ClassId, wait: Wait) {
        let level = self.level_mut(class);
        level.joined = now;
        level.overtaking = wait.overtakes;
    }

    /// Counts `work_seconds` of `class` as admitted.
    #[inline]
    pub(crate) fn admit(&mut self, class: ClassId, work_seconds: f64) {
        let level = self.level_mut(class);
        level.admitted += work_seconds;
        if let Some(shares) = &mut level.class_shares {
            shares.charge(class, work_seconds);
        }
    }

    /// Whether there is anything to learn from an event of `class` that ends now.
    #[inline]
    pub(crate) fn wants(&self, now: Timestamp, class: ClassId) -> bool {
        self.level(class).trim.wants(now)
    }

    /// Learns from an event whose response time was `ratio` of its target.
    pub(crate) fn learn(&mut self, now: Timestamp, class: ClassId, ratio: f64, percentile: f64) {
        self.level_mut(class).trim.learn(now, ratio, percentile);
    }

    pub(crate) fn on_tick(
        &mut self,
        now: Timestamp,
        backlog: &Backlog<'_>,
        means: &[f64],
        drain: f64,
        pace: BatchPace,
    ) {
        for index in 0..self.level_of.len() {
            let class = ClassId::new(index);
            let wait = if backlog.has_idle_worker() {
                0.0
            } else {
                self.wait(now, class, backlog, means, drain, pace).queue
            };
            self.observe(now, class, wait);
        }
        for level in &mut self.levels {
            level.trim.on_tick(now);
        }
    }

    /// Judges each level by the least of the targets that its classes have now. Their rooms are
    /// others then.
    pub(crate) fn set_targets(&mut self, classes: &Classes) {
        for (index, level) in self.levels.iter_mut().enumerate() {
            let targets = self.level_of.iter().zip(classes.targets());
            let on_level = targets.filter(|&(&of, _)| usize::from(of) == index);
            if let Some(least) = on_level.map(|(_, target)| target.response_time()).min() {
                level.set_target(least);
            }
            level.class_shares.iter_mut().for_each(|shares| shares.set_target(classes.longest()));
        }
    }

    /// Until told otherwise, every class has time for any wait.
    pub(crate) fn forget_rooms(&mut self) {
        self.rooms.fill(f64::INFINITY);
        self.levels.iter_mut().for_each(|level| level.room = f64::INFINITY);
    }

    /// `class` has time for a wait of `room` seconds and no more.
    pub(crate) fn lower_room(&mut self, class: ClassId, room: f64) {
        self.rooms[class.index()] = room;
        let level = self.level_mut(class);
        level.room = level.room.min(room);
    }

    /// From now on queues are bounded by what service leaves of the targets.
    pub(crate) fn fit_spans(&mut self) {
        for (index, span) in self.spans.iter_mut().enumerate() {
            let level = &self.levels[usize::from(self.level_of[index])];
            *span = level.span_of(self.rooms[index]);
        }
        for level in &mut self.levels {
            level.set_span(level.span_of(level.room));
        }
    }

    /// θ of the level of `class`.
    pub(crate) fn gate_share(&self, class: ClassId) -> f64 {
        self.level(class).gate.share()
    }

    /// a of the level of `class`.
    pub(crate) fn client_share(&self, class: ClassId) -> f64 {
        self.level(class).client_share.ratio()
    }

    /// The same among its classes, if these have weights.
    pub(crate) fn class_share(&self, class: ClassId) -> Option<f64> {
        self.level(class).class_shares.as_ref().map(ClassShares::ratio)
    }

    /// g of the level of `class`.
    pub(crate) fn correction(&self, class: ClassId) -> f64 {
        self.level(class).trim.correction()
    }

    /// Which end of the queue to serve: the newest event still has its time before
    /// it where it was let in to overtake, or where the oldest has used up its own
    /// while a gate is narrow.
    pub(crate) fn order(&self, head_age: Duration) -> Order {
        let target = self.levels.iter().map(|level| level.target).fold(f64::INFINITY, f64::min);
        let narrow = self.levels.iter().any(|level| level.gate.share() < 1.0);
        let old = narrow && seconds(head_age) > NEWEST_FIRST_AGE * target;
        let overtaking = || self.levels.iter().any(|level| level.overtaking);
        if old || overtaking() { Order::NewestFirst } else { Order::OldestFirst }
    }

    fn sum_loads(&mut self) {
        let mut above = 0.0;
        for level in &mut self.levels {
            level.load_above = above;
            above += level.load;
        }
    }

    fn level(&self, class: ClassId) -> &Level {
        &self.levels[usize::from(self.level_of[class.index()])]
    }

    fn level_mut(&mut self, class: ClassId) -> &mut Level {
        &mut self.levels[usize::from(self.level_of[class.index()])]
    }
}

impl Level {
    fn new(target: Duration, standing: f64, class_shares: Option<ClassShares>) -> Self {
        Self {
            gate: Gate::new(target, standing),
            trim: Trim::new(),
            client_share: FairShare::new(standing * target.as_secs_f64(), clients::SHARE_MIN),
            kept: KeptRoom::default(),
            class_shares,
            target: target.as_secs_f64(),
            room: f64::INFINITY,
            span: target.as_secs_f64(),
            admitted: 0.0,
            load: 0.0,
            load_above: 0.0,
            joined: Timestamp::ZERO,
            overtaking: false,
        }
    }

    fn set_target(&mut self, target: Duration) {
        self.target = target.as_secs_f64();
        self.gate.set_target(target);
    }

    /// What the queue in front of a class with so much room is bounded by.
    fn span_of(&self, room: f64) -> f64 {
        let room = room.min(self.target);
        (SPAN_ROOMS * room * (room / self.target)).min(self.target)
    }

    fn set_span(&mut self, span: f64) {
        self.span = span;
        let standing = self.gate.standing_wait().min(span);
        self.client_share.set_standing(standing);
        self.class_shares.iter_mut().for_each(|shares| shares.set_standing(standing));
    }

    /// How long a second of work takes, as the levels above leave the stage over.
    #[inline]
    fn scale(&self, drain: f64) -> f64 {
        self.trim.correction() / (drain - self.load_above).max(SHARE_LEFT_MIN * drain)
    }

    /// The longest wait, in seconds, after which an event still keeps its promise.
    fn room(&self) -> f64 {
        self.room.min(self.target)
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Class, Priority, Target};

    use super::*;

    /// Classes of one level with a target of 1 s, whose service leaves so much of it each.
    fn with_rooms(rooms: &[f64]) -> Levels {
        let class = |index| Class {
            name: format!("class {index}"),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(0),
        };
        let classes = Classes::new((0..rooms.len()).map(class).collect()).unwrap();
        let mut levels = Levels::new(&classes, 0.2);
        for (index, &room) in rooms.iter().enumerate() {
            levels.lower_room(ClassId::new(index), room);
        }
        levels.fit_spans();
        levels
    }

    fn is_standing(levels: &Levels, class: usize, queue: f64) -> bool {
        levels.is_standing(ClassId::new(class), Wait { queue, total: queue, overtakes: false }, 1.0)
    }

    #[test]
    fn short_service_leaves_all_of_its_room_to_the_queue() {
        let levels = with_rooms(&[0.7]);
        assert!(!is_standing(&levels, 0, 0.7));
        assert!(is_standing(&levels, 0, 0.71));
    }

    #[test]
    fn long_service_leaves_the_queue_less_than_its_room() {
        // 1.5 · 0.4² = 0.24
        let levels = with_rooms(&[0.4]);
        assert!(!is_standing(&levels, 0, 0.239));
        assert!(is_standing(&levels, 0, 0.241));
    }

    #[test]
    fn a_short_queue_is_judged_by_the_room_of_its_own_class_while_none_stands() {
        let mut levels = with_rooms(&[0.4, 0.9]);
        // 0.1 s behind others, and until a worker is free.
        let behind = |total| Wait { queue: 0.1, total, overtakes: false };
        let [long, short] = [0, 1].map(ClassId::new);
        assert!(levels.is_standing(long, behind(0.41), 1.0));
        assert!(!levels.is_standing(short, behind(0.89), 1.0));
        assert!(levels.is_standing(short, behind(0.91), 1.0));
        // A fifth of the target is what a standing queue has; beyond it the least room holds.
        assert!(!is_standing(&levels, 1, 0.239));
        assert!(is_standing(&levels, 1, 0.241));
        // Nobody waited for less than 0.3 s in an interval.
        levels.observe(Timestamp::ZERO, ClassId::DEFAULT, 0.3);
        levels.observe(Timestamp::from_nanos(500_000_000), ClassId::DEFAULT, 0.3);
        assert!(levels.is_standing(short, behind(0.41), 1.0));
    }
}
