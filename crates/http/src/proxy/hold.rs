//! How long a request holds its place in the gate.

use std::task::Context;
use std::time::Duration;

use tamarisk_stage::GatePermit;

use crate::deadline::Deadline;

/// After so much of its body an answer counts as ready: from here on its pace
/// is the client's and the network's. It is what hyper takes in without waiting
/// for the client, so a slow client never holds a place.
const READY_BYTES: usize = 64 * 1024;

/// An answer that is not ready so long after its body first paused is a stream (of
/// events, say): it leaves the gate, and its time says nothing.
const STREAM_TIME: Duration = Duration::from_secs(5);

/// A permit, from the head of an answer to the moment it counts as ready.
pub(super) struct Hold {
    permit: Option<GatePermit>,
    /// The answer says by its status that the upstream did not do its work.
    failed: bool,
    bytes: usize,
    patience: Deadline,
}

impl Hold {
    pub(super) fn new(permit: GatePermit, failed: bool) -> Self {
        Self { permit: Some(permit), failed, bytes: 0, patience: Deadline::default() }
    }

    /// So many bytes of the body have come.
    pub(super) fn passes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > READY_BYTES {
            self.ends();
        }
    }

    /// The upstream has nothing for now.
    pub(super) fn waits(&mut self, cx: &mut Context<'_>) {
        if self.permit.is_some()
            && self.patience.poll_over(STREAM_TIME, cx).is_ready()
            && let Some(mut permit) = self.permit.take()
        {
            permit.untimed();
            permit.complete();
        }
    }

    /// The answer is ready.
    pub(super) fn ends(&mut self) {
        match self.permit.take() {
            Some(permit) if self.failed => permit.fail(),
            Some(permit) => permit.complete(),
            None => {}
        }
    }

    /// The upstream broke off.
    pub(super) fn fails(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.fail();
        }
    }
}
