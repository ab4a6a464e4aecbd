//! Decoding of trace records, with every value checked.

use std::time::Duration;

use tamarisk_control::{
    Arrival, Backlog, BatchSize, CLASSES_MAX, Change, Class, ClassId, Classes, Concurrency,
    Decision, Dequeue, Ending, Finished, Moved, Order, Priority, Ratio, Reason, Rejection, Target,
    Timestamp, Together, Waiting, Weight,
};

use crate::encode::{COMMON, ENDINGS};
use crate::record::{Close, End, Event, Head, Record};
use crate::wire::{
    BACKLOG_CHANGED, Bytes, ENDING_SHIFT, HAS_DEADLINE, KNOBS_MAX, LIMIT_CHANGED, UNUSUAL, kind,
};

/// What the next record is a difference from.
#[derive(Debug)]
pub(crate) struct Decoder {
    at: u64,
    limit: Option<Concurrency>,
    /// Workers, and by how much the totals differ from the sums.
    common: [i64; COMMON],
    queued: Vec<u32>,
    running: Vec<u32>,
}

impl Decoder {
    pub(crate) fn new(classes: usize) -> Self {
        let none = || vec![0; classes];
        Self { at: 0, limit: None, common: [0; COMMON], queued: none(), running: none() }
    }

    /// What the latest record was told with.
    pub(crate) fn backlog(&self) -> Backlog<'_> {
        let [workers, queued, running] = self.common;
        let total =
            |list: &[u32], more| list.iter().map(|count| i64::from(*count)).sum::<i64>() + more;
        Backlog {
            queued: &self.queued,
            running: &self.running,
            queued_total: total(&self.queued, queued) as u32,
            running_total: total(&self.running, running) as u32,
            workers: Concurrency::new(workers as u32),
        }
    }

    /// The next record; `None` if the bytes make none.
    pub(crate) fn next(&mut self, bytes: &mut Bytes<'_>) -> Option<Record> {
        let tag = bytes.byte()?;
        self.at = self.at.wrapping_add(bytes.signed()? as u64);
        let event = self.event(bytes, tag)?;
        if tag & LIMIT_CHANGED != 0 {
            let limit = bytes.u32()?;
            self.limit = (limit > 0).then(|| Concurrency::new(limit));
        }
        if tag & BACKLOG_CHANGED != 0 {
            self.change_backlog(bytes)?;
        }
        Some(Record { at: Timestamp::from_nanos(self.at), limit: self.limit, event })
    }

    fn change_backlog(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for _ in 0..bytes.byte()? {
            let index = usize::try_from(bytes.number()?).ok()?;
            let change = bytes.signed()?;
            match index.checked_sub(COMMON) {
                None => self.common[index] = self.common[index].checked_add(change)?,
                Some(of_class) => {
                    let list = if of_class % 2 == 0 { &mut self.queued } else { &mut self.running };
                    let count = list.get_mut(of_class / 2)?;
                    *count = i64::from(*count).checked_add(change)?.try_into().ok()?;
                }
            }
        }
        let fits = |list: &[u32], more: i64| {
            let sum: i64 = list.iter().map(|count| i64::from(*count)).sum();
            sum.checked_add(more).is_some_and(|total| u32::try_from(total).is_ok())
        };
        let [workers, queued, running] = self.common;
        let sound = u32::try_from(workers).is_ok_and(|workers| workers > 0)
            && fits(&self.queued, queued)
            && fits(&self.running, running);
        sound.then_some(())
    }

    fn event(&self, bytes: &mut Bytes<'_>, tag: u8) -> Option<Event> {
        let unusual = tag & UNUSUAL != 0;
        let drop = if unusual { Dequeue::Drop } else { Dequeue::Run };
        Some(match tag & kind::ALL {
            kind::ARRIVAL => {
                let (class, flow) = (self.class(bytes)?, bytes.number()?);
                let of_kind = bytes.number()?;
                let deadline = self.deadline(bytes, tag)?;
                let decision = match unusual {
                    true => Decision::Reject(rejection(bytes)?),
                    false => Decision::Admit,
                };
                Event::Arrival {
                    arrival: Arrival { class, deadline, flow, kind: of_kind },
                    decision,
                }
            }
            kind::DEQUEUE => Event::Dequeue { waiting: self.waiting(bytes, tag)?, answer: drop },
            kind::SWEEP => Event::Sweep { waiting: self.waiting(bytes, tag)?, answer: drop },
            kind::ORDER => {
                let answer = if unusual { Order::NewestFirst } else { Order::OldestFirst };
                Event::Order { head_age: span(bytes)?, answer }
            }
            end @ (kind::FINISH | kind::ABANDONED) => Event::Finish(Finished {
                class: self.class(bytes)?,
                service: span(bytes)?,
                response: span(bytes)?,
                kind: bytes.number()?,
                together: Together { count: batch(bytes)?, most: batch(bytes)? },
                ending: match end {
                    kind::ABANDONED => Ending::Abandoned,
                    _ => ENDINGS[usize::from(tag >> ENDING_SHIFT)],
                },
            }),
            kind::MOVE => Event::Move(Moved {
                class: self.class(bytes)?,
                flow: bytes.number()?,
                kind: bytes.number()?,
                change: *Change::ALL.get(usize::try_from(bytes.number()?).ok()?)?,
                time: span(bytes)?,
            }),
            kind::TICK => Event::Tick,
            kind::CPU => Event::Cpu(Ratio::new(bytes.f64()?).ok()?),
            kind::TARGET => {
                let (class, target) = (self.class(bytes)?, target(bytes)?);
                Event::Target { class, target, more: unusual }
            }
            kind::GAP => Event::Gap { lost: bytes.number()? },
            _ => return None,
        })
    }

    fn class(&self, bytes: &mut Bytes<'_>) -> Option<ClassId> {
        let index = usize::try_from(bytes.number()?).ok()?;
        (index < self.queued.len()).then(|| ClassId::new(index))
    }

    fn waiting(&self, bytes: &mut Bytes<'_>, tag: u8) -> Option<Waiting> {
        let (class, flow, kind) = (self.class(bytes)?, bytes.number()?, bytes.number()?);
        let entered = self.at.wrapping_sub(bytes.signed()? as u64);
        let deadline = self.deadline(bytes, tag)?;
        Some(Waiting { class, entered: Timestamp::from_nanos(entered), deadline, flow, kind })
    }

    /// The outer `None` if the bytes make none.
    fn deadline(&self, bytes: &mut Bytes<'_>, tag: u8) -> Option<Option<Timestamp>> {
        if tag & HAS_DEADLINE == 0 {
            return Some(None);
        }
        let at = self.at.wrapping_add(bytes.signed()? as u64);
        Some(Some(Timestamp::from_nanos(at)))
    }
}

