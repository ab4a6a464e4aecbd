//! What a handler may know and do about the event it runs.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Ratio, Timestamp};

use crate::call::{CallError, Reply, Request, note_terminated};
use crate::entry::Entry;
use crate::observe::StageObservation;
use crate::queue::EventMetadata;
use crate::sink::{Envelope, SendError, Sink};
use crate::termination::{EventId, Terminated};
use crate::worker::Worker;

/// The event that is being run, seen from its handler.
#[derive(Clone)]
pub struct Context {
    worker: Arc<Worker>,
    meta: EventMetadata,
    sequence: u64,
}

impl Context {
    pub(crate) fn new(worker: &Arc<Worker>, meta: EventMetadata, sequence: u64) -> Self {
        Self { worker: Arc::clone(worker), meta, sequence }
    }

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
    /// it, by `?`, passes it to its own caller unchanged.
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
        let answer = sink.call_in(|request| self.envelope(request), body).await;
        answer.map_err(|error| error.further(sink.stage_name()))
    }

    /// Passes a request on to another stage, which answers its caller: with this event's
    /// class, deadline and flow, and with the reply. This event is done with that, whatever
    /// comes of the other. If the stage rejects it, the caller gets
    /// [`CallError::Further`] with the stage, the reason and when to retry.
    pub fn forward<Q, R>(&self, stage: &impl AsRef<Sink<Request<Q, R>>>, body: Q, reply: Reply<R>)
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let sink = stage.as_ref();
        let reply = reply.passed_on(sink.stage_name());
        let request = self.envelope(Request { body, reply }).reply(|request| &request.reply);
        if let Err(rejected) = sink.try_send(request) {
            let SendError { event: Request { reply, .. }, rejection } = rejected;
            reply.fail(CallError::Rejected(rejection));
        }
    }

    /// `event` with this event's class, deadline, flow and kind, to be sent on. The receiver counts
    /// it as sent by this stage.
    pub fn envelope<E>(&self, event: E) -> Envelope<E> {
        Envelope::new(event, self.meta.entry()).sent_by(&self.worker.origin)
    }

    /// While the guard lives the event is not terminated: for as long as
    /// something is held that must not be torn, or a response is being written.
    /// Once the event has ended there is nothing to shield.
    pub fn shield(&self) -> Shield {
        let raised = self.worker.slot.raise_shield(self.sequence);
        Shield { worker: raised.then(|| Arc::clone(&self.worker)), sequence: self.sequence }
    }

    /// The stage's law learns nothing from this event, neither its time nor how it ends: it waits for
    /// something that other events do not wait for, such as a lock of another program. Otherwise a
    /// stage that is idle again might reject what seems to take as long. Observations count it as any
    /// other.
    pub fn teach_nothing(&self) {
        if self.worker.slot.running() == Some(self.sequence) {
            self.worker.teach_nothing(self.sequence);
        }
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
