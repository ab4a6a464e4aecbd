//! The kinds of laws that can be tuned.

use clap::ValueEnum;
use tamarisk_catalogue::{ADMISSION, BATCHING, DROPPING, QUALITY, TERMINATION, WORKERS};
use tamarisk_control::{AdmissionLaw, BatchLaw, QualityLaw, TerminationLaw, WorkersLaw};
use tamarisk_laws::named::Entry;
use tamarisk_laws::{Laws, Named};
use tamarisk_model::scenario::File;

use super::super::places::Places;

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

    /// Where a law of this kind stands: at the stages that name one, else at all of `places`.
    pub(super) fn stages<'a>(&self, places: &'a Places) -> Vec<&'a str> {
        let own = places.iter().filter(|(_, laws)| (self.of)(laws).is_some());
        let own: Vec<_> = own.map(|(stage, _)| &**stage).collect();
        if own.is_empty() { places.iter().map(|(stage, _)| &**stage).collect() } else { own }
    }

    /// The same with `law` at each of its [stages](Self::stages).
    pub(super) fn at_all(&self, places: &Places, law: &Named<L>) -> Places {
        let stages = self.stages(places);
        let with = |(stage, laws): &(String, Laws)| {
            let mut laws = laws.clone();
            if stages.contains(&&**stage) {
                (self.put)(&mut laws, law.clone());
            }
            (stage.clone(), laws)
        };
        places.iter().map(with).collect()
    }

    /// The scenario as it is if it names laws of this kind, else with `law` where one would stand.
    pub(super) fn before(&self, places: &Places, law: &Named<L>) -> Places {
        let is_named = places.iter().any(|(_, laws)| (self.of)(laws).is_some());
        if is_named { places.clone() } else { self.at_all(places, law) }
    }

    /// The law of this name as the scenario has it.
    pub(super) fn stated(&self, file: &File, name: &str) -> Option<Named<L>> {
        let mut stated = file.laws.iter().filter_map(|(_, laws)| (self.of)(laws));
        stated.find(|law| law.name() == name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_model::scenario;

    use super::super::super::places::places;
    use super::*;

    #[test]
    fn before_the_search_every_stage_has_the_law_that_it_states() {
        let text = "duration = \"1s\"\np90 = \"1s\"\n\
             [stages.front]\nservice = \"1ms\"\nworkers = 1\nto = { middle = 1.0 }\n\
             admission = { law = \"threshold\", queued_count = 5 }\n\
             [stages.middle]\nservice = \"1ms\"\nto = { db = 1.0 }\n\
             workers = { law = \"pool-sizing\" }\ncoordination = \"independent\"\n\
             [stages.db]\nservice = \"1ms\"\nworkers = 1\n\
             admission = { law = \"threshold\", queued_count = 50 }\n\
             [clients.crowd]\nopen = \"1/s\"\nenter = \"front\"\n";
        let file = scenario::parse("three stages", text).unwrap();
        let (places, kind) = (places(&file), admission());
        let first = kind.stated(&file, "threshold").unwrap();
        assert_eq!(kind.before(&places, &first), file.laws);
        let mut stages = kind.stages(&places);
        stages.sort_unstable();
        assert_eq!(stages, ["db", "front"]);

        let other = tamarisk_catalogue::admission("codel").unwrap().named();
        let after = kind.at_all(&places, &other);
        let named = |stage: &str| {
            let (_, laws) = after.iter().find(|(name, _)| name == stage).unwrap();
            (laws.admission.as_ref().map(Named::name), laws.workers.as_ref().map(Named::name))
        };
        assert_eq!(named("front"), (Some("codel"), None));
        assert_eq!(named("db"), (Some("codel"), None));
        assert_eq!(named("middle"), (None, Some("pool-sizing")));
    }
}
