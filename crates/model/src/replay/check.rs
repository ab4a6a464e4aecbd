//! Replays a trace to its law and compares the decisions.

use std::io::Read;
use std::time::Duration;

use tamarisk_control::{AdmissionLaw, Classes, Timestamp};
use tamarisk_laws::InvalidKnob;
use tamarisk_trace::{End, Event, Head, ReadError, Reader, Record};

/// What a replay came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Which law was recorded.
    pub head: Head,
    /// From the first record that has a time to the last.
    pub span: Duration,
    /// Records, gaps not counted.
    pub records: u64,
    /// Answers that were compared: of arrivals, of queued events, of the order, and after
    /// each record the limit.
    pub compared: u64,
    /// Answers that were others.
    pub differences: u64,
    /// The first of them.
    pub first: Option<Difference>,
    /// Where records are missing for the first time. What comes after was not compared:
    /// the law was not told all that it was told live.
    pub gap: Option<Gap>,
    /// How the trace ended; `None` if nobody ended it, or it is cut short.
    pub end: Option<End>,
}

/// An answer that is not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the record, from 1.
    pub record: u64,
    /// Since the first record.
    pub at: Duration,
    /// What the law was asked.
    pub asked: String,
    /// What it answered live.
    pub recorded: String,
    /// What it answers now.
    pub replayed: String,
}

/// Records that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// So many records came before.
    pub after: u64,
    /// Since the first record.
    pub at: Duration,
    /// How many are missing.
    pub lost: u64,
}

/// Why the law of a trace cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnknownLaw {
    /// The catalogue has none of this name.
    #[error("the trace is of a law {0:?}, which this program does not have")]
    Name(String),
    /// It has no such constants.
    #[error("the law of the trace cannot be made")]
    Knob(#[from] InvalidKnob),
}

/// The law that was recorded, as it was when the recording began.
///
/// # Errors
/// [`UnknownLaw`] if it was none of the catalogue.
pub fn law_of(head: &Head) -> Result<Box<dyn AdmissionLaw>, UnknownLaw> {
    let entry = tamarisk_catalogue::admission(&head.law);
    let entry = entry.ok_or_else(|| UnknownLaw::Name(head.law.clone()))?;
    let knobs: Vec<_> = head.knobs.iter().map(|(name, value)| (&**name, *value)).collect();
    Ok(entry.law_with(&head.classes, &knobs)?)
}

/// Tells `law` all that the recorded one was told, and compares what it answers.
///
/// # Errors
/// [`ReadError`] if the trace cannot be read to its end. One that is cut short ends there.
pub fn replay<R: Read>(
    trace: &mut Reader<R>,
    mut law: Box<dyn AdmissionLaw>,
) -> Result<Replay, ReadError> {
    let mut replay = Replay {
        head: trace.head().clone(),
        span: Duration::ZERO,
        records: 0,
        compared: 0,
        differences: 0,
        first: None,
        gap: None,
        end: None,
    };
    let mut classes = replay.head.classes.clone();
    let mut began = None;
    while let Some(record) = trace.next_complete()? {
        if began.is_some() || record.event.is_timed() {
            replay.span = record.at.since(*began.get_or_insert(record.at));
        }
        if let Event::Gap { lost } = record.event {
            let gap = Gap { after: replay.records, at: replay.span, lost };
            replay.gap.get_or_insert(gap);
            continue;
        }
        replay.records += 1;
        if replay.gap.is_none() {
            replay.compare(&record, answers(&mut *law, &mut classes, &record, trace));
        }
    }
    replay.end = trace.end();
    Ok(replay)
}

impl Replay {
    /// Whether every answer that could be compared was the recorded one.
    pub const fn agrees(&self) -> bool {
        self.differences == 0
    }

    fn compare(&mut self, recorded: &Record, replayed: Record) {
        self.compared += 1;
        if replayed == *recorded {
            return;
        }
        self.differences += 1;
        let (record, at) = (self.records, self.span);
        self.first.get_or_insert_with(|| Difference {
            record,
            at,
            asked: asked(&recorded.event, recorded.at),
            recorded: answer(recorded),
            replayed: answer(&replayed),
        });
    }
}

/// The record that `law` makes of being told what `record` says.
/// `classes` has the targets of late.
fn answers<R: Read>(
    law: &mut dyn AdmissionLaw,
    classes: &mut Classes,
    record: &Record,
    trace: &Reader<R>,
) -> Record {
    let (now, backlog) = (record.at, &trace.backlog());
    let event = match record.event {
        Event::Arrival { arrival, .. } => {
            Event::Arrival { arrival, decision: law.on_arrival(now, &arrival, backlog) }
        }
        Event::Dequeue { waiting, .. } => {
            Event::Dequeue { waiting, answer: law.on_dequeue(now, &waiting, backlog) }
        }
        Event::Sweep { waiting, .. } => {
            Event::Sweep { waiting, answer: law.on_sweep(now, &waiting, backlog) }
        }
        Event::Order { head_age, .. } => Event::Order { head_age, answer: law.order(head_age) },
        Event::Finish(finished) => {
            law.on_finish(now, &finished, backlog);
            Event::Finish(finished)
        }
        Event::Move(moved) => {
            law.on_move(now, &moved, backlog);
            Event::Move(moved)
        }
        Event::Tick => {
            law.on_tick(now, backlog);
            Event::Tick
        }
        Event::Cpu(busy) => {
            law.on_cpu(now, busy);
            Event::Cpu(busy)
        }
        Event::Target { class, target, more } => {
            classes.set_target(class, target);
            if !more {
                law.set_targets(classes);
            }
            record.event
        }
        Event::Gap { .. } => record.event,
    };
    let limit = law.limit();
    Record { at: now, limit, event }
}

fn asked(event: &Event, at: Timestamp) -> String {
    let class = |index: usize| format!("class {index}");
    match event {
        Event::Arrival { arrival, .. } => format!("an arrival of {}", class(arrival.class.index())),
        Event::Dequeue { waiting, .. } | Event::Sweep { waiting, .. } => {
            let waited = at.since(waiting.entered);
            format!("a queued event of {} after {waited:?}", class(waiting.class.index()))
        }
        Event::Order { head_age, .. } => format!("the order, the oldest waiting for {head_age:?}"),
        Event::Finish(finished) => format!("the end of one of {}", class(finished.class.index())),
        Event::Move(moved) => {
            format!("the move of one of {}: {:?}", class(moved.class.index()), moved.change)
        }
        Event::Tick => "a tick".to_owned(),
        Event::Cpu(busy) => format!("processors busy to {busy}"),
        Event::Target { class: of, target, .. } => {
            format!("a target of {:?} for {}", target.response_time(), class(of.index()))
        }
        Event::Gap { lost } => format!("{lost} records that are missing"),
    }
}

fn answer(record: &Record) -> String {
    let limit = record.limit.map_or_else(|| "none".to_owned(), |limit| limit.get().to_string());
    match record.event {
        Event::Arrival { decision, .. } => format!("{decision:?}, limit {limit}"),
        Event::Dequeue { answer, .. } | Event::Sweep { answer, .. } => {
            format!("{answer:?}, limit {limit}")
        }
        Event::Order { answer, .. } => format!("{answer:?}, limit {limit}"),
        _ => format!("limit {limit}"),
    }
}