fn rejection(bytes: &mut Bytes<'_>) -> Option<Rejection> {
    let reason = *Reason::ALL.get(usize::try_from(bytes.number()?).ok()?)?;
    let (seconds, nanos) = (bytes.number()?, bytes.u32()?);
    let retry_after = match seconds.checked_sub(1) {
        Some(seconds) if nanos < 1_000_000_000 => Some(Duration::new(seconds, nanos)),
        None if nanos == 0 => None,
        _ => return None,
    };
    Some(Rejection { reason, retry_after })
}

fn batch(bytes: &mut Bytes<'_>) -> Option<BatchSize> {
    u32::try_from(bytes.number()?).ok().filter(|&events| events > 0).map(BatchSize::new)
}

fn span(bytes: &mut Bytes<'_>) -> Option<Duration> {
    bytes.number().map(Duration::from_nanos)
}

fn target(bytes: &mut Bytes<'_>) -> Option<Target> {
    let at = Ratio::new(bytes.f64()?).ok()?;
    Target::percentile(at, span(bytes)?).ok()
}

/// The first block.
pub(crate) fn head(bytes: &mut Bytes<'_>) -> Option<Head> {
    let (stage, law) = (bytes.name()?, bytes.name()?);
    let count = |bytes: &mut Bytes<'_>, most| {
        usize::try_from(bytes.number()?).ok().filter(|count| *count <= most)
    };
    let knobs = count(bytes, KNOBS_MAX)?;
    let knobs = (0..knobs).map(|_| Some((bytes.name()?, bytes.f64()?))).collect::<Option<_>>()?;
    let classes = count(bytes, CLASSES_MAX)?;
    let classes = (0..classes).map(|_| {
        let (name, target) = (bytes.name()?, target(bytes)?);
        let class = Class { name, target, priority: Priority(bytes.byte()?) };
        Some((class, bytes.byte()?))
    });
    let (classes, weights): (Vec<_>, Vec<_>) =
        classes.collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let mut classes = Classes::new(classes).ok()?;
    for (index, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0) {
        classes = classes.weighted(ClassId::new(index), Weight::new(weight).ok()?);
    }
    bytes.is_empty().then_some(Head { stage, law, knobs, classes })
}

