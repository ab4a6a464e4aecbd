//! What a handler may know and do about the event it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tamarisk_control::{ClassId, Ratio, Timestamp};

use crate::call::{CallError, Reply, Request, note_terminated};
use crate::clock::Clock;
use crate::observe::StageObservation;
use crate::queue::Meta;
use crate::sink::{Due, Entry, Envelope};
use crate::sink::{SendError, Sink};
use crate::termination::{EventId, Terminated, WorkerSlot};

/// The event that is being run, seen from its handler.
#[derive(Clone)]
pub struct Context {
    worker: Arc<Worker>,
    meta: Meta,
    sequence: u64,
}

/// A worker as it is seen from outside: by the contexts it hands out, by whoever
/// ends its events, by whoever asks what runs.
pub(crate) struct Worker {
    pub(crate) id: u64,
    pub(crate) slot: WorkerSlot,
    stage: Arc<dyn Observed>,
    /// When the running event is to end; [`Timestamp::MAX`] if at no set time.
    end: AtomicU64,
    entered: AtomicU64,
    class: AtomicU32,
    /// A reply was dropped unanswered while the running event was polled. Only the
    /// worker itself reads and writes it.
    unanswered: AtomicBool,
}

/// What contexts need of their stage, whatever it carries.
pub(crate) trait Observed: Send + Sync {
    fn observe(&self) -> StageObservation;
    fn clock(&self) -> &Clock;
    fn quality(&self, class: ClassId) -> Ratio;
}

/// An event that is being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// What to name when it is to be ended.
    pub id: EventId,
    /// Its class.
    pub class: ClassId,
    /// How long ago it entered the stage.
    pub age: Duration,
}

impl Context {
    /// The event's class.
    pub fn class(&self) -> ClassId {
        self.meta.class
    }

    /// When its answer stops being of use, on the stage's clock.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.meta.deadline()
    }

    /// How long is left until then.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.since(self.worker.stage.clock().now()))
    }

    /// The name of this run of the event, for [`Stage::terminate`](crate::Stage::terminate).
    pub fn id(&self) -> EventId {
        EventId { worker: self.worker.id, sequence: self.sequence }
    }

    /// The stage as it is now: what a handler that can do less looks at.
    pub fn observe(&self) -> StageObservation {
        self.worker.stage.observe()
    }

    /// How well events of this class are to be served now: 1 in full, less while a quality
    /// law has degraded the stage, and never less than the
    /// [least](crate::StageBuilder::least_quality) of the class. A handler that can do less
    /// does that much less.
    pub fn quality(&self) -> Ratio {
        self.worker.stage.quality(self.meta.class)
    }

    /// This event's class, deadline, flow and kind, to enter another stage or gate with.
    pub fn entry(&self) -> Entry {
        self.meta.entry()
    }

    /// Calls another stage with this event's class, deadline and flow, and waits for the
    /// answer. The worker waits too, as part of this event; where nothing is left to do
    /// with the answer, [`forward`](Self::forward) lets it take the next.
    ///
    /// # Errors
    /// [`CallError::Further`] with the stage and what happened there. A handler that returns
    /// it, by `?`, hands it to its own caller as it is.
    pub async fn call<Q, R>(
        &self,
        stage: &impl AsRef<Sink<Request<Q, R>>>,
        body: Q,
    ) -> Result<R, CallError>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let sink = stage.as_ref();
        let answer = sink.call_as(body, self.entry()).await;
        answer.map_err(|error| error.further(sink.stage_name()))
    }

    /// Passes a request on to another stage, which answers its caller: with this event's
    /// class, deadline and flow, and with the reply. This event is done with that, whatever
    /// comes of the other. If the stage does not admit it, the caller hears so:
    /// [`CallError::Further`] with the stage, the reason and when to retry.
    pub fn forward<Q, R>(&self, stage: &impl AsRef<Sink<Request<Q, R>>>, body: Q, reply: Reply<R>)
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let sink = stage.as_ref();
        let reply = reply.passed_on(sink.stage_name());
        if let Err(refused) = sink.try_send(self.envelope(Request { body, reply })) {
            let SendError { event: Request { reply, .. }, rejection } = refused;
            reply.fail(CallError::Rejected(rejection));
        }
    }

    /// `event` with this event's class, deadline, flow and kind, to be sent on.
    pub fn envelope<E>(&self, event: E) -> Envelope<E> {
        Envelope::new(event, self.meta.entry())
    }

    /// While the guard lives the event is not terminated: for as long as
    /// something is held that must not be torn, or a response is being written.
    /// Once the event has ended there is nothing to shield.
    pub fn shield(&self) -> Shield {
        let raised = self.worker.slot.raise_shield(self.sequence);
        Shield { worker: raised.then(|| Arc::clone(&self.worker)), sequence: self.sequence }
    }

    /// Where a blocking handler can be ended.
    ///
    /// # Errors
    /// [`Terminated`] if the event is to end: return it, after undoing what is half done.
    pub fn checkpoint(&self) -> Result<(), Terminated> {
        let slot = &self.worker.slot;
        if slot.running() != Some(self.sequence) {
            return Err(Terminated);
        }
        let end = self.worker.end();
        let overdue = || end != Timestamp::MAX && self.worker.stage.clock().now() >= end;
        if slot.is_due() || (!slot.is_shielded() && overdue()) {
            note_terminated();
            return Err(Terminated);
        }
        Ok(())
    }
}

