//! What a law implements.

use super::{
    Arrival, Backlog, BatchDecisions, Decision, Dequeue, Finished, Moved, PlaceLimits, QueueOrder,
    Reading, Waiting,
};
use crate::{Classes, Ratio, Timestamp};

/// A control law that decides which events a stage admits.
///
/// A law has a name and an answer to arrivals. Each other method is called when something
/// else happens, and does nothing by default. All are called under the stage's lock: each
/// does a bounded amount of arithmetic, allocates nothing and does not panic: the event that it is
/// asked about would be lost, and with it a worker.
///
/// What only some laws decide stands in traits of its own: [`BatchDecisions`],
/// [`PlaceLimits`] and [`QueueOrder`]. A law that implements one returns itself from the
/// method of that name. A law that wraps another one has to forward all of them.
pub trait AdmissionLaw: Send {
    /// The name that configuration files and status pages use.
    fn name(&self) -> &'static str;

    /// An event asks to enter. An answer of [`Decision::Admit`] is binding: the
    /// stage queues or starts the event (`backlog` counts it from then on).
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision;

    /// The event that is next to run, about to leave the queue; `backlog` still
    /// counts it as queued. The answer says whether running it is still of use.
    fn on_dequeue(
        &mut self,
        _now: Timestamp,
        _waiting: &Waiting,
        _backlog: &Backlog<'_>,
    ) -> Dequeue {
        Dequeue::Run
    }

    /// Whether a queued event is still of use, asked of any event at any time: a stage
    /// removes those that are not wherever they stand, because what waits behind a higher
    /// priority may never become next. By default the answer is that of
    /// [`on_dequeue`](Self::on_dequeue); a law that learns from what leaves the queue
    /// learns nothing from this.
    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.on_dequeue(now, waiting, backlog)
    }

    /// An event that ran has ended, in whatever way; `backlog` no longer counts it.
    fn on_finish(&mut self, _now: Timestamp, _finished: &Finished, _backlog: &Backlog<'_>) {}

    /// The place of an event has changed otherwise than by the calls above; `backlog` counts
    /// it where it is now. Events that the law itself dropped are among them.
    fn on_move(&mut self, _now: Timestamp, _moved: &Moved, _backlog: &Backlog<'_>) {}

    /// Time has passed; called at least once a second, and as often as the
    /// governor of the stage ticks.
    fn on_tick(&mut self, _now: Timestamp, _backlog: &Backlog<'_>) {}

    /// The share of the machine's processors that was in use since the last call, about
    /// every 100 ms where it can be measured.
    fn on_cpu(&mut self, _now: Timestamp, _busy: Ratio) {}

    /// The targets are those of `classes` from now on, which are otherwise the classes that
    /// the law was made for. A law keeps what it has learned, and holds to the new targets
    /// from its next decision on. The default is right for a law that looks at no target.
    fn set_targets(&mut self, _classes: &Classes) {}

    /// The law's settings and estimates, for status pages and traces. Names are
    /// snake case and end in their unit.
    fn readings(&self, _visit: &mut dyn FnMut(Reading<'_>)) {}

    /// The law itself, if it can decide about many events at the cost of one.
    fn batch_decisions(&mut self) -> Option<&mut dyn BatchDecisions> {
        None
    }

    /// The law itself, if it limits how many events run at once, or which.
    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        None
    }

    /// The law itself, if it decides in which order the queue is served.
    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        None
    }
}
