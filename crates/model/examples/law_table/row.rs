//! The rows of the tables: each admission law of the catalogue, and some once more with constants
//! that fit.

use tamarisk_catalogue::{ADMISSION, admission};
use tamarisk_control::{AdmissionLaw, Classes};
use tamarisk_laws::Named;
use tamarisk_laws::named::AdmissionEntry;

use crate::Failure;
use crate::situation::{Situation, Width};

/// A law, and the constants that it has.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    entry: &'static AdmissionEntry,
    tuned: Option<Tuned>,
}

/// What `sim tune` found in `scenarios/tune-narrow.toml` and `tune-wide.toml`, which have another
/// capacity than any situation, with the seeds 1001 to 1006.
#[derive(Clone, Copy)]
struct Tuned {
    law: &'static str,
    narrow: &'static [(&'static str, f64)],
    wide: &'static [(&'static str, f64)],
}

/// The laws whose published constants do not fit a target of 200 ms or 400 workers.
const TUNED: [Tuned; 5] = [
    Tuned { law: "threshold", narrow: &[("queued_count", 16.0)], wide: &[("queued_count", 45.0)] },
    Tuned {
        law: "vegas",
        narrow: &[
            ("limit_min_count", 23.0),
            ("limit_initial_count", 73.0),
            ("limit_max_count", 1191.0),
        ],
        wide: &[
            ("limit_min_count", 434.0),
            ("limit_initial_count", 1588.0),
            ("limit_max_count", 18_916.0),
        ],
    },
    Tuned {
        law: "gradient2",
        narrow: &[("limit_max_count", 22.0)],
        // As good as what the tuner finds now (14, 292, 359), and no narrower than 400 workers.
        wide: &[
            ("limit_min_count", 46.0),
            ("limit_initial_count", 511.0),
            ("limit_max_count", 10_898.0),
        ],
    },
    Tuned {
        law: "min-rtt-gradient",
        narrow: &[
            ("limit_min_count", 17.0),
            ("limit_initial_count", 49.0),
            ("limit_max_count", 1684.0),
        ],
        wide: &[
            ("limit_min_count", 258.0),
            ("limit_initial_count", 1283.0),
            ("limit_max_count", 37_211.0),
        ],
    },
    // Of the wide ones the tuner found none that are better than what is published.
    Tuned {
        law: "codel",
        narrow: &[("wait_target_seconds", 0.000_001), ("interval_seconds", 0.009_525)],
        wide: &[],
    },
];

/// Those that are of most interest come first in a long run; the others follow as in the catalogue.
const FIRST: [&str; 15] = [
    "predict-gate-trim",
    "plain-queue",
    "work-limit",
    "gradient2",
    "vegas",
    "dagor",
    "response-time",
    "service-codel",
    "adaptive-lifo",
    "multiclass",
    "p",
    "red",
    "threshold",
    "min-rtt-gradient",
    "pi-shedding",
];

/// Nothing bounds their queues. A queue of a million places takes minutes to simulate, and says no
/// more than [`QUEUE_MAX`]; they come last.
const LAST: [&str; 4] = ["codel", "open", "rate-limit", "cpu-shedding"];

/// Places in the queue under a law that bounds none: at least 20 s in every situation, which is
/// beyond every target.
const QUEUE_MAX: u32 = 20_000;

/// All of them, in the order of the catalogue; what is tuned stands behind what is not.
///
/// # Errors
/// If a law or a constant that is tuned does not exist.
pub(crate) fn rows() -> Result<Vec<Row>, Failure> {
    for tuned in TUNED {
        let entry = admission(tuned.law).ok_or("a law that is tuned does not exist")?;
        for constants in [tuned.narrow, tuned.wide] {
            named(entry, constants)?;
        }
    }
    let with_tuned = |entry: &'static AdmissionEntry| {
        let tuned = TUNED.iter().filter(|tuned| tuned.law == entry.name);
        let tuned = tuned.map(move |tuned| Row { entry, tuned: Some(*tuned) });
        std::iter::once(Row { entry, tuned: None }).chain(tuned)
    };
    Ok(ADMISSION.iter().flat_map(with_tuned).collect())
}

impl Row {
    pub(crate) fn name(&self) -> String {
        let tuned = if self.tuned.is_some() { ", tuned" } else { "" };
        format!("{}{tuned}", self.entry.name)
    }

    pub(crate) fn is_default(&self) -> bool {
        self.name() == FIRST[0]
    }

    /// 0 for the first in a long run.
    pub(crate) fn rank(&self) -> usize {
        let place = |names: &[&str]| names.iter().position(|name| *name == self.entry.name);
        let other = || FIRST.len() + place(&LAST).map_or(0, |last| 1 + last);
        2 * place(&FIRST).unwrap_or_else(other) + usize::from(self.tuned.is_some())
    }

    /// How many places the queue has, if the stage's own number is too many.
    pub(crate) fn queue_max(&self) -> Option<u32> {
        LAST.contains(&self.entry.name).then_some(QUEUE_MAX)
    }

    /// The law and its constants in this situation.
    pub(crate) fn named(&self, situation: &Situation) -> Named<dyn AdmissionLaw> {
        let constants = self.tuned.map_or(&[][..], |tuned| match situation.width {
            Width::Narrow => tuned.narrow,
            Width::Wide => tuned.wide,
        });
        named(self.entry, constants).expect("they were checked when the rows were made")
    }

    pub(crate) fn law(&self, situation: &Situation, classes: &Classes) -> Box<dyn AdmissionLaw> {
        self.named(situation).make(classes).expect("the constants of a row go together")
    }
}

fn named(
    entry: &'static AdmissionEntry,
    constants: &[(&str, f64)],
) -> Result<Named<dyn AdmissionLaw>, Failure> {
    let mut named = entry.named();
    for &(knob, value) in constants {
        named.set(knob, value)?;
    }
    Ok(named)
}
