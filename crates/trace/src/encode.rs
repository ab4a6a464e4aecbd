//! Encoding of trace records.

use std::time::Duration;

use tamarisk_control::{
    Backlog, Change, Concurrency, Decision, Dequeue, Ending, Order, Reason, Rejection, Target,
    Timestamp, Waiting, Weight,
};

use crate::record::{Close, End, Event, Head, Record};
use crate::wire::{
    BACKLOG_CHANGED, END, ENDING_SHIFT, HAS_DEADLINE, LIMIT_CHANGED, UNUSUAL, kind, put, put_f64,
    put_name, put_signed,
};

/// How a class of events may end, by the two bits that say so; one that was abandoned has a record
/// of another kind.
pub(crate) const ENDINGS: [Ending; 4] =
    [Ending::Completed, Ending::Failed, Ending::Terminated, Ending::Untimed];

/// What the next record is a difference from.
#[derive(Debug)]
pub(crate) struct Encoder {
    at: u64,
    limit: Option<Concurrency>,
    backlog: Vec<i64>,
}

/// Entries of a backlog that do not belong to a class: the workers, and by how much the
/// totals differ from the sums (in practice they do not).
pub(crate) const COMMON: usize = 3;

impl Encoder {
    pub(crate) fn new(classes: usize) -> Self {
        Self { at: 0, limit: None, backlog: vec![0; COMMON + 2 * classes] }
    }

    /// The most bytes that one record takes: some forty for the event, and eight for each
    /// entry of the backlog.
    pub(crate) fn record_max(&self) -> usize {
        128 + 8 * self.backlog.len()
    }

    /// When the latest record was.
    pub(crate) const fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }

    /// Adds `record` to `bytes`; of events that are told with one, with the backlog.
    pub(crate) fn put(
        &mut self,
        bytes: &mut Vec<u8>,
        record: &Record,
        backlog: Option<&Backlog<'_>>,
    ) {
        let first = bytes.len();
        bytes.push(0);
        let now = record.at.as_nanos();
        put_signed(bytes, now.wrapping_sub(self.at) as i64);
        self.at = now;
        let mut tag = event(bytes, now, &record.event);
        if record.limit != self.limit {
            self.limit = record.limit;
            tag |= LIMIT_CHANGED;
            put(bytes, record.limit.map_or(0, |limit| u64::from(limit.get())));
        }
        if backlog.is_some_and(|backlog| self.put_backlog(bytes, backlog)) {
            tag |= BACKLOG_CHANGED;
        }
        bytes[first] = tag;
    }

    /// What has changed, if anything has.
    fn put_backlog(&mut self, bytes: &mut Vec<u8>, backlog: &Backlog<'_>) -> bool {
        let classes = (self.backlog.len() - COMMON) / 2;
        let of = |list: &[u32], class: usize| i64::from(list.get(class).copied().unwrap_or(0));
        let (mut queued, mut running) = (0, 0);
        let first = bytes.len();
        bytes.push(0);
        let mut changed = 0;
        let mut set = |index: usize, value: i64| {
            let before = std::mem::replace(&mut self.backlog[index], value);
            if value != before {
                put(bytes, index as u64);
                put_signed(bytes, value - before);
                changed += 1;
            }
        };
        for class in 0..classes {
            let (in_queue, at_work) = (of(backlog.queued, class), of(backlog.running, class));
            queued += in_queue;
            running += at_work;
            set(COMMON + 2 * class, in_queue);
            set(COMMON + 2 * class + 1, at_work);
        }
        set(0, i64::from(backlog.workers.get()));
        set(1, i64::from(backlog.queued_total) - queued);
        set(2, i64::from(backlog.running_total) - running);
        // At most 3 + 2 × 64 of them: a byte holds the count.
        bytes[first] = changed;
        if changed == 0 {
            bytes.truncate(first);
        }
        changed > 0
    }
}

