//! An admission law whose inputs and decisions are recorded.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Decision, Dequeue, Finished, Moved, Order,
    PlaceLimits, QueueOrder, Ratio, Reading, Timestamp, Waiting,
};

use crate::pen::Pen;
use crate::record::{Event, Record};

/// A law whose every answer is recorded; [`Recorder::trace`](crate::Recorder::trace)
/// makes one. It decides as the law within does.
pub struct Traced {
    law: Box<dyn AdmissionLaw>,
    /// Shared with the recorder, which takes the last records at the end.
    pen: Arc<Mutex<Pen>>,
}

impl Traced {
    pub(crate) const fn new(law: Box<dyn AdmissionLaw>, pen: Arc<Mutex<Pen>>) -> Self {
        Self { law, pen }
    }

    /// Records something that the law is not told the time of: it happens when the
    /// record before did.
    fn record_untimed(&self, event: Event) {
        let mut pen = self.pen.lock();
        let record = Record { at: pen.now(), limit: self.law.limit(), event };
        pen.put(&record, None);
    }

    #[inline]
    fn record(&self, at: Timestamp, event: Event, backlog: Option<&Backlog<'_>>) {
        let record = Record { at, limit: self.law.limit(), event };
        self.pen.lock().put(&record, backlog);
    }
}

impl AdmissionLaw for Traced {
    fn name(&self) -> &'static str {
        self.law.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let decision = self.law.on_arrival(now, arrival, backlog);
        self.record(now, Event::Arrival { arrival: *arrival, decision }, Some(backlog));
        decision
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let answer = self.law.on_dequeue(now, waiting, backlog);
        self.record(now, Event::Dequeue { waiting: *waiting, answer }, Some(backlog));
        answer
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let answer = self.law.on_sweep(now, waiting, backlog);
        self.record(now, Event::Sweep { waiting: *waiting, answer }, Some(backlog));
        answer
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.law.on_finish(now, finished, backlog);
        self.record(now, Event::Finish(*finished), Some(backlog));
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.law.on_move(now, moved, backlog);
        self.record(now, Event::Move(*moved), Some(backlog));
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.law.on_tick(now, backlog);
        self.record(now, Event::Tick, Some(backlog));
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        self.law.on_cpu(now, busy);
        self.record(now, Event::Cpu(busy), None);
    }

    fn set_targets(&mut self, classes: &Classes) {
        let last = classes.len() - 1;
        for (class, promised) in classes.iter() {
            let more = class.index() < last;
            if !more {
                self.law.set_targets(classes);
            }
            self.record_untimed(Event::Target { class, target: promised.target, more });
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.law.readings(visit);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        self.law.place_limits()
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl QueueOrder for Traced {
    fn order(&self, head_age: Duration) -> Order {
        let answer = self.law.order(head_age);
        self.record_untimed(Event::Order { head_age, answer });
        answer
    }

    fn due(&self, waiting: &Waiting) -> Timestamp {
        self.law.due(waiting)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.pen.lock().flush();
    }
}
