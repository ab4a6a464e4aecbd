//! Sinks: the sending ends of a stage's queue.
//!
//! Their methods are named as those of channels. An event that is not admitted comes back with
//! the reason.

mod endpoint;
mod envelope;
mod global_law;
mod permit;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tamarisk_control::{Reason, Rejection, Timestamp};

use crate::any_stage::Origin;
use crate::call::{CallError, Cause, Reply, Request, with_cause};
use crate::core::Payload;
use crate::entry::Entry;
use crate::observe::{EdgeCounters, Phase};
use crate::queue::{EventMetadata, Queued};

pub(crate) use endpoint::Endpoint;
pub use endpoint::{AdmissionContext, Predicate};
pub use envelope::Envelope;
pub(crate) use global_law::SharedGlobalLaw;
pub use permit::{Permit, Reserve};

/// The enqueue end of a stage's queue, for senders that may wait; clones share
/// it. All that a [`TrySink`] can do, it can.
pub struct Sink<E: Send + 'static>(TrySink<E>);

/// The enqueue end of a stage's queue, for senders that must not wait: it has
/// no method that does. Clones share it.
pub struct TrySink<E: Send + 'static> {
    endpoint: Arc<Endpoint<E>>,
    /// Counts what crosses, where the sink is an edge of a graph.
    edge: Option<Arc<EdgeCounters>>,
}

/// An event that was not admitted, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rejected: {}", .rejection.reason)]
pub struct SendError<E> {
    /// The event, back with its sender.
    pub event: E,
    /// Which rule rejected it, and when to retry if that is known.
    pub rejection: Rejection,
}

impl<E: Send + 'static> Sink<E> {
    pub(crate) fn new(sink: TrySink<E>) -> Self {
        Self(sink)
    }

    pub(crate) fn stage_name(&self) -> &Arc<str> {
        &self.endpoint.core.name
    }

    /// Sends an event, waiting until the stage admits it: backpressure. The event counts as
    /// offered when it is admitted, or when the wait ends without admission.
    ///
    /// # Errors
    /// [`SendError`] if the stage is draining or closed, or the event's deadline passes.
    pub async fn send(&self, event: impl Into<Envelope<E>>) -> Result<(), SendError<E>> {
        let core = &self.endpoint.core;
        let mut envelope = event.into();
        let meta = core.metadata(core.clock.now(), &envelope.entry);
        envelope.entry.due = meta.entry().due;
        loop {
            let freed = core.freed();
            let (back, rejection) = match self.offer(envelope, OnRejection::Leave) {
                Ok(()) => return Ok(()),
                Err(rejected) => rejected,
            };
            let final_ = matches!(rejection.reason, Reason::Draining | Reason::Closed);
            if final_ || meta.deadline <= core.clock.now() {
                core.lock().reject(&meta, &rejection);
                self.count(back.sender.as_ref(), 0, 1);
                return Err(SendError { event: back.event, rejection });
            }
            envelope = back;
            core.room(freed, rejection.retry_after, meta.deadline).await;
        }
    }
}

