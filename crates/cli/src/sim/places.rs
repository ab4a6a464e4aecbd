//! Chooses the stages at which laws are compared.

use tamarisk_control::AdmissionLaw;
use tamarisk_laws::catalogue::{Laws, Named};
use tamarisk_model::scenario::File;

/// Stages and their laws.
pub(super) type Places = Vec<(String, Laws)>;

/// The stages at which laws are compared.
pub(super) fn places(file: &File) -> Places {
    if !file.laws.is_empty() {
        return file.laws.clone();
    }
    let mut entries: Vec<_> = file.scenario.clients.iter().map(|c| c.entry.clone()).collect();
    entries.sort_unstable();
    entries.dedup();
    entries.into_iter().map(|entry| (entry, Laws::new())).collect()
}

/// The same with `law` at all doors, and none that drops besides.
pub(super) fn at_all(places: &Places, law: &Named<dyn AdmissionLaw>) -> Places {
    let with = |laws: &Laws| Laws { admission: Some(law.clone()), dropping: None, ..laws.clone() };
    places.iter().map(|(stage, laws)| (stage.clone(), with(laws))).collect()
}
