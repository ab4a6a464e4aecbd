//! An admission law combined with a dropper: the law rejects arrivals, the dropper removes events
//! that have waited too long.
//!
//! The dropper sees what the admission law admits, and no more: what was rejected never was
//! in its queue. Either may drop what leaves the queue, and the end of the queue that is
//! served is the dropper's choice where it has one. Neither decides about batches.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Decision, Dequeue, Finished, Moved, Order,
    PlaceLimits, QueueOrder, Ratio, Reading, Timestamp, Waiting,
};

/// Two laws for one stage. It has the name of the admission law.
pub struct WithDropper {
    admission: Box<dyn AdmissionLaw>,
    dropper: Box<dyn AdmissionLaw>,
}

impl WithDropper {
    /// `admission` rejects, and `dropper`, which admits everything, drops.
    pub fn new(admission: Box<dyn AdmissionLaw>, dropper: Box<dyn AdmissionLaw>) -> Self {
        Self { admission, dropper }
    }
}

impl AdmissionLaw for WithDropper {
    fn name(&self) -> &'static str {
        self.admission.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        match self.admission.on_arrival(now, arrival, backlog) {
            Decision::Admit => self.dropper.on_arrival(now, arrival, backlog),
            rejected @ Decision::Reject(_) => rejected,
        }
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        match self.dropper.on_dequeue(now, waiting, backlog) {
            Dequeue::Run => self.admission.on_dequeue(now, waiting, backlog),
            Dequeue::Drop => Dequeue::Drop,
        }
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        match self.dropper.on_sweep(now, waiting, backlog) {
            Dequeue::Run => self.admission.on_sweep(now, waiting, backlog),
            Dequeue::Drop => Dequeue::Drop,
        }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission.on_finish(now, finished, backlog);
        self.dropper.on_finish(now, finished, backlog);
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.admission.on_move(now, moved, backlog);
        self.dropper.on_move(now, moved, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.admission.on_tick(now, backlog);
        self.dropper.on_tick(now, backlog);
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        self.admission.on_cpu(now, busy);
        self.dropper.on_cpu(now, busy);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.admission.set_targets(classes);
        self.dropper.set_targets(classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut names = Vec::new();
        self.admission.readings(&mut |reading: Reading<'_>| {
            names.push(reading.name.to_owned());
            visit(reading);
        });
        // Two droppers show the same.
        self.dropper.readings(&mut |reading: Reading<'_>| {
            if names.iter().any(|name| name == reading.name) {
                visit(Reading { name: &format!("dropping_{}", reading.name), ..reading });
            } else {
                visit(reading);
            }
        });
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        self.admission.place_limits()
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl QueueOrder for WithDropper {
    fn order(&self, head_age: Duration) -> Order {
        match self.dropper.order(head_age) {
            Order::OldestFirst => self.admission.order(head_age),
            Order::NewestFirst => Order::NewestFirst,
        }
    }

    fn due(&self, waiting: &Waiting) -> Timestamp {
        self.admission.due(waiting)
    }
}