/// Holds termination off; see [`Context::shield`].
#[must_use = "the shield is lowered when this is dropped"]
pub struct Shield {
    /// Whose event it shields, if it does.
    worker: Option<Arc<Worker>>,
    sequence: u64,
}

impl Drop for Shield {
    fn drop(&mut self) {
        if let Some(worker) = &self.worker {
            worker.slot.lower_shield(self.sequence);
        }
    }
}

impl Worker {
    pub(crate) fn new(id: u64, stage: Arc<dyn Observed>) -> Self {
        Self {
            id,
            slot: WorkerSlot::new(),
            stage,
            end: AtomicU64::new(u64::MAX),
            entered: AtomicU64::new(0),
            class: AtomicU32::new(0),
            unanswered: AtomicBool::new(false),
        }
    }

    /// The worker begins an event, which is to have ended at `end`.
    pub(crate) fn begin(&self, meta: &Meta, end: Timestamp) -> u64 {
        self.end.store(end.as_nanos(), Ordering::Relaxed);
        self.entered.store(meta.entered.as_nanos(), Ordering::Relaxed);
        self.class.store(meta.class.index() as u32, Ordering::Relaxed);
        self.slot.begin()
    }

    /// What a run of the handler told of the running event.
    pub(crate) fn note_unanswered(&self, unanswered: bool) {
        if unanswered {
            self.unanswered.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the event that ends let go of a reply.
    pub(crate) fn take_unanswered(&self) -> bool {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        if unanswered {
            self.unanswered.store(false, Ordering::Relaxed);
        }
        unanswered
    }

    pub(crate) fn end(&self) -> Timestamp {
        Timestamp::from_nanos(self.end.load(Ordering::Relaxed))
    }

    pub(crate) fn running(&self, now: Timestamp) -> Option<Running> {
        let sequence = self.slot.running()?;
        let entered = Timestamp::from_nanos(self.entered.load(Ordering::Relaxed));
        Some(Running {
            id: EventId { worker: self.id, sequence },
            class: ClassId::new(self.class.load(Ordering::Relaxed) as usize),
            age: now.since(entered),
        })
    }
}

pub(crate) fn context(worker: &Arc<Worker>, meta: Meta, sequence: u64) -> Context {
    Context { worker: Arc::clone(worker), meta, sequence }
}

impl Meta {
    /// What another stage is told of the event when it is sent on.
    pub(crate) fn entry(&self) -> Entry {
        let due = self.deadline().map_or(Due::Never, Due::At);
        let Self { class, cost, flow, kind, .. } = *self;
        Entry { class, due, cost, flow, kind }
    }
}
