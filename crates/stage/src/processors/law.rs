//! One law for all stages that share processors.
//!
//! Whoever arrives waits for the work of all of them. So they have one law, to which each class
//! of each stage is a class of its own, and whose backlog is that of all stages.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex};
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, BatchDecisions, ClassId, Classes, Concurrency, Decision,
    Dequeue, Finished, Moved, Order, QueueOrder, Ratio, Reading, Reason, Rejection, Timestamp,
    Waiting,
};

use super::{Part, Shared, Turns};
use crate::core::TICK;

/// The law, and what it knows of the stages.
pub(super) struct Judge {
    law: Box<dyn AdmissionLaw>,
    /// Those of all stages, one stage after the other.
    classes: Classes,
    queued: Vec<u32>,
    running: Vec<u32>,
    processors: Concurrency,
    /// How many turns there are.
    turns: Concurrency,
    /// The latest time that it was told: stages read the clock before they wait for each other.
    now: Timestamp,
    ticked: Timestamp,
    told_cpu: Timestamp,
}

impl Judge {
    pub(super) fn new(
        law: Box<dyn AdmissionLaw>,
        classes: Classes,
        processors: Concurrency,
    ) -> Self {
        let none = vec![0; classes.len()];
        Self {
            law,
            queued: none.clone(),
            running: none,
            classes,
            processors,
            turns: processors,
            now: Timestamp::ZERO,
            ticked: Timestamp::ZERO,
            told_cpu: Timestamp::ZERO,
        }
    }

    /// Goes on with another law, and with more classes.
    pub(super) fn follow(&mut self, law: Box<dyn AdmissionLaw>, classes: Classes) {
        self.queued.resize(classes.len(), 0);
        self.running.resize(classes.len(), 0);
        self.law = law;
        self.classes = classes;
    }

    pub(super) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// A stage with these classes has left.
    pub(super) fn forget(&mut self, classes: Range<usize>) {
        self.queued[classes.clone()].fill(0);
        self.running[classes].fill(0);
    }

    /// How many of the processors are of use.
    fn places(&self) -> Concurrency {
        self.law.places(self.processors).min(self.processors)
    }

    /// Has as many turns as processors are of use.
    fn limit(&mut self, turns: &Mutex<Turns>) {
        let places = self.places();
        if std::mem::replace(&mut self.turns, places) != places {
            turns.lock().set_processors(places);
        }
    }

    /// Whether it is time for another one: each stage has a governor, and the law one tick of them all.
    fn is_tick(last: &mut Timestamp, now: Timestamp) -> bool {
        let is_tick = now.since(*last) >= TICK * 9 / 10;
        if is_tick {
            *last = now;
        }
        is_tick
    }
}

/// The law as one of the stages asks it.
pub(super) struct StageLaw {
    pub(super) shared: Arc<Shared>,
    pub(super) part: Arc<Part>,
}

impl StageLaw {
    /// Asks the law with the backlog of all stages, of which this one has `own`. None if it has left.
    fn ask<R>(
        &self,
        now: Timestamp,
        own: &Backlog<'_>,
        question: impl FnOnce(&mut Asked<'_>) -> R,
    ) -> Option<R> {
        let mut judge = self.judge()?;
        let judge = &mut *judge;
        let classes = self.part.classes.clone();
        judge.queued[classes.clone()].copy_from_slice(own.queued);
        judge.running[classes.clone()].copy_from_slice(own.running);
        judge.now = judge.now.max(now);
        let answer = question(&mut Asked { first: classes.start, judge });
        judge.limit(&self.shared.turns);
        Some(answer)
    }

    /// The law, unless the stage has left.
    fn judge(&self) -> Option<MappedMutexGuard<'_, Judge>> {
        let judge = self.shared.judge();
        (!self.part.has_left.load(Ordering::Relaxed)).then_some(judge)
    }

    fn class(&self, class: ClassId) -> ClassId {
        ClassId::new(self.part.classes.start + class.index())
    }
}

impl Drop for StageLaw {
    fn drop(&mut self) {
        if let Some(mut judge) = self.judge() {
            judge.forget(self.part.classes.clone());
        }
    }
}

/// A question to the law.
struct Asked<'j> {
    judge: &'j mut Judge,
    /// The first class of the stage.
    first: usize,
}

