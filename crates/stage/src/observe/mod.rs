//! What a stage shows: its accounts, times and laws at one instant.

mod histogram;
mod ledger;
mod observation;
mod profile;

pub use histogram::TimeHistogram;
pub use ledger::{Accounts, Outcome};
pub(crate) use ledger::{Aside, Ledger};
pub use observation::{
    ClassObservation, LawObservation, LawReading, Percentiles, Phase, StageObservation,
};
pub(crate) use observation::{EventNanos, Observer};
pub(crate) use profile::Profiler;
pub use profile::{Profile, ServiceProfile};
