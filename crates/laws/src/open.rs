//! No control: the law named `none`, for comparison and for stages that something
//! else protects.

use tamarisk_control::{AdmissionLaw, Arrival, Backlog, Decision, Timestamp};

/// Admits everything. Under overload the queue grows without bound, or to the
/// bound of the stage, and every answer comes too late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl AdmissionLaw for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    #[inline]
    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }
}