impl<E: Send + 'static> TrySink<E> {
    pub(crate) fn new(endpoint: Arc<Endpoint<E>>) -> Self {
        Self { endpoint, edge: None }
    }

    /// The same sink, counting what crosses it.
    pub(crate) fn counted(endpoint: Arc<Endpoint<E>>, edge: Arc<EdgeCounters>) -> Self {
        Self { endpoint, edge: Some(edge) }
    }

    /// Makes the same sink again while its stage or another sink is there: it keeps neither.
    pub(crate) fn weak(&self) -> impl Fn() -> Option<Self> + Send + use<E> {
        let (endpoint, edge) = (Arc::downgrade(&self.endpoint), self.edge.clone());
        move || Some(Self { endpoint: endpoint.upgrade()?, edge: edge.clone() })
    }

    /// Sends an event if the stage admits it now; never waits.
    ///
    /// # Errors
    /// [`SendError`] with the event and the reason.
    pub fn try_send(&self, event: impl Into<Envelope<E>>) -> Result<(), SendError<E>> {
        let envelope = event.into();
        match self.offer(envelope, OnRejection::Count) {
            Ok(()) => Ok(()),
            Err((envelope, rejection)) => Err(SendError { event: envelope.event, rejection }),
        }
    }

    /// Sends an event and drops it if it is rejected; `true` if it was admitted.
    pub fn send_lossy(&self, event: impl Into<Envelope<E>>) -> bool {
        self.offer(event.into(), OnRejection::Count).is_ok()
    }

    /// Sends many events at the cost of little more than one. Returns those that
    /// were rejected, each with its reason; all were admitted if there are none.
    pub fn send_many<I>(&self, events: I) -> Vec<SendError<E>>
    where
        I: IntoIterator,
        I::Item: Into<Envelope<E>>,
    {
        // The iterator and the predicate are the caller's code: neither runs
        // under the lock, nor may a panic of theirs leave events unannounced.
        let events = events.into_iter().map(Into::into);
        if self.endpoint.has_predicate.load(Ordering::Acquire) || self.global_law().is_some() {
            let events: Vec<Envelope<E>> = events.collect();
            return events.into_iter().filter_map(|event| self.try_send(event).err()).collect();
        }
        let core = &self.endpoint.core;
        let entered = core.clock.now();
        // Events that are sent together come from one handler.
        let mut together_by = None;
        let arriving = events.map(|Envelope { event, entry, sender, caller }: Envelope<E>| {
            together_by = together_by.take().or(sender);
            Queued { meta: core.metadata(entered, &entry), item: Payload { event, caller } }
        });
        let arriving: Vec<_> = arriving.collect();
        let now = core.clock.now();
        let mut state = core.lock();
        let offered = arriving.len();
        let rejected = core.admit_many(&mut state, now, arriving);
        core.wake_worker(state);
        self.count(together_by.as_ref(), offered - rejected.len(), rejected.len());
        let rejected = rejected.into_iter();
        rejected.map(|(Payload { event, .. }, rejection)| SendError { event, rejection }).collect()
    }

    /// Reserves a place for an event that is still to be made.
    ///
    /// # Errors
    /// The rejection, if an event like this would be rejected.
    pub fn reserve(&self, entry: Entry) -> Result<Permit<E>, Rejection> {
        let core = &self.endpoint.core;
        let now = core.clock.now();
        let meta = core.metadata(now, &entry);
        let decision = self.ask(now, &meta, None);
        let mut state = core.lock();
        if let Err(rejection) = decision.and_then(|()| core.decide(&mut state, now, &meta)) {
            state.reject(&meta, &rejection);
            self.count(None, 0, 1);
            return Err(rejection);
        }
        state.ledger.reserve(meta.class);
        Ok(Permit { sink: self.clone(), meta, used: false })
    }

    /// How many events are in the queue, and places reserved there.
    pub fn len(&self) -> usize {
        self.endpoint.core.lock().ledger.queued()
    }

    /// Whether the queue is empty and nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the stage has been destroyed.
    pub fn is_closed(&self) -> bool {
        self.endpoint.core.phase() == Phase::Closed
    }

    /// Puts a predicate before the admission law, or takes it away. It runs in
    /// the sender, on each event, so it should be short.
    pub fn set_predicate(&self, predicate: Option<Predicate<E>>) {
        let mut current = self.endpoint.predicate.write();
        self.endpoint.has_predicate.store(predicate.is_some(), Ordering::Release);
        let before = std::mem::replace(&mut *current, predicate);
        // What it holds may use this sink when it is dropped.
        drop(current);
        drop(before);
    }

    /// The predicate in force, if any.
    pub fn predicate(&self) -> Option<Predicate<E>> {
        self.endpoint.predicate.read().clone()
    }

    fn offer(
        &self,
        envelope: Envelope<E>,
        on_rejection: OnRejection,
    ) -> Result<(), (Envelope<E>, Rejection)> {
        let core = &self.endpoint.core;
        let now = core.clock.now();
        let meta = core.metadata(now, &envelope.entry);
        let decision = self.ask(now, &meta, Some(&envelope.event));
        let mut state = core.lock();
        if let Err(rejection) = decision.and_then(|()| core.decide(&mut state, now, &meta)) {
            if on_rejection == OnRejection::Count {
                state.reject(&meta, &rejection);
                self.count(envelope.sender.as_ref(), 0, 1);
            }
            return Err((envelope, rejection));
        }
        state.ledger.enqueue(meta.class, 1);
        let Envelope { event, caller, sender, .. } = envelope;
        core.push(&mut state, meta, Payload { event, caller });
        core.wake_worker(state);
        self.count(sender.as_ref(), 1, 0);
        Ok(())
    }

    /// Asks the predicate, and the global law about what comes from outside of its graph.
    fn ask(
        &self,
        now: Timestamp,
        meta: &EventMetadata,
        event: Option<&E>,
    ) -> Result<(), Rejection> {
        self.endpoint.ask(meta, event)?;
        let Some(global_law) = self.global_law() else { return Ok(()) };
        // What cannot enter for another reason takes no part of what the law lets in.
        let core = &self.endpoint.core;
        core.check(&core.lock(), now, meta)?;
        global_law.ask(now)
    }

    /// The global law, unless the sink is an edge of the graph.
    fn global_law(&self) -> Option<&Arc<SharedGlobalLaw>> {
        if self.edge.is_some() { None } else { self.endpoint.global_law.get() }
    }

    /// Counts what crosses: on the edge if this is one, else by the stage that sent it.
    fn count(&self, sender: Option<&Arc<Origin>>, taken: usize, rejected: usize) {
        match (&self.edge, sender) {
            (Some(edge), _) => {
                edge.taken(taken);
                edge.rejected(rejected);
            }
            (None, Some(sender)) => {
                if self.endpoint.core.senders.count(&sender.name, taken, rejected) {
                    sender.receivers.add(Arc::downgrade(&self.endpoint) as _);
                }
            }
            (None, None) => {}
        }
    }
}

