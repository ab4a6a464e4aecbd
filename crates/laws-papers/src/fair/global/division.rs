//! Divides the target of the graph among its stages.

use super::known::Known;

/// The least that counts as a change of a stage's target.
const MOVED: f64 = 0.05;

/// Which part of the promised time falls to each stage, as of the last time that one of them
/// moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    parts: Vec<Part>,
    /// κ.
    leeway: f64,
}

/// What a stage's targets are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    visits: f64,
    /// p_j, in seconds.
    percentile: f64,
    /// w_j.
    spare: f64,
}

impl Division {
    /// Of nothing yet, among so many stages.
    pub(super) fn of(stages: usize) -> Self {
        Self { parts: vec![Part::default(); stages], leeway: 1.0 }
    }

    /// Divides anew if any part has moved.
    pub(super) fn follow(&mut self, stages: &[Known], leeway: f64) {
        let whole: f64 = stages.iter().map(|stage| stage.visits * stage.used()).sum();
        let part = |stage: &Known| Part {
            visits: stage.visits,
            percentile: stage.percentile,
            spare: if whole > 0.0 { stage.used() / whole } else { 0.0 },
        };
        let mut both = self.parts.iter().zip(stages);
        let part_moved = both.any(|(before, stage)| before.differs(&part(stage)));
        if part_moved || moved(self.leeway, leeway) {
            self.leeway = leeway;
            self.parts.iter_mut().zip(stages).for_each(|(kept, stage)| *kept = part(stage));
        }
    }

    /// w_j.
    pub(super) fn spare(&self, stage: usize) -> Option<f64> {
        self.parts.get(stage).map(|part| part.spare)
    }

    /// R_j in seconds for a promise of `promise` seconds; `None` if nothing comes there.
    pub(super) fn target(&self, stage: usize, promise: f64) -> Option<f64> {
        let part = self.parts.get(stage).filter(|part| part.spare > 0.0)?;
        let whole = promise * self.leeway;
        let served: f64 = self.parts.iter().map(|part| part.visits * part.percentile).sum();
        Some(if served < whole {
            part.percentile + (whole - served) * part.spare
        } else {
            whole * part.percentile / served
        })
    }
}

impl Part {
    fn differs(&self, now: &Self) -> bool {
        moved(self.visits, now.visits)
            || moved(self.percentile, now.percentile)
            || moved(self.spare, now.spare)
    }
}

fn moved(before: f64, now: f64) -> bool {
    (now - before).abs() > MOVED * before
}
