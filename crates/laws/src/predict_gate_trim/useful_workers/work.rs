//! The work completed in an observation window, weighted by class.

use std::time::Duration;

use tamarisk_control::{ClassId, Timestamp};

use super::super::service_model::ServiceModel;
use super::output::Output;

/// An observation window says something from so many completions on …
const COMPLETIONS: u32 = 64;
/// … and from so many that they are no burst.
const COMPLETIONS_FEW: u32 = 8;

/// An observation window in which events are counted by what their class takes: a change
/// of the mix of classes is none of the output.
#[derive(Clone, Debug)]
pub(super) struct Work {
    began: Timestamp,
    /// When the last event was done.
    observed: Timestamp,
    completions: u32,
    /// Completions before which somebody found all workers busy.
    pressed: u32,
    service_seconds: f64,
    /// Events done, of average length.
    events: f64,
    /// What an event of each class takes, in parts of what the average one does.
    weights: Box<[f64]>,
}

impl Work {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            began: Timestamp::ZERO,
            observed: Timestamp::ZERO,
            completions: 0,
            pressed: 0,
            service_seconds: 0.0,
            events: 0.0,
            weights: vec![1.0; classes].into(),
        }
    }

    /// A new window begins, with the same weights.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.began = now;
        self.observed = now;
        self.completions = 0;
        self.pressed = 0;
        self.service_seconds = 0.0;
        self.events = 0.0;
    }

    /// From now on an event of each class counts by what it takes according to `model`.
    pub(super) fn weigh(&mut self, model: &ServiceModel) {
        let average = model.stage_mean().max(1e-9);
        for (weight, mean) in self.weights.iter_mut().zip(model.means()) {
            *weight = mean / average;
        }
    }

    /// An event of `class` has been done after `service`; `pressed` if since the one before
    /// somebody found all workers busy.
    pub(super) fn complete(
        &mut self,
        now: Timestamp,
        class: ClassId,
        service: Duration,
        pressed: bool,
    ) {
        self.observed = self.observed.max(now);
        self.completions = self.completions.saturating_add(1);
        self.pressed = self.pressed.saturating_add(u32::from(pressed));
        self.service_seconds += service.as_secs_f64();
        self.events += self.weights[class.index()];
    }

    /// A window is either pressed or not: whether a completion makes it another one. It stays
    /// pressed while somebody found all workers busy before seven of eight completions or more.
    pub(super) fn changes_by(&self, pressed: bool) -> bool {
        match (self.is_unpressed(), pressed) {
            (true, pressed) => pressed && self.completions > 0,
            (false, true) => false,
            (false, false) => u64::from(self.pressed) * 8 < u64::from(self.completions) * 7,
        }
    }

    pub(super) fn done(&self) -> Output {
        Output { events: self.events, seconds: self.length() }
    }

    /// In seconds, to the last completion.
    fn length(&self) -> f64 {
        self.observed.since(self.began).as_secs_f64()
    }

    /// How long an event took, in seconds, on average.
    pub(super) fn service(&self) -> f64 {
        self.service_seconds / f64::from(self.completions.max(1))
    }

    /// At no completion had anybody found all workers busy.
    #[inline]
    pub(super) fn is_unpressed(&self) -> bool {
        self.pressed == 0
    }

    /// At less than a quarter of the completions had anybody.
    pub(super) fn is_slack(&self) -> bool {
        u64::from(self.pressed) * 4 < u64::from(self.completions)
    }

    /// Whether it is a window to decide by.
    pub(super) fn speaks(&self) -> bool {
        self.completions >= COMPLETIONS && self.is_no_burst()
    }

    /// Whether it is long enough for a burst of completions not to look like output.
    pub(super) fn is_no_burst(&self) -> bool {
        self.completions >= COMPLETIONS_FEW && self.length() >= self.service()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn complete(work: &mut Work, millis: u64, pressed: bool) {
        work.complete(at(millis), ClassId::DEFAULT, Duration::from_millis(100), pressed);
    }

    #[test]
    fn a_clock_that_steps_back_shortens_nothing() {
        let mut work = Work::new(1);
        work.begin(at(100));
        complete(&mut work, 200, false);
        complete(&mut work, 50, false);
        assert_eq!(work.done(), Output { events: 2.0, seconds: 0.1 });
        assert_eq!(work.service(), 0.1);
    }

    #[test]
    fn it_is_slack_below_a_quarter_and_changes_below_seven_of_eight() {
        let pressed = |count: u32| {
            let mut work = Work::new(1);
            (0..100).for_each(|index| complete(&mut work, index.into(), index < count));
            (work.is_unpressed(), work.is_slack(), work.changes_by(false))
        };
        assert_eq!(pressed(0), (true, true, false));
        assert_eq!(pressed(24), (false, true, true));
        assert_eq!(pressed(25), (false, false, true));
        assert_eq!(pressed(87), (false, false, true));
        assert_eq!(pressed(88), (false, false, false));
    }
}
