//! What a stage shows: its accounts, times and laws at one instant.

mod drain_report;
mod edge;
mod histogram;
mod ledger;
mod observation;
mod profile;
mod recorder;
mod senders;
mod windows;

pub use drain_report::DrainReport;
pub(crate) use edge::EdgeCounters;
pub use histogram::TimeHistogram;
pub use ledger::{Accounts, Outcome};
pub(crate) use ledger::{Ledger, WithoutPlace};
pub use observation::{ClassObservation, LawObservation, LawReading, Phase, StageObservation};
pub use profile::{Profile, ServiceProfile};
pub(crate) use recorder::{EventNanos, Observer};
pub use senders::SenderObservation;
pub(crate) use senders::Senders;
pub use windows::Percentiles;
