//! The targets of each kind, and which of them can be kept.

use tamarisk_control::{Classes, Priority};

use super::kinds::{Kind, Kinds};
use super::streams::ToFirstData;
use super::window::Window;

/// Service that takes longer than its target cannot be had within it. Then, and only then, the
/// answer is given as soon as can be: within so many times the unhurried service.
const BEST_EFFORT: f64 = 3.0;

/// A kind that takes more than so many targets is none that the target was meant for: nobody
/// learns from its long stay what others will take.
const FAR_BEYOND: f64 = 10.0;
/// After so many times its target or its usual response an event counts no longer.
const PARK: f64 = 3.0;

/// So many answers speak for a kind.
const ANSWERS_MIN: f64 = 4.0;

/// The targets of the classes, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Promises {
    targets: Box<[f64]>,
    /// Which share of answers is promised to be in time.
    percentiles: Box<[f64]>,
    priorities: Box<[Priority]>,
}

/// How late the answers of a window were: the longest mean response of any kind, in parts of
/// what can be kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    /// Of all kinds.
    pub(super) any: f64,
    /// Of those that took clearly longer than unhurried.
    pub(super) hurried: f64,
}

impl Promises {
    pub(super) fn new(classes: &Classes) -> Self {
        let targets = classes.targets().map(|target| target.response_time().as_secs_f64());
        let percentiles = classes.targets().map(|target| target.at().get());
        Self {
            targets: targets.collect(),
            percentiles: percentiles.collect(),
            priorities: classes.iter().map(|(_, class)| class.priority).collect(),
        }
    }

    /// Who goes first: the lower first.
    pub(super) fn priority(&self, kind: &Kind) -> Priority {
        self.priorities[kind.class.index()]
    }

    /// The target of a kind.
    pub(super) fn target(&self, kind: &Kind) -> f64 {
        self.targets[kind.class.index()]
    }

    /// The response that can be promised to a kind: its target, or more if its service alone takes
    /// longer.
    pub(super) fn kept(&self, kind: &Kind) -> f64 {
        // The first data of a stream says nothing of service, but of whether there is a place.
        let service = kind.service.known().filter(|_| kind.streams.is_none()).unwrap_or(0.0);
        let target = self.target(kind);
        if service <= target { target } else { BEST_EFFORT * service }
    }

    /// What is known of the time to the first data of a kind, and promised.
    pub(super) fn to_first_data(&self, kind: &Kind) -> ToFirstData {
        ToFirstData { unhurried: kind.service.unhurried(), promise: self.kept(kind) }
    }

    /// How long a kind may wait, after what its service leaves of its promise.
    pub(super) fn room(&self, kind: &Kind) -> f64 {
        let kept = self.kept(kind);
        (kept - kind.service.recent()).max(0.25 * kept)
    }

    /// After how long in service an event of this kind gives up its place.
    pub(super) fn park_after(&self, kind: &Kind) -> f64 {
        let (target, recent) = (self.target(kind), kind.service.recent());
        let usual = if recent <= FAR_BEYOND * target { target.max(recent) } else { target };
        PARK * usual
    }

    /// The share of a kind's answers that may be late.
    pub(super) fn may_be_late(&self, kind: &Kind) -> f64 {
        1.0 - self.percentiles[kind.class.index()]
    }

    /// The shortest target.
    pub(super) fn strictest(&self) -> f64 {
        self.targets.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn latest(&self, kinds: &Kinds, window: &Window) -> Late {
        /// So many times unhurried is clearly longer.
        const HURRIED: f64 = 1.35;
        let mut late = Late::default();
        for (row, kind) in kinds.iter() {
            let answers = window.of(row);
            let Some(unhurried) = kind.service.unhurried() else { continue };
            let Some(mean) = answers.mean(ANSWERS_MIN) else { continue };
            let share = mean / self.kept(kind);
            late.any = late.any.max(share);
            if mean > HURRIED * unhurried {
                late.hurried = late.hurried.max(share);
            }
        }
        late
    }
}