/// The last block, after its first byte.
pub(crate) fn end(bytes: &mut Bytes<'_>, size: u64) -> Option<End> {
    let close = match bytes.byte()? {
        0 => Close::Finished,
        1 => Close::Full,
        _ => return None,
    };
    let (records, lost) = (bytes.number()?, bytes.number()?);
    bytes.is_empty().then_some(End { close, records, lost, bytes: size })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::Encoder;

    const CLASSES: usize = 3;

    fn instant() -> impl Strategy<Value = Timestamp> {
        any::<u64>().prop_map(Timestamp::from_nanos)
    }

    fn class() -> impl Strategy<Value = ClassId> {
        (0..CLASSES).prop_map(ClassId::new)
    }

    fn nanos() -> impl Strategy<Value = Duration> {
        any::<u64>().prop_map(Duration::from_nanos)
    }

    fn decision() -> impl Strategy<Value = Decision> {
        let after = prop::option::of((0..u64::MAX, 0..1_000_000_000u32));
        prop::option::of((0..Reason::ALL.len(), after)).prop_map(|rejected| match rejected {
            None => Decision::Admit,
            Some((reason, after)) => Decision::Reject(Rejection {
                reason: Reason::ALL[reason],
                retry_after: after.map(|(seconds, nanos)| Duration::new(seconds, nanos)),
            }),
        })
    }

    fn waiting() -> impl Strategy<Value = (Waiting, Dequeue)> {
        let answer = any::<bool>().prop_map(|run| if run { Dequeue::Run } else { Dequeue::Drop });
        (class(), instant(), prop::option::of(instant()), any::<[u64; 2]>(), answer).prop_map(
            |(class, entered, deadline, [flow, kind], answer)| {
                (Waiting { class, entered, deadline, flow, kind }, answer)
            },
        )
    }

    fn event() -> impl Strategy<Value = Event> {
        let order = any::<bool>().prop_map(|new| match new {
            true => Order::NewestFirst,
            false => Order::OldestFirst,
        });
        prop_oneof![
            (class(), prop::option::of(instant()), any::<[u64; 2]>(), decision()).prop_map(
                |(class, deadline, [flow, kind], decision)| {
                    Event::Arrival { arrival: Arrival { class, deadline, flow, kind }, decision }
                }
            ),
            waiting().prop_map(|(waiting, answer)| Event::Dequeue { waiting, answer }),
            waiting().prop_map(|(waiting, answer)| Event::Sweep { waiting, answer }),
            (nanos(), order).prop_map(|(head_age, answer)| Event::Order { head_age, answer }),
            (class(), [nanos(), nanos()], 0..=ENDINGS.len(), any::<u64>(), any::<[u32; 2]>())
                .prop_map(|(class, [service, response], ending, kind, together)| {
                    let ending = ENDINGS.get(ending).copied().unwrap_or(Ending::Abandoned);
                    let [count, most] = together.map(BatchSize::new);
                    let together = Together { count, most };
                    Event::Finish(Finished { class, service, response, ending, kind, together })
                }),
            (class(), any::<[u64; 2]>(), 0..Change::ALL.len(), nanos()).prop_map(
                |(class, [flow, kind], change, time)| {
                    Event::Move(Moved { class, flow, kind, change: Change::ALL[change], time })
                }
            ),
            Just(Event::Tick),
            (0.0..=1.0).prop_map(|busy| Event::Cpu(Ratio::saturating(busy))),
            (class(), 0.01..=0.99, 1_000_000..3_600_000_000_000_u64, any::<bool>()).prop_map(
                |(class, at, nanos, more)| {
                    let (at, time) = (Ratio::saturating(at), Duration::from_nanos(nanos));
                    let target = Target::percentile(at, time).expect("a valid target");
                    Event::Target { class, target, more }
                }
            ),
            any::<u64>().prop_map(|lost| Event::Gap { lost }),
        ]
    }

    /// Records with what they were told with; totals need not be sums.
    fn told() -> impl Strategy<Value = (Record, Vec<u32>, Vec<u32>, [u32; 3])> {
        let limit = prop::option::of((1..=u32::MAX).prop_map(Concurrency::new));
        let record =
            (instant(), limit, event()).prop_map(|(at, limit, event)| Record { at, limit, event });
        let counts = || prop::collection::vec(any::<u32>(), CLASSES);
        let rest = (any::<u32>(), any::<u32>(), 1..=u32::MAX).prop_map(|(a, b, c)| [a, b, c]);
        (record, counts(), counts(), rest)
    }

    proptest! {
        #[test]
        fn every_record_comes_back(told in prop::collection::vec(told(), 1..20)) {
            let mut encoder = Encoder::new(CLASSES);
            let mut bytes = Vec::new();
            let backlogs: Vec<_> = told.iter().map(|(_, queued, running, rest)| Backlog {
                queued,
                running,
                queued_total: rest[0],
                running_total: rest[1],
                workers: Concurrency::new(rest[2]),
            }).collect();
            for ((record, ..), backlog) in told.iter().zip(&backlogs) {
                let before = bytes.len();
                encoder.put(&mut bytes, record, Some(backlog));
                prop_assert!(bytes.len() - before <= encoder.record_max());
            }
            let (mut decoder, mut bytes) = (Decoder::new(CLASSES), Bytes::new(&bytes));
            for ((record, ..), backlog) in told.iter().zip(&backlogs) {
                prop_assert_eq!(decoder.next(&mut bytes), Some(*record));
                prop_assert_eq!(format!("{:?}", decoder.backlog()), format!("{:?}", backlog));
            }
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::new(CLASSES);
            let mut rest = Bytes::new(&bytes);
            while decoder.next(&mut rest).is_some() {
                decoder.backlog();
            }
            head(&mut Bytes::new(&bytes));
            end(&mut Bytes::new(&bytes), 0);
        }
    }
}
