//! Decisions about many events at the cost of one.

use super::{Arrival, Backlog, Finished, Waiting};
use crate::Timestamp;

/// Decides about events that are alike and come together.
///
/// `false` decides nothing: the stage asks the law about one event after the other. So
/// `true` is right only where each of these answers would have been positive.
pub trait BatchDecisions {
    /// Whether to admit `count` events like `arrival`, at least two, as binding as
    /// [`Decision::Admit`](crate::Decision::Admit) for each.
    fn admits_all(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool;

    /// Whether to run `count` events of one class that are next; none entered before
    /// `waiting`, and none is due before it.
    fn runs_all(
        &mut self,
        now: Timestamp,
        waiting: &Waiting,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool;

    /// `count` events that entered, ran and ended together; `backlog` counts none of
    /// them any more.
    fn on_finish_all(
        &mut self,
        now: Timestamp,
        finished: &Finished,
        count: u32,
        backlog: &Backlog<'_>,
    );
}
