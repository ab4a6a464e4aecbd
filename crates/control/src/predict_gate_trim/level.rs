//! Priority levels: each waits behind itself and those above it, and for nobody else.
//!
//! The stage serves a higher level first, so a level sees a faster or slower
//! stage of its own: its queue is the events of its level and of those above,
//! and what drains it is what the levels above leave over. Each level therefore
//! has its own gate and its own trim. With one priority for all there is one level.

use std::time::Duration;

use super::gate::Gate;
use super::trim::Trim;
use crate::{Backlog, ClassId, Classes, Timestamp};

/// However busy the levels above are, a level is taken to get this share of the
/// stage, so that its predicted wait stays finite.
const SHARE_LEFT_MIN: f64 = 0.02;

/// The levels, most important first, and which one each class is on.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    level_of: Box<[u8]>,
    levels: Box<[Level]>,
    least_target: f64,
}

#[derive(Clone, Debug)]
struct Level {
    gate: Gate,
    trim: Trim,
    /// The least target of its classes, in seconds: its queue is judged by it.
    target: f64,
    /// The longest wait, in seconds, that leaves every class of the level time to
    /// be served. Beyond it classes with time to spare would fill the queue, and
    /// keep those without from ever entering it.
    room: f64,
    /// Seconds of work admitted since the gate's interval began.
    admitted: f64,
    /// Seconds of work admitted a second, of late.
    load: f64,
    /// The sum of `load` over the levels above.
    load_above: f64,
}

/// A predicted wait, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Behind events in the queue.
    pub(crate) queue: f64,
    /// The same, and until a worker is free.
    pub(crate) total: f64,
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
                Level::new(targets.min().unwrap_or(Duration::MAX), standing)
            })
            .collect();
        let least_target = levels.iter().map(|level| level.target).fold(f64::INFINITY, f64::min);
        Self { level_of: level_of.collect(), levels, least_target }
    }

    /// How long an event of `class` that arrives now will wait, for a stage that
    /// gets through `drain` seconds of work a second.
    ///
    /// Until the first of c equal workers is free takes a c-th of what one of
    /// them takes for a running event: exact if service is exponential.
    #[inline]
    pub(crate) fn wait(
        &self,
        class: ClassId,
        backlog: &Backlog<'_>,
        means: &[f64],
        drain: f64,
    ) -> Wait {
        let own = self.level_of[class.index()];
        let level = &self.levels[usize::from(own)];
        let (mut queued, mut running) = (0.0, 0.0);
        let counts = backlog.queued.iter().zip(backlog.running);
        for (((&in_queue, &in_work), &mean), &of) in counts.zip(means).zip(&self.level_of) {
            let ahead = if of <= own { in_queue } else { 0 };
            queued += f64::from(ahead) * mean;
            running += f64::from(in_work) * mean;
        }
        let left = (drain - level.load_above).max(SHARE_LEFT_MIN * drain);
        let scale = level.trim.correction() / left;
        let until_free = running / f64::from(backlog.running_total.max(1));
        Wait { queue: scale * queued, total: scale * (queued + until_free) }
    }

    /// Whether a queue that means such a wait is more than the level may have.
    #[inline]
    pub(crate) fn is_standing(&self, class: ClassId, wait: Wait) -> bool {
        let level = self.level(class);
        wait.queue > level.gate.share() * level.target || wait.total > level.room
    }

    /// Takes note of the wait in the queue of the level of `class`.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, class: ClassId, wait_seconds: f64) {
        let level = self.level_mut(class);
        if let Some(interval) = level.gate.observe(now, wait_seconds) {
            let load = level.admitted / interval.as_secs_f64();
            level.load = f64::midpoint(level.load, load);
            level.admitted = 0.0;
            self.sum_loads();
        }
    }

    /// Counts `work_seconds` of `class` as admitted.
    #[inline]
    pub(crate) fn admit(&mut self, class: ClassId, work_seconds: f64) {
        self.level_mut(class).admitted += work_seconds;
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
    ) {
        for index in 0..self.level_of.len() {
            let class = ClassId::new(index);
            let wait = if backlog.has_idle_worker() {
                0.0
            } else {
                self.wait(class, backlog, means, drain).queue
            };
            self.observe(now, class, wait);
        }
        for level in &mut self.levels {
            level.trim.on_tick(now);
        }
    }

    /// Until told otherwise, every class has time for any wait.
    pub(crate) fn forget_rooms(&mut self) {
        self.levels.iter_mut().for_each(|level| level.room = f64::INFINITY);
    }

    /// `class` has time for a wait of `room` seconds and no more.
    pub(crate) fn lower_room(&mut self, class: ClassId, room: f64) {
        let level = self.level_mut(class);
        level.room = level.room.min(room);
    }

    /// θ of the level of `class`.
    pub(crate) fn gate_share(&self, class: ClassId) -> f64 {
        self.level(class).gate.share()
    }

    /// g of the level of `class`.
    pub(crate) fn correction(&self, class: ClassId) -> f64 {
        self.level(class).trim.correction()
    }

    pub(crate) fn greatest_correction(&self) -> f64 {
        self.levels.iter().map(|level| level.trim.correction()).fold(0.0, f64::max)
    }

    /// In seconds, over all levels.
    pub(crate) fn least_target(&self) -> f64 {
        self.least_target
    }

    pub(crate) fn any_gate_is_narrow(&self) -> bool {
        self.levels.iter().any(|level| level.gate.share() < 1.0)
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
    fn new(target: Duration, standing: f64) -> Self {
        Self {
            gate: Gate::new(target, standing),
            trim: Trim::new(),
            target: target.as_secs_f64(),
            room: f64::INFINITY,
            admitted: 0.0,
            load: 0.0,
            load_above: 0.0,
        }
    }
}
