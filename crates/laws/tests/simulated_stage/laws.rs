//! Lists of laws, for tables and tests that go through them.

use tamarisk_control::{AdmissionLaw, Classes};
use tamarisk_laws::{
    AdaptiveLifo, Bouncer, Codel, CpuShedding, Dagor, Gradient2, MinRttGradient, PiShedding, Red,
    ServiceCodel, Vegas,
};

pub type MakeLaw = fn(&Classes) -> Box<dyn AdmissionLaw>;

/// The laws from practice, with their published constants.
pub const PRACTICE: [(&str, MakeLaw); 11] = [
    ("codel", |_| Box::new(Codel::new())),
    ("service-codel", |_| Box::new(ServiceCodel::new())),
    ("adaptive-lifo", |_| Box::new(AdaptiveLifo::new())),
    ("red", |_| Box::new(Red::new())),
    ("vegas", |_| Box::new(Vegas::new())),
    ("gradient2", |_| Box::new(Gradient2::new())),
    ("min-rtt-gradient", |_| Box::new(MinRttGradient::new())),
    ("pi-shedding", |classes| Box::new(PiShedding::new(classes))),
    ("dagor", |classes| Box::new(Dagor::new(classes))),
    ("cpu-shedding", |_| Box::new(CpuShedding::new())),
    ("bouncer", |classes| Box::new(Bouncer::new(classes))),
];
