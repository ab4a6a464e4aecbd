//! How long a request holds its place in the gate.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
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
pub(crate) struct Hold {
    permit: Option<GatePermit>,
    /// The answer says by its status that the upstream did not do its work.
    failed: bool,
    bytes: usize,
    patience: Deadline,
}

impl Hold {
    pub(crate) fn new(permit: GatePermit, failed: bool) -> Self {
        Self { permit: Some(permit), failed, bytes: 0, patience: Deadline::default() }
    }

    /// Follows what a poll of the answer's body has brought.
    pub(crate) fn follow<E>(
        &mut self,
        polled: &Poll<Option<Result<Frame<Bytes>, E>>>,
        cx: &mut Context<'_>,
    ) {
        match polled {
            Poll::Pending => self.waits(cx),
            Poll::Ready(Some(Err(_))) => self.breaks(),
            Poll::Ready(Some(Ok(frame))) if frame.is_data() => {
                self.passes(frame.data_ref().map_or(0, Bytes::len));
            }
            Poll::Ready(Some(Ok(_)) | None) => self.ends(),
        }
    }

    /// The answer is ready.
    pub(crate) fn ends(&mut self) {
        match self.permit.take() {
            Some(permit) if self.failed => permit.fail(),
            Some(permit) => permit.complete(),
            None => {}
        }
    }

    fn passes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > READY_BYTES {
            self.ends();
        }
    }

    fn waits(&mut self, cx: &mut Context<'_>) {
        if self.permit.is_some()
            && self.patience.poll_over(STREAM_TIME, cx).is_ready()
            && let Some(mut permit) = self.permit.take()
        {
            permit.untimed();
            permit.complete();
        }
    }

    fn breaks(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.fail();
        }
    }
}