/// Whether a rejection is final and counts, or the sender will try again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnRejection {
    Count,
    Leave,
}

impl<Q: Send + 'static, R: Send + 'static> Sink<Request<Q, R>> {
    /// Sends a request and waits for its answer. Exactly one comes, always.
    ///
    /// # Errors
    /// [`CallError`] says why there is none.
    pub async fn call(&self, body: Q) -> Result<R, CallError> {
        self.call_as(body, Entry::new()).await
    }

    /// The same with a class, deadline, cost or flow.
    ///
    /// # Errors
    /// As [`Sink::call`].
    pub async fn call_as(&self, body: Q, entry: Entry) -> Result<R, CallError> {
        self.call_in(|request| Envelope::new(request, entry), body).await
    }

    /// The same in an envelope that `put` makes.
    pub(crate) async fn call_in(
        &self,
        put: impl FnOnce(Request<Q, R>) -> Envelope<Request<Q, R>>,
        body: Q,
    ) -> Result<R, CallError> {
        let (reply, answer) = Reply::new();
        let request = put(Request { body, reply }).reply(|request| &request.reply);
        if let Err(SendError { event, rejection }) = self.try_send(request) {
            // The reply dropped here is not the one of the handler that calls.
            with_cause(Cause::Rejected(rejection), || drop(event));
            return Err(CallError::Rejected(rejection));
        }
        answer.get().await
    }
}

impl<E: Send + 'static> AsRef<Self> for Sink<E> {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<E: Send + 'static> Deref for Sink<E> {
    type Target = TrySink<E>;

    fn deref(&self) -> &TrySink<E> {
        &self.0
    }
}

impl<E: Send + 'static> Clone for Sink<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Send + 'static> Clone for TrySink<E> {
    fn clone(&self) -> Self {
        Self { endpoint: Arc::clone(&self.endpoint), edge: self.edge.clone() }
    }
}

impl<E: Send + 'static> fmt::Debug for Sink<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: Send + 'static> fmt::Debug for TrySink<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("stage", &self.endpoint.core.name).finish_non_exhaustive()
    }
}
