//! What slow laws set, and how it is shown.

use tamarisk_laws::{Knobs, Laws};
use tamarisk_model::sim::StageReport;

use super::runs::{Arrangement, Runs};

/// One of the things that slow laws set.
pub(super) struct Knob {
    /// In tables.
    pub(super) name: &'static str,
    /// In files, with its unit.
    pub(super) column: &'static str,
    /// Over figures.
    pub(super) title: &'static str,
    pub(super) value: fn(&Knobs) -> f64,
    /// Its mean over time.
    pub(super) mean: fn(&StageReport) -> f64,
    is_ruled: fn(&Laws) -> bool,
}

pub(super) const KNOBS: [Knob; 3] = [
    Knob {
        name: "workers",
        column: "workers_count",
        title: "Workers",
        value: |knobs| f64::from(knobs.workers.get()),
        mean: |stage| stage.workers,
        is_ruled: |laws| laws.workers.is_some(),
    },
    Knob {
        name: "batch",
        column: "batch_events_count",
        title: "Events that a worker takes at once, at most",
        value: |knobs| f64::from(knobs.batch.get()),
        mean: |stage| stage.batch,
        is_ruled: |laws| laws.batching.is_some(),
    },
    Knob {
        name: "quality",
        column: "quality_ratio",
        title: "Quality",
        value: |knobs| knobs.quality.get(),
        mean: |stage| stage.quality,
        is_ruled: |laws| laws.quality.is_some(),
    },
];

impl Knob {
    /// Whether a law of `arrangement` sets it at `stage`.
    pub(super) fn is_ruled(&self, arrangement: &Arrangement, stage: &str) -> bool {
        let mut laws = arrangement.laws.iter().filter(|(name, _)| name == stage);
        laws.any(|(_, laws)| (self.is_ruled)(laws))
    }

    /// The stages at which a law of any arrangement sets it, by their place in the scenario.
    pub(super) fn stages(&self, runs: &Runs) -> Vec<usize> {
        let stages = runs.scenario.stages.iter().enumerate();
        let ruled = stages.filter(|(_, stage)| {
            runs.arrangements.iter().any(|laws| self.is_ruled(laws, &stage.name))
        });
        ruled.map(|(index, _)| index).collect()
    }
}

/// Whether a law of any arrangement ends running events.
pub(super) fn terminates(runs: &Runs) -> bool {
    let mut laws = runs.arrangements.iter().flat_map(|arrangement| &arrangement.laws);
    laws.any(|(_, laws)| laws.termination.is_some())
}
