//! The kinds of laws that can be tuned.

use clap::ValueEnum;
use tamarisk_control::{AdmissionLaw, BatchLaw, QualityLaw, TerminationLaw, WorkersLaw};
use tamarisk_laws::catalogue::{
    ADMISSION, BATCHING, DROPPING, Entry, Laws, Named, QUALITY, TERMINATION, WORKERS,
};
use tamarisk_model::scenario::File;

use super::super::places::{Places, places};

/// What the law rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Rules {
    /// Who may enter
    Admission,
    /// What is dropped from the queue besides
    Dropping,
    /// How many events are worked on at once
    Workers,
    /// How many events a worker takes at once
    Batching,
    /// How well events are served
    Quality,
    /// How long events may run
    Termination,
}

/// Where laws of one kind stand among those of a stage.
pub(super) struct Kind<L: ?Sized + 'static> {
    /// As a scenario's key.
    pub(super) rules: &'static str,
    /// Those that can be.
    pub(super) entries: Vec<&'static Entry<L>>,
    of: fn(&Laws) -> Option<&Named<L>>,
    put: fn(&mut Laws, Named<L>),
}

/// The law at the door takes the place of one that drops besides, too.
pub(super) fn admission() -> Kind<dyn AdmissionLaw> {
    Kind {
        rules: "admission",
        entries: ADMISSION.iter().collect(),
        of: |laws| laws.admission.as_ref(),
        put: |laws, law| (laws.admission, laws.dropping) = (Some(law), None),
    }
}

pub(super) fn dropping() -> Kind<dyn AdmissionLaw> {
    Kind {
        rules: "dropping",
        entries: ADMISSION.iter().filter(|law| DROPPING.contains(&law.name)).collect(),
        of: |laws| laws.dropping.as_ref(),
        put: |laws, law| laws.dropping = Some(law),
    }
}

pub(super) fn workers() -> Kind<dyn WorkersLaw> {
    Kind {
        rules: "workers",
        entries: WORKERS.iter().collect(),
        of: |laws| laws.workers.as_ref(),
        put: |laws, law| laws.workers = Some(law),
    }
}

pub(super) fn batching() -> Kind<dyn BatchLaw> {
    Kind {
        rules: "batching",
        entries: BATCHING.iter().collect(),
        of: |laws| laws.batching.as_ref(),
        put: |laws, law| laws.batching = Some(law),
    }
}

pub(super) fn quality() -> Kind<dyn QualityLaw> {
    Kind {
        rules: "quality",
        entries: QUALITY.iter().collect(),
        of: |laws| laws.quality.as_ref(),
        put: |laws, law| laws.quality = Some(law),
    }
}

pub(super) fn termination() -> Kind<dyn TerminationLaw> {
    Kind {
        rules: "termination",
        entries: TERMINATION.iter().collect(),
        of: |laws| laws.termination.as_ref(),
        put: |laws, law| laws.termination = Some(law),
    }
}

impl<L: ?Sized> Kind<L> {
    /// Those of the catalogue that are chosen by name.
    pub(super) fn find(&self, name: &str) -> Option<&'static Entry<L>> {
        self.entries.iter().copied().find(|entry| entry.name == name)
    }

    /// The same stages with `law` at each.
    pub(super) fn at_all(&self, places: &Places, law: &Named<L>) -> Places {
        let with = |(stage, laws): &(String, Laws)| {
            let mut laws = laws.clone();
            (self.put)(&mut laws, law.clone());
            (stage.clone(), laws)
        };
        places.iter().map(with).collect()
    }

    /// The law of this name as the scenario has it.
    pub(super) fn stated(&self, file: &File, name: &str) -> Option<Named<L>> {
        let mut stated = file.laws.iter().filter_map(|(_, laws)| (self.of)(laws));
        stated.find(|law| law.name() == name).cloned()
    }

    /// The stages that name a law of this kind, else those that name any, else where
    /// clients enter.
    pub(super) fn places(&self, file: &File) -> Places {
        let all = places(file);
        let own: Places =
            all.iter().filter(|(_, laws)| (self.of)(laws).is_some()).cloned().collect();
        if own.is_empty() { all } else { own }
    }
}
