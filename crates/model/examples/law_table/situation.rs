//! The situations: a file in `scenarios/` each, and what is measured there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tamarisk_model::scenario;
use tamarisk_model::sim::{Report, Scenario};

use crate::Failure;
use crate::timeline::Pattern;

/// A load that the laws are put under.
pub(crate) struct Situation {
    pub(crate) title: &'static str,
    /// Its name in `scenarios/`.
    pub(crate) file: &'static str,
    /// What of the file is its overload.
    pub(crate) pattern: Pattern,
    /// For which constants a tuned law has.
    pub(crate) width: Width,
    /// Whether everything that comes can be answered in time.
    pub(crate) bearable: bool,
    /// One more column.
    pub(crate) more: Option<Column>,
}

/// How many workers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Up to 64.
    Narrow,
    /// 400.
    Wide,
}

/// The title of a column, and what stands there.
pub(crate) type Column = (&'static str, fn(&Report) -> f64);

/// A step: from `calm` times the load of the file to that load.
const fn step_from(calm: f64, title: &'static str, file: &'static str) -> Situation {
    let pattern = Pattern::Constant { calm };
    Situation { title, file, pattern, width: Width::Narrow, bearable: false, more: None }
}

/// A step that the file has.
const fn step(title: &'static str, file: &'static str) -> Situation {
    let pattern = Pattern::Step;
    Situation { title, file, pattern, width: Width::Narrow, bearable: false, more: None }
}

/// So many seconds of the file, again and again.
const fn part(from: u64, until: u64, title: &'static str, file: &'static str) -> Situation {
    let pattern = Pattern::Part(Duration::from_secs(from)..Duration::from_secs(until));
    Situation { title, file, pattern, width: Width::Narrow, bearable: false, more: None }
}

pub(crate) const SITUATIONS: [Situation; 21] = [
    part(15, 75, "3 → 1000 → 3 users, 8 workers", "spike"),
    step_from(0.03, "Ten times the capacity, 8 workers", "ten-fold"),
    part(10, 130, "A ramp to three times the capacity and back", "ramp"),
    step("Bimodal service, twice the capacity", "bimodal"),
    part(10, 110, "Service that drifts to three times as long", "drift"),
    step("A rare and long type, twice the capacity", "rare-type"),
    part(20, 80, "A dependency that is five times as slow for 30 s", "slow-dependency"),
    step("Two stages on the cores of one machine", "one-bottleneck"),
    Situation { width: Width::Wide, ..step_from(0.15, "400 workers, twice the capacity", "wide") },
    step("Service of a third of the target, twice the capacity", "third-of-target"),
    step("Service of six tenths of the target, twice the capacity", "most-of-target"),
    step("Service of nine tenths of the target, twice the capacity", "all-of-target"),
    part(15, 75, "Bursts of three times the capacity, and clients who ask again", "retries"),
    step_from(
        0.15,
        "Pages of twenty calls that are of use only whole, twice the capacity",
        "fan-out",
    ),
    Situation {
        more: Some(("gold ÷ possible", gold_of_possible)),
        ..step_from(0.075, "Two classes, four times the capacity", "two-classes")
    },
    Situation {
        more: Some(("gold ÷ possible", gold_of_possible)),
        ..step("Ten times the capacity, a fifth of it gold", "ten-fold-classes")
    },
    Situation {
        more: Some(("gold ÷ possible", gold_of_possible)),
        ..step("Ten times the capacity, a fiftieth of it gold", "ten-fold-few-gold")
    },
    Situation {
        more: Some(("Jain's index of the others", fairness_of_others)),
        ..step("One client of twenty asks for a hundred times its share", "greedy-client")
    },
    Situation {
        more: Some(("the heavier's part, 0.75 by weight", part_of_the_heavier)),
        ..step("Two classes with weights of 3 and 1", "weights")
    },
    Situation {
        bearable: true,
        ..step_from(0.375, "0.8 of the capacity, four kinds of work", "calm")
    },
    Situation {
        width: Width::Wide,
        bearable: true,
        ..step_from(0.375, "0.8 of the capacity, 400 workers", "wide-calm")
    },
];

impl Situation {
    /// What the file says, and at which stages a law stands.
    pub(crate) fn load(&self) -> Result<(Scenario, Vec<String>), Failure> {
        let file = scenario::load(&self.path())?;
        Ok((file.scenario, file.laws.into_iter().map(|(stage, _)| stage).collect()))
    }

    pub(crate) fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        folder.join(self.file).with_extension("toml")
    }
}

/// Gold in time, of what was asked for or of 400 a second, whichever is less.
fn gold_of_possible(report: &Report) -> f64 {
    let gold = &report.classes[0];
    let seconds = report.measured.as_secs_f64();
    gold.goodput() / (gold.counts.offered as f64 / seconds).min(400.0)
}

/// Of 20 ms and of 40 ms each; in parts of what both have.
fn part_of_the_heavier(report: &Report) -> f64 {
    let [heavy, light] = [0, 1].map(|index| report.classes[index].goodput());
    heavy / (heavy + 2.0 * light).max(f64::MIN_POSITIVE)
}

/// The first flow is the greedy one.
fn fairness_of_others(report: &Report) -> f64 {
    Report::fairness(&report.flows[1..])
}
