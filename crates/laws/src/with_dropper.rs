//! An admission law in the company of a dropper: the one refuses at the door, the other
//! takes out of the queue what has waited too long.
//!
//! The dropper is told of what the admission law lets in, and no more: what was refused
//! never was in its queue. Either may drop what leaves the queue, and the end of the
//! queue that is served is the dropper's choice where it has one.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Concurrency, Decision, Dequeue, Finished,
    Moved, Order, Ratio, Reading, Timestamp, Waiting,
};

/// Two laws for one stage. It has the name of the one at the door.
pub struct WithDropper {
    door: Box<dyn AdmissionLaw>,
    dropper: Box<dyn AdmissionLaw>,
}

impl WithDropper {
    /// `door` refuses, and `dropper`, which lets everybody in, drops.
    pub fn new(door: Box<dyn AdmissionLaw>, dropper: Box<dyn AdmissionLaw>) -> Self {
        Self { door, dropper }
    }
}

impl AdmissionLaw for WithDropper {
    fn name(&self) -> &'static str {
        self.door.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        match self.door.on_arrival(now, arrival, backlog) {
            Decision::Admit => self.dropper.on_arrival(now, arrival, backlog),
            refused @ Decision::Reject(_) => refused,
        }
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        match self.dropper.on_dequeue(now, waiting, backlog) {
            Dequeue::Run => self.door.on_dequeue(now, waiting, backlog),
            Dequeue::Drop => Dequeue::Drop,
        }
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        match self.dropper.on_sweep(now, waiting, backlog) {
            Dequeue::Run => self.door.on_sweep(now, waiting, backlog),
            Dequeue::Drop => Dequeue::Drop,
        }
    }

    fn order(&self, head_age: Duration) -> Order {
        match self.dropper.order(head_age) {
            Order::OldestFirst => self.door.order(head_age),
            Order::NewestFirst => Order::NewestFirst,
        }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.door.on_finish(now, finished, backlog);
        self.dropper.on_finish(now, finished, backlog);
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.door.on_move(now, moved, backlog);
        self.dropper.on_move(now, moved, backlog);
    }

    fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        self.door.park_after(class, kind)
    }

    fn due(&self, waiting: &Waiting) -> Timestamp {
        self.door.due(waiting)
    }

    fn may_start(&self, class: ClassId, kind: u64, backlog: &Backlog<'_>) -> bool {
        self.door.may_start(class, kind, backlog)
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.door.on_tick(now, backlog);
        self.dropper.on_tick(now, backlog);
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        self.door.on_cpu(now, busy);
        self.dropper.on_cpu(now, busy);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.door.set_targets(classes);
        self.dropper.set_targets(classes);
    }

    fn concurrency(&self) -> Option<Concurrency> {
        self.door.concurrency()
    }

    fn useful_workers(&self) -> Option<Concurrency> {
        self.door.useful_workers()
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.door.readings(visit);
        self.dropper.readings(visit);
    }
}
