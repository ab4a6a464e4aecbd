//! What others know of a worker: the event that it runs, and its stage.

mod overdue;
mod registry;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tamarisk_control::{ClassId, Ratio, Timestamp};

use crate::any_stage::{Origin, Receivers};
use crate::call::{BoxError, Caller, RunsCalls, share};
use crate::clock::Clock;
use crate::core::{Core, Payload};
use crate::observe::StageObservation;
use crate::queue::EventMetadata;
use crate::termination::{EventId, WorkerSlot};

use overdue::{Attended, Schedule};
pub(crate) use registry::WorkerRegistry;
pub(crate) use watch::watch;

/// A worker, as contexts, terminations and observations of running events see it.
pub(crate) struct Worker {
    pub(crate) id: u64,
    pub(crate) slot: WorkerSlot,
    pub(crate) stage: Arc<dyn StageView>,
    /// A copy of the worker's own: workers on different cores do not share its count of references.
    pub(crate) origin: Arc<Origin>,
    /// When the running event is to end; [`Timestamp::MAX`] if at no set time.
    end: AtomicU64,
    entered: AtomicU64,
    class: AtomicU32,
    /// A reply was dropped unanswered while the running event was polled. Only the
    /// worker itself reads and writes it.
    unanswered: AtomicBool,
    /// The number of the event whose time teaches the law nothing, the latest of them.
    teaches_nothing: AtomicU64,
    /// Of a worker that blocks: when the watch looks at it, and who waits for its event.
    schedule: Option<Arc<Schedule>>,
    attended: Attended,
}

/// What contexts need of their stage, whatever it carries.
pub(crate) trait StageView: Send + Sync {
    fn name(&self) -> &str;
    fn receivers(&self) -> Arc<Receivers>;
    fn observe(&self) -> StageObservation;
    fn clock(&self) -> &Clock;
    fn quality(&self, class: ClassId) -> Ratio;
    /// Makes an error that a handler returned one that can be shared.
    fn share(&self, error: BoxError) -> BoxError;
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

impl Worker {
    /// `schedule` is that of the watch, if it blocks.
    pub(crate) fn new(id: u64, stage: Arc<dyn StageView>, schedule: Option<Arc<Schedule>>) -> Self {
        Self {
            id,
            origin: Arc::new(Origin { name: stage.name().into(), receivers: stage.receivers() }),
            slot: WorkerSlot::new(),
            stage,
            end: AtomicU64::new(u64::MAX),
            entered: AtomicU64::new(0),
            class: AtomicU32::new(0),
            unanswered: AtomicBool::new(false),
            teaches_nothing: AtomicU64::new(u64::MAX),
            schedule,
            attended: Attended::default(),
        }
    }

    /// The worker begins an event, which is to have ended at `end`.
    pub(crate) fn begin(&self, meta: &EventMetadata, end: Timestamp) -> u64 {
        self.end.store(end.as_nanos(), Ordering::Relaxed);
        self.entered.store(meta.entered.as_nanos(), Ordering::Relaxed);
        self.class.store(meta.class.index() as u32, Ordering::Relaxed);
        self.slot.begin()
    }

    /// `caller` waits for the event that it has begun under this number, which is to end then.
    pub(crate) fn attend(&self, sequence: u64, caller: Caller, end: Timestamp) {
        if let Some(schedule) = &self.schedule
            && end != Timestamp::MAX
        {
            self.attended.begin(sequence, caller, end, schedule);
        }
    }

    /// The event has ended. Returns whether its caller was told before that it is overdue.
    pub(crate) fn end_attended(&self) -> bool {
        self.schedule.is_some() && self.attended.end()
    }

    /// Notes whether the handler dropped a reply of the running event.
    pub(crate) fn note_unanswered(&self, unanswered: bool) {
        if unanswered {
            self.unanswered.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the handler dropped a reply of the event that ends.
    pub(crate) fn take_unanswered(&self) -> bool {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        if unanswered {
            self.unanswered.store(false, Ordering::Relaxed);
        }
        unanswered
    }

    /// The event of this number teaches the law nothing.
    pub(crate) fn teach_nothing(&self, sequence: u64) {
        self.teaches_nothing.store(sequence, Ordering::Relaxed);
    }

    /// Whether the law is to learn from the event of this number.
    pub(crate) fn teaches(&self, sequence: u64) -> bool {
        self.teaches_nothing.load(Ordering::Relaxed) != sequence
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

impl RunsCalls for Worker {
    fn abandon(&self, sequence: u64) {
        self.slot.abandon(sequence);
    }
}

impl<E: Send + 'static> StageView for Core<Payload<E>> {
    fn name(&self) -> &str {
        &self.name
    }

    fn receivers(&self) -> Arc<Receivers> {
        Arc::clone(&self.receivers)
    }

    fn observe(&self) -> StageObservation {
        Self::observe(self)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn quality(&self, class: ClassId) -> Ratio {
        self.settings.quality_of(class)
    }

    fn share(&self, error: BoxError) -> BoxError {
        share(error, |error| self.expects(error))
    }
}
