//! The work completed in an observation window, weighted by class.

use std::time::Duration;

use tamarisk_control::{Backlog, ClassId, Timestamp};

use super::super::service_model::ServiceModel;
use super::output::Output;
use crate::observation_window::ObservationWindow;

/// An observation window says something from so many completions on …
const COMPLETIONS: u32 = 64;
/// … and from so many that they are no burst.
const COMPLETIONS_FEW: u32 = 8;

/// An observation window in which events are counted by what their class takes: a change
/// of the mix of classes is none of the output.
#[derive(Clone, Debug)]
pub(super) struct Work {
    window: ObservationWindow,
    /// Events done, of average length.
    events: f64,
    /// What an event of each class takes, in parts of what the average one does.
    weights: Box<[f64]>,
}

impl Work {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            window: ObservationWindow::default(),
            events: 0.0,
            weights: vec![1.0; classes].into(),
        }
    }

    /// A new window begins, with the same weights.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.window = ObservationWindow::beginning(now);
        self.events = 0.0;
    }

    /// From now on an event of each class counts by what it takes according to `model`.
    pub(super) fn weigh(&mut self, model: &ServiceModel) {
        let average = model.stage_mean().max(1e-9);
        for (weight, mean) in self.weights.iter_mut().zip(model.means()) {
            *weight = mean / average;
        }
    }

    /// An event of `class` has been done after `service` and is no longer counted in
    /// `backlog`; `pressed` if since the one before somebody found all workers busy.
    pub(super) fn complete(
        &mut self,
        now: Timestamp,
        class: ClassId,
        service: Duration,
        backlog: &Backlog<'_>,
        pressed: bool,
    ) {
        let running = backlog.running_total.saturating_add(1);
        self.window.observe(now, running, backlog.workers.get());
        self.window.complete(service.as_secs_f64(), pressed);
        self.events += self.weights[class.index()];
    }

    /// A window is either pressed or not: whether a completion makes it another one.
    pub(super) fn changes_by(&self, pressed: bool) -> bool {
        match (self.window.is_unpressed(), pressed) {
            (true, pressed) => pressed && self.window.completions() > 0,
            (false, true) => false,
            (false, false) => !self.window.is_mostly_pressed(),
        }
    }

    pub(super) fn done(&self) -> Output {
        Output { events: self.events, seconds: self.window.length() }
    }

    /// In seconds, on average.
    pub(super) fn service(&self) -> f64 {
        self.window.service()
    }

    /// At no completion had anybody found all workers busy.
    pub(super) fn is_unpressed(&self) -> bool {
        self.window.is_unpressed()
    }

    /// At less than a quarter of the completions had anybody.
    pub(super) fn is_slack(&self) -> bool {
        self.window.is_slack()
    }

    /// Whether it is a window to decide by.
    pub(super) fn speaks(&self) -> bool {
        self.window.completions() >= COMPLETIONS && self.is_no_burst()
    }

    /// Whether it is long enough for a burst of completions not to look like output.
    pub(super) fn is_no_burst(&self) -> bool {
        self.window.completions() >= COMPLETIONS_FEW
            && self.window.length() >= self.window.service()
    }
}
