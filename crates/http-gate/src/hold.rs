//! How long a request holds its permit of the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tamarisk_stage::GatePermit;

use crate::deadline::Deadline;
use crate::grpc::grpc_failure;

/// After so much of its body an answer counts as ready: from here on its pace
/// is the client's and the network's. It is what hyper takes in without waiting
/// for the client, so a slow client never holds a place.
pub const READY_BYTES: usize = 64 * 1024;

/// An answer that is not ready so long after its body first paused is a stream (of
/// events, say): it leaves the gate, and its time says nothing.
const STREAM_TIME: Duration = Duration::from_secs(5);

/// A permit, from the head of an answer to the moment it counts as ready.
pub struct Hold {
    permit: Option<GatePermit>,
    end: End,
    /// What it is, if it is held to its end.
    stream: Option<Stream>,
    bytes: usize,
    patience: Deadline,
    outcome: Option<HeldOutcome>,
}

/// What the accounts say of a request whose place is held, for whoever writes it down. Clones
/// share it.
#[derive(Clone, Debug)]
pub struct HeldOutcome(Arc<AtomicU8>);

/// Where the place is held still, [`OUTCOMES`] has what becomes of a request whose client leaves now.
const HELD: u8 = 0;
const COMPLETED: u8 = 1;
const FAILED: u8 = 2;
const TERMINATED: u8 = 3;
const OUTCOMES: [&str; 4] = ["terminated", "completed", "failed", "terminated"];

impl HeldOutcome {
    /// The answer is over for its client: what the accounts say of the request, or will say. If
    /// its place is held still, it counts as terminated from now on.
    pub fn settle(&self) -> &'static str {
        OUTCOMES[usize::from(self.decide(TERMINATED))]
    }

    /// The outcome: this one, unless another has been decided on before.
    fn decide(&self, outcome: u8) -> u8 {
        let order = Ordering::Relaxed;
        self.0.compare_exchange(HELD, outcome, order, order).err().unwrap_or(outcome)
    }
}

/// What the end of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The upstream did its work.
    Done,
    /// It did not, and why.
    Failed(String),
    /// Nothing: nobody waited for it.
    Abandoned,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stream {
    has_data: bool,
    is_suspended: bool,
}

impl Hold {
    /// Of an answer that counts as failed, `failure` says why.
    pub fn new(permit: GatePermit, failure: Option<String>) -> Self {
        let end = failure.map_or(End::Done, End::Failed);
        let (permit, patience) = (Some(permit), Deadline::default());
        Self { permit, end, stream: None, bytes: 0, patience, outcome: None }
    }

    /// What the accounts will say of the request.
    pub fn outcome(&mut self) -> HeldOutcome {
        self.outcome.get_or_insert_with(|| HeldOutcome(Arc::new(AtomicU8::new(HELD)))).clone()
    }

    /// It is a stream: it is answered with its first data, and holds its place to its end.
    pub fn streams(&mut self) {
        self.stream = Some(Stream::default());
    }

    /// Whether it holds its place to its end.
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether the answer is not ready.
    pub fn is_held(&self) -> bool {
        self.permit.is_some()
    }

    /// Follows what a poll of the answer's body has brought.
    pub fn follow<E>(
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
            Poll::Ready(Some(Ok(trailers))) => {
                if let Some(why) = trailers.trailers_ref().and_then(grpc_failure) {
                    self.fails(why);
                }
                self.ends();
            }
            Poll::Ready(None) => self.ends(),
        }
    }

    /// All of the answer is there, with so many bytes of data.
    pub fn completes(&mut self, bytes: usize) {
        self.passes(bytes);
        self.ends();
    }

    /// The answer is ready.
    pub fn ends(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let outcome = match self.end {
            End::Done => COMPLETED,
            End::Failed(_) => FAILED,
            End::Abandoned => TERMINATED,
        };
        match (self.outcome.as_ref().map_or(outcome, |it| it.decide(outcome)), &mut self.end) {
            (COMPLETED, _) => permit.complete(),
            (FAILED, End::Failed(why)) => permit.fail_because(std::mem::take(why)),
            _ => drop(permit),
        }
    }

    /// Nobody waits for the answer any more.
    pub fn abandon(&mut self) {
        self.end = End::Abandoned;
    }

    /// Whether it is the client that a stream waits for.
    pub fn set_suspended(&mut self, suspended: bool) {
        if let (Some(stream), Some(permit)) = (&mut self.stream, &mut self.permit)
            && stream.is_suspended != suspended
        {
            stream.is_suspended = suspended;
            if suspended { permit.suspend() } else { permit.resume() }
        }
    }

    fn passes(&mut self, bytes: usize) {
        let Some(stream) = &mut self.stream else {
            self.bytes = self.bytes.saturating_add(bytes);
            if self.bytes > READY_BYTES {
                self.ends();
            }
            return;
        };
        if !stream.has_data && bytes > 0 {
            stream.has_data = true;
            if let Some(permit) = &mut self.permit {
                permit.first_data();
            }
        }
    }

    fn waits(&mut self, cx: &mut Context<'_>) {
        if self.permit.is_some()
            && self.stream.is_none()
            && self.patience.poll_over(STREAM_TIME, cx).is_ready()
            && let Some(permit) = &mut self.permit
        {
            permit.untimed();
            self.ends();
        }
    }

    fn breaks(&mut self) {
        self.fails("closed the connection within its answer".to_owned());
        self.ends();
    }

    fn fails(&mut self, why: String) {
        if self.end != End::Abandoned {
            self.end = End::Failed(why);
        }
    }
}