impl Asked<'_> {
    fn law<R>(
        &mut self,
        ask: impl FnOnce(&mut dyn AdmissionLaw, Timestamp, &Backlog<'_>) -> R,
    ) -> R {
        let Judge { law, queued, running, now, turns, .. } = &mut *self.judge;
        let backlog = Backlog {
            queued_total: queued.iter().sum(),
            running_total: running.iter().sum(),
            queued,
            running,
            workers: *turns,
        };
        ask(&mut **law, *now, &backlog)
    }

    /// The stage will count so many more of `class`, before it asks again.
    fn admitted(&mut self, class: ClassId, count: u32) {
        self.judge.queued[class.index()] += count;
    }

    /// The same of events that leave the queue to run.
    fn started(&mut self, class: ClassId, count: u32) {
        let queued = &mut self.judge.queued[class.index()];
        *queued = queued.saturating_sub(count);
        self.judge.running[class.index()] += count;
    }

    fn waiting(&self, waiting: &Waiting) -> Waiting {
        Waiting { class: ClassId::new(self.first + waiting.class.index()), ..*waiting }
    }
}

impl AdmissionLaw for StageLaw {
    fn name(&self) -> &'static str {
        self.shared.judge().law.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let arrival = Arrival { class: self.class(arrival.class), ..*arrival };
        self.ask(now, backlog, |asked| {
            let decision = asked.law(|law, now, backlog| law.on_arrival(now, &arrival, backlog));
            if decision == Decision::Admit {
                asked.admitted(arrival.class, 1);
            }
            decision
        })
        .unwrap_or(Decision::Reject(Rejection::new(Reason::Closed)))
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.ask(now, backlog, |asked| {
            let waiting = asked.waiting(waiting);
            let answer = asked.law(|law, now, backlog| law.on_dequeue(now, &waiting, backlog));
            if answer == Dequeue::Run {
                asked.started(waiting.class, 1);
            }
            answer
        })
        .unwrap_or(Dequeue::Drop)
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.ask(now, backlog, |asked| {
            let waiting = asked.waiting(waiting);
            asked.law(|law, now, backlog| law.on_sweep(now, &waiting, backlog))
        })
        .unwrap_or(Dequeue::Drop)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let finished = Finished { class: self.class(finished.class), ..*finished };
        self.ask(now, backlog, |asked| {
            asked.law(|law, now, backlog| law.on_finish(now, &finished, backlog));
        });
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        let moved = Moved { class: self.class(moved.class), ..*moved };
        self.ask(now, backlog, |asked| {
            asked.law(|law, now, backlog| law.on_move(now, &moved, backlog));
        });
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.ask(now, backlog, |asked| {
            if Judge::is_tick(&mut asked.judge.ticked, now) {
                asked.law(|law, now, backlog| law.on_tick(now, backlog));
            }
        });
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        if let Some(mut judge) = self.judge()
            && Judge::is_tick(&mut judge.told_cpu, now)
        {
            judge.law.on_cpu(now, busy);
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        let Some(mut judge) = self.judge() else { return };
        let Judge { law, classes: all, .. } = &mut *judge;
        for (class, target) in self.part.classes.clone().zip(classes.targets()) {
            all.set_target(ClassId::new(class), target);
        }
        law.set_targets(all);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let Some(judge) = self.judge() else { return };
        let classes = &self.part.classes;
        judge.law.readings(&mut |reading| {
            let own = |class: ClassId| {
                let is_own = classes.contains(&class.index());
                is_own.then(|| ClassId::new(class.index() - classes.start))
            };
            match reading.class.map(own) {
                None => visit(reading),
                Some(Some(class)) => visit(Reading { class: Some(class), ..reading }),
                Some(None) => {}
            }
        });
    }

    fn batch_decisions(&mut self) -> Option<&mut dyn BatchDecisions> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl BatchDecisions for StageLaw {
    fn admits_all(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool {
        let arrival = Arrival { class: self.class(arrival.class), ..*arrival };
        self.ask(now, backlog, |asked| {
            let all = asked.law(|law, now, backlog| law.admits_all(now, &arrival, count, backlog));
            if all {
                asked.admitted(arrival.class, count);
            }
            all
        })
        .unwrap_or(false)
    }

    fn runs_all(
        &mut self,
        now: Timestamp,
        waiting: &Waiting,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool {
        self.ask(now, backlog, |asked| {
            let waiting = asked.waiting(waiting);
            let all = asked.law(|law, now, backlog| law.runs_all(now, &waiting, count, backlog));
            if all {
                asked.started(waiting.class, count);
            }
            all
        })
        .unwrap_or(false)
    }

    fn on_finish_all(
        &mut self,
        now: Timestamp,
        finished: &Finished,
        count: u32,
        backlog: &Backlog<'_>,
    ) {
        let finished = Finished { class: self.class(finished.class), ..*finished };
        self.ask(now, backlog, |asked| {
            asked.law(|law, now, backlog| law.on_finish_all(now, &finished, count, backlog));
        });
    }
}

impl QueueOrder for StageLaw {
    fn order(&self, head_age: Duration) -> Order {
        self.shared.judge().law.order(head_age)
    }

    fn due(&self, waiting: &Waiting) -> Timestamp {
        let waiting = Waiting { class: self.class(waiting.class), ..*waiting };
        self.shared.judge().law.due(&waiting)
    }
}
