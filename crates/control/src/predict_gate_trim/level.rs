//! Priority levels: each waits behind itself and those above it, and for nobody else.

use std::time::Duration;

use super::gate::Gate;
use super::trim::Trim;
use crate::{Backlog, ClassId, Classes, Timestamp};

/// However busy the levels above are, a level is assumed to get this share of
/// the stage, so that its predicted wait stays finite.
const SHARE_LEFT_MIN: f64 = 0.02;

/// The levels, most important first, and which one each class is on.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    level_of: Box<[u8]>,
    levels: Box<[Level]>,
    least_target_seconds: f64,
}

#[derive(Clone, Debug)]
struct Level {
    gate: Gate,
    trim: Trim,
    /// The least target of its classes: what its queue is judged by.
    target_seconds: f64,
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
    pub(crate) fn new(classes: &Classes, standing: f64) -> Self {
        let mut priorities: Vec<_> = classes.iter().map(|(_, class)| class.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let level_of = classes.iter().map(|(_, class)| {
            priorities.partition_point(|&priority| priority < class.priority) as u8
        });
        let levels = priorities.iter().map(|&priority| {
            let target = classes
                .iter()
                .filter(|(_, class)| class.priority == priority)
                .map(|(_, class)| class.target.response_time())
                .min()
                .unwrap_or(Duration::MAX);
            Level {
                gate: Gate::new(target, standing),
                trim: Trim::new(),
                target_seconds: target.as_secs_f64(),
                admitted: 0.0,
                load: 0.0,
                load_above: 0.0,
            }
        });
        let levels: Box<[_]> = levels.collect();
        let least_target_seconds =
            levels.iter().map(|level| level.target_seconds).fold(f64::INFINITY, f64::min);
        Self { level_of: level_of.collect(), levels, least_target_seconds }
    }

    /// How long an event of `class` that arrives now will wait: the work queued
    /// on its level and those above, and one worker's share of what is running,
    /// over what the levels above leave of `drain`.
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
        for ((counts, &mean), &of) in counts.zip(means).zip(&self.level_of) {
            let ahead = if of <= own { *counts.0 } else { 0 };
            queued += f64::from(ahead) * mean;
            running += f64::from(*counts.1) * mean;
        }
        let left = (drain - level.load_above).max(SHARE_LEFT_MIN * drain);
        let scale = level.trim.correction() / left;
        let residual = running / f64::from(backlog.running_total.max(1));
        Wait { queue: scale * queued, total: scale * (queued + residual) }
    }

    /// Takes note of the wait in the queue of the level of `class`.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, class: ClassId, wait_seconds: f64) {
        let index = self.level_of[class.index()];
        self.observe_level(now, usize::from(index), wait_seconds);
    }

    fn observe_level(&mut self, now: Timestamp, index: usize, wait_seconds: f64) {
        let level = &mut self.levels[index];
        if let Some(elapsed) = level.gate.observe(now, wait_seconds) {
            let load = level.admitted / elapsed.as_secs_f64().max(1e-9);
            level.load = (level.load + load) / 2.0;
            level.admitted = 0.0;
            let mut above = 0.0;
            for level in &mut self.levels {
                level.load_above = above;
                above += level.load;
            }
        }
    }

    /// Counts `work_seconds` of `class` as admitted.
    #[inline]
    pub(crate) fn admitted(&mut self, class: ClassId, work_seconds: f64) {
        self.levels[usize::from(self.level_of[class.index()])].admitted += work_seconds;
    }

    pub(crate) fn record(&mut self, now: Timestamp, class: ClassId, ratio: f64, percentile: f64) {
        self.level_mut(class).trim.record(now, ratio, percentile);
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

    /// θ of the level of `class`.
    #[inline]
    pub(crate) fn gate_share(&self, class: ClassId) -> f64 {
        self.level(class).gate.share()
    }

    /// g of the level of `class`.
    pub(crate) fn correction(&self, class: ClassId) -> f64 {
        self.level(class).trim.correction()
    }

    /// The target in seconds that the queue of the level of `class` is judged by.
    #[inline]
    pub(crate) fn target(&self, class: ClassId) -> f64 {
        self.level(class).target_seconds
    }

    pub(crate) fn least_target(&self) -> f64 {
        self.least_target_seconds
    }

    pub(crate) fn any_gate_narrowed(&self) -> bool {
        self.levels.iter().any(|level| level.gate.share() < 1.0)
    }

    fn level(&self, class: ClassId) -> &Level {
        &self.levels[usize::from(self.level_of[class.index()])]
    }

    fn level_mut(&mut self, class: ClassId) -> &mut Level {
        &mut self.levels[usize::from(self.level_of[class.index()])]
    }
}
