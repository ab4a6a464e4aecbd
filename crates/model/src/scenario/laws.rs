//! Laws by name.

use tamarisk_control::{
    AdmissionLaw, Classes, Multiclass, OpaqueUpstream, Open, PredictGateTrim, ResponseTime,
};

/// An admission law that can be named.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionEntry {
    /// As [`AdmissionLaw::name`].
    pub name: &'static str,
    /// In one line.
    pub summary: &'static str,
    make: fn(&Classes) -> Box<dyn AdmissionLaw>,
}

impl AdmissionEntry {
    /// The law with its default constants.
    pub fn law(&self, classes: &Classes) -> Box<dyn AdmissionLaw> {
        (self.make)(classes)
    }
}

/// All of them.
pub const ADMISSION: &[AdmissionEntry] = &[
    AdmissionEntry { name: "open", summary: "admits everything", make: |_| Box::new(Open) },
    AdmissionEntry {
        name: "predict-gate-trim",
        summary: "admits what will be in time",
        make: |classes| Box::new(PredictGateTrim::new(classes)),
    },
    AdmissionEntry {
        name: "opaque-upstream",
        summary: "the same before what cannot be seen into",
        make: |classes| Box::new(OpaqueUpstream::new(classes)),
    },
    AdmissionEntry {
        name: "response-time",
        summary: "adapts a rate to the measured percentile",
        make: |classes| Box::new(ResponseTime::new(classes)),
    },
    AdmissionEntry {
        name: "multiclass",
        summary: "the same, lower classes first",
        make: |classes| Box::new(Multiclass::new(classes)),
    },
];

/// The admission law of this name.
pub fn admission(name: &str) -> Option<&'static AdmissionEntry> {
    ADMISSION.iter().find(|entry| entry.name == name)
}