/// What is particular to an event; the first byte of the record.
fn event(bytes: &mut Vec<u8>, now: u64, event: &Event) -> u8 {
    match event {
        Event::Arrival { arrival, decision } => {
            put(bytes, arrival.class.index() as u64);
            put(bytes, arrival.flow);
            put(bytes, arrival.kind);
            let tag = kind::ARRIVAL | deadline(bytes, now, arrival.deadline);
            match decision {
                Decision::Admit => tag,
                Decision::Reject(rejection) => {
                    encode_rejection(bytes, rejection);
                    tag | UNUSUAL
                }
            }
        }
        Event::Dequeue { waiting, answer } => kind::DEQUEUE | queued(bytes, now, waiting, *answer),
        Event::Sweep { waiting, answer } => kind::SWEEP | queued(bytes, now, waiting, *answer),
        Event::Order { head_age, answer } => {
            span(bytes, *head_age);
            kind::ORDER | if *answer == Order::NewestFirst { UNUSUAL } else { 0 }
        }
        Event::Finish(finished) => {
            put(bytes, finished.class.index() as u64);
            span(bytes, finished.service);
            span(bytes, finished.response);
            put(bytes, finished.kind);
            put(bytes, u64::from(finished.together.count.get()));
            put(bytes, u64::from(finished.together.most.get()));
            let ending = ENDINGS.iter().position(|ending| *ending == finished.ending);
            ending.map_or(kind::ABANDONED, |ending| kind::FINISH | (ending as u8) << ENDING_SHIFT)
        }
        Event::Move(moved) => {
            put(bytes, moved.class.index() as u64);
            put(bytes, moved.flow);
            put(bytes, moved.kind);
            let change = Change::ALL.iter().position(|change| *change == moved.change);
            put(bytes, change.expect("all changes are listed") as u64);
            span(bytes, moved.time);
            kind::MOVE
        }
        Event::Tick => kind::TICK,
        Event::Cpu(busy) => {
            put_f64(bytes, busy.get());
            kind::CPU
        }
        Event::Target { class, target, more } => {
            put(bytes, class.index() as u64);
            put_target(bytes, *target);
            kind::TARGET | if *more { UNUSUAL } else { 0 }
        }
        Event::Gap { lost } => {
            put(bytes, *lost);
            kind::GAP
        }
    }
}

fn queued(bytes: &mut Vec<u8>, now: u64, waiting: &Waiting, answer: Dequeue) -> u8 {
    put(bytes, waiting.class.index() as u64);
    put(bytes, waiting.flow);
    put(bytes, waiting.kind);
    put_signed(bytes, now.wrapping_sub(waiting.entered.as_nanos()) as i64);
    deadline(bytes, now, waiting.deadline) | if answer == Dequeue::Drop { UNUSUAL } else { 0 }
}

fn deadline(bytes: &mut Vec<u8>, now: u64, at: Option<Timestamp>) -> u8 {
    let Some(at) = at else { return 0 };
    put_signed(bytes, at.as_nanos().wrapping_sub(now) as i64);
    HAS_DEADLINE
}

fn encode_rejection(bytes: &mut Vec<u8>, rejection: &Rejection) {
    let reason = Reason::ALL.iter().position(|reason| *reason == rejection.reason);
    put(bytes, reason.expect("all reasons are listed") as u64);
    // Zero stands for none.
    put(bytes, rejection.retry_after.map_or(0, |after| after.as_secs().saturating_add(1)));
    put(bytes, rejection.retry_after.map_or(0, |after| u64::from(after.subsec_nanos())));
}

/// In nanoseconds; what lasts longer than 584 years is as long as that.
fn span(bytes: &mut Vec<u8>, span: Duration) {
    put(bytes, u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
}

fn put_target(bytes: &mut Vec<u8>, target: Target) {
    put_f64(bytes, target.at().get());
    span(bytes, target.response_time());
}

/// The first block.
pub(crate) fn put_head(bytes: &mut Vec<u8>, head: &Head) {
    put_name(bytes, &head.stage);
    put_name(bytes, &head.law);
    put(bytes, head.knobs.len() as u64);
    for (name, value) in &head.knobs {
        put_name(bytes, name);
        put_f64(bytes, *value);
    }
    put(bytes, head.classes.len() as u64);
    for (id, class) in head.classes.iter() {
        put_name(bytes, &class.name);
        put_target(bytes, class.target);
        bytes.push(class.priority.0);
        // Zero stands for none.
        bytes.push(head.classes.weight(id).map_or(0, Weight::get));
    }
}

/// The last block.
pub(crate) fn put_end(bytes: &mut Vec<u8>, end: &End) {
    bytes.push(END);
    bytes.push(match end.close {
        Close::Finished => 0,
        Close::Full => 1,
    });
    put(bytes, end.records);
    put(bytes, end.lost);
}
