//! The right to run one event at a gate.

use tamarisk_control::{Ratio, Timestamp};

use super::Gate;
use crate::core::{Begun, Ended, ServiceSlot};
use crate::observe::Outcome;

/// The right to run one event. Dropping it unfinished counts the event as
/// abandoned, for its caller has left, or as failed if the caller panics.
#[must_use = "a permit that is dropped at once counts as an abandoned event"]
pub struct GatePermit {
    pub(super) gate: Gate,
    pub(super) begun: Begun,
    pub(super) slot: ServiceSlot,
    pub(super) started: Timestamp,
    /// [`Timestamp::MAX`] if at no set time.
    pub(super) end: Timestamp,
    /// The deadline that came with the event, or [`Timestamp::MAX`].
    pub(super) due: Timestamp,
    pub(super) timed: bool,
    /// When the first data of a stream was out, less the time for which it had been suspended.
    pub(super) answered: Option<Timestamp>,
    pub(super) has_progressed: bool,
    /// Whether the work has gone on after the caller left.
    pub(super) outlasted: bool,
    /// The outcome that is recorded when the permit is dropped.
    pub(super) outcome: Outcome,
}

impl GatePermit {
    /// The work is done.
    #[inline]
    pub fn complete(mut self) {
        self.outcome = Outcome::Completed;
    }

    /// The work was ended because its time was over.
    pub fn terminate(mut self) {
        self.outcome = Outcome::Terminated;
    }

    /// The caller has left, and the work went on without it until now. Where a dropped permit says
    /// nothing of how long the work takes, laws learn from this one.
    pub fn outlast(mut self) {
        self.outlasted = true;
    }

    /// The work came to nothing. Laws count it as slow.
    pub fn fail(mut self) {
        self.outcome = Outcome::Failed;
    }

    /// The same; observations show the reason until another event fails.
    pub fn fail_because(self, why: impl Into<String>) {
        self.gate.core.note_failure(why.into());
        self.fail();
    }

    /// It keeps its place from here on, but its times say nothing of the stage:
    /// a stream or tunnel after its head.
    pub fn untimed(&mut self) {
        self.timed = false;
    }

    /// Keeps the place while the caller waits for somebody else than what the gate protects, such as
    /// its own client, and what the gate protects may have a worker waiting with it: for as long as
    /// the law lets others hold theirs. That time counts neither as service nor as response.
    pub fn pause(&mut self) {
        self.gate.core.pause(self.slot);
    }

    /// Gives the place to others while the caller waits for somebody else than what the gate
    /// protects, and that does no work for it meanwhile, or while a stream has nothing to send. That
    /// time counts neither as service nor as response. Without effect while 16,384 others are
    /// suspended.
    pub fn suspend(&mut self) {
        self.gate.core.suspend(self.slot);
    }

    /// The wait is over: takes a place that was given up again at once, be it one more than there
    /// are. Without effect after neither [`pause`](Self::pause) nor [`suspend`](Self::suspend).
    pub fn resume(&mut self) {
        self.gate.core.resume(self.slot);
    }

    /// The first data of a stream is out: this is its answer, and its response time ends here.
    /// It keeps its place to the end. Data after that has no effect.
    pub fn first_data(&mut self) {
        if self.answered.is_some() {
            return;
        }
        let core = &self.gate.core;
        let now = core.clock.now();
        let suspended = core.first_data(now, self.slot);
        self.answered = Some(Timestamp::from_nanos(now.as_nanos().saturating_sub(suspended)));
    }

    /// Eight more pieces of data of a stream are out. The law is told how long they took, if the
    /// stream holds its place. Without effect before the [first data](Self::first_data) and the
    /// second time.
    pub fn progressed(&mut self) {
        let Some(answered) = self.answered else { return };
        if std::mem::replace(&mut self.has_progressed, true) {
            return;
        }
        let core = &self.gate.core;
        core.progressed(core.clock.now(), self.slot, answered);
    }

    /// When the permit was given.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// When the event is to end, if at a set time: its answer stops being of use
    /// then, or the stage's termination law lets its class run no longer.
    pub fn deadline(&self) -> Option<Timestamp> {
        (self.end != Timestamp::MAX).then_some(self.end)
    }

    /// Whether the caller, and no law, has set the [deadline](Self::deadline).
    pub fn is_due_at_deadline(&self) -> bool {
        self.due == self.end
    }

    /// How well it is to be served; see [`Context::quality`](crate::Context::quality).
    pub fn quality(&self) -> Ratio {
        self.gate.core.settings.quality_of(self.begun.class)
    }
}

impl Drop for GatePermit {
    #[inline]
    fn drop(&mut self) {
        let unwinding = self.outcome == Outcome::Abandoned && std::thread::panicking();
        let outcome = if unwinding { Outcome::Failed } else { self.outcome };
        let core = &self.gate.core;
        let Self { started, timed, answered, outlasted, .. } = *self;
        let ended =
            Ended { timed, teaches: timed, answered, outlasted, ..Ended::now(started, outcome) };
        core.finish_served(core.clock.now(), self.slot, &self.begun, ended);
    }
}
