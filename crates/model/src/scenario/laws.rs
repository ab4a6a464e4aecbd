//! Laws by their names, with the constants that a file changes.

use tamarisk_control::catalogue::{ADMISSION, AdmissionEntry, GLOBAL, InvalidKnob, Knob, Named};
use tamarisk_control::{AdmissionLaw, Classes, GlobalLaw};
use tamarisk_settings::{Fault, Section, Value, values};

/// A law of the catalogue, with constants of one's own.
#[derive(Clone, Debug)]
pub struct Law {
    entry: &'static AdmissionEntry,
    knobs: Vec<(&'static str, f64)>,
}

impl From<&'static AdmissionEntry> for Law {
    /// With its default constants.
    fn from(entry: &'static AdmissionEntry) -> Self {
        Self { entry, knobs: Vec::new() }
    }
}

impl Law {
    /// The law `entry` with some constants of one's own.
    ///
    /// # Errors
    /// [`InvalidKnob`] says which cannot be.
    pub fn new(
        entry: &'static AdmissionEntry,
        classes: &Classes,
        knobs: &[(&str, f64)],
    ) -> Result<Self, InvalidKnob> {
        entry.law_with(classes, knobs)?;
        let own = |name: &str| entry.knobs.iter().find(|knob| knob.name == name);
        let knobs = knobs.iter().filter_map(|&(name, value)| Some((own(name)?.name, value)));
        Ok(Self { entry, knobs: knobs.collect() })
    }

    /// Its name and what it can be given.
    pub const fn entry(&self) -> &'static AdmissionEntry {
        self.entry
    }

    /// The constants that are not left as they are.
    pub fn knobs(&self) -> &[(&'static str, f64)] {
        &self.knobs
    }

    /// What `knob` is set to.
    pub fn value(&self, knob: &Knob) -> f64 {
        let own = self.knobs.iter().rev().find(|(name, _)| *name == knob.name);
        own.map_or(knob.default, |(_, value)| *value)
    }

    /// The law itself. Classes for which its constants cannot be leave it the default ones.
    pub fn make(&self, classes: &Classes) -> Box<dyn AdmissionLaw> {
        let law = self.entry.law_with(classes, &self.knobs);
        law.unwrap_or_else(|_| self.entry.law(classes))
    }
}

/// `"codel"`, or `{ name = "red", queue_min_count = 10 }`.
pub(super) fn law(value: &Value<'_>, classes: &Classes) -> Result<Law, Fault> {
    let names: Vec<_> = ADMISSION.iter().map(|entry| entry.name).collect();
    let named = |value: &Value<'_>| Ok(&ADMISSION[values::one_of(value, "law", &names)?]);
    if value.get_ref().is_str() {
        return Ok(named(value)?.into());
    }
    let name = Section::new(value, &["name"], |_| true)?.require("name", "\"codel\"", named)?;
    let known: Vec<_> = name.knobs.iter().map(|knob| knob.name).chain(["name"]).collect();
    let section = Section::new(value, &known, |_| false)?;
    let mut knobs = Vec::new();
    for knob in name.knobs {
        knobs.extend(section.read(knob.name, |value| constant(value, knob))?);
    }
    Law::new(name, classes, &knobs).map_err(|error| {
        Fault::new(value.span(), error.to_string(), "expected constants that go together")
    })
}

/// `{ law = "global-controller", period_seconds = 0.5 }`.
pub(super) fn global(value: &Value<'_>) -> Result<Named<dyn GlobalLaw>, Fault> {
    let names: Vec<_> = GLOBAL.iter().map(|entry| entry.name).collect();
    let named = |value: &Value<'_>| Ok(&GLOBAL[values::one_of(value, "global law", &names)?]);
    let section = Section::new(value, &["law"], |_| true)?;
    let entry = section.require("law", "\"global-controller\"", named)?;
    let known: Vec<_> = entry.knobs.iter().map(|knob| knob.name).chain(["law"]).collect();
    let section = Section::new(value, &known, |_| false)?;
    let mut law = entry.named();
    for knob in entry.knobs {
        if let Some((name, own)) = section.read(knob.name, |value| constant(value, knob))? {
            law.set(name, own).expect("its range has been checked");
        }
    }
    Ok(law)
}

fn constant(value: &Value<'_>, knob: &Knob) -> Result<(&'static str, f64), Fault> {
    let expected = format!("a number from {} to {}: {}", knob.least, knob.greatest, knob.summary);
    let number = values::float(value, &expected)?;
    if (knob.least..=knob.greatest).contains(&number) {
        return Ok((knob.name, number));
    }
    let message = format!("{} cannot be {number}", knob.name);
    Err(Fault::new(value.span(), message, format!("expected {expected}")))
}
