//! The queue before a stage, and the order in which it is served.

mod earliest_due;
mod fair;
mod levels;
mod partitioned;
mod shortest;

use std::collections::VecDeque;

use tamarisk_control::{Class, ClassId, Classes, Order, Timestamp};

use crate::entry::{Deadline, Entry};

use earliest_due::EarliestDue;
use fair::Fair;
use levels::Levels;
pub(crate) use partitioned::PartitionLease;
use partitioned::Partitioned;
use shortest::Shortest;

/// In which order a stage serves its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Classes of higher priority first; first in, first out within a priority.
    Priority,
    /// Classes of higher priority first; within a priority, from the end that
    /// the admission law names: oldest first in good times, newest first while a
    /// queue stands, when only the newest can still be answered in time.
    #[default]
    AdaptiveLifo,
    /// Least [`cost`](crate::Entry::cost) first; first in, first out among equals.
    ShortestFirst,
    /// Each [`flow`](crate::Entry::flow) in turn, charged by cost, so that one
    /// client's burst delays that client (start-time fair queueing).
    FairByFlow,
    /// Classes of higher priority first; within a priority, what the admission law says is
    /// due first; at a [`Gate`](crate::Gate), among the [kinds](crate::Entry::kind) that it lets
    /// start now. Where the law asks for it, newest first.
    EarliestDue,
}

/// What is known of an event without looking into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventMetadata {
    /// When its request entered the service.
    pub(crate) requested: Timestamp,
    pub(crate) entered: Timestamp,
    /// [`Timestamp::MAX`] if there is none.
    pub(crate) deadline: Timestamp,
    pub(crate) flow: u64,
    pub(crate) kind: u64,
    pub(crate) cost: u32,
    pub(crate) class: ClassId,
}

impl EventMetadata {
    /// The entry of the event when it is sent on to another stage.
    pub(crate) fn entry(&self) -> Entry {
        let due = self.deadline().map_or(Deadline::Never, Deadline::At);
        let Self { requested, class, cost, flow, kind, .. } = *self;
        Entry { requested: Some(requested), class, due, cost, flow, kind }
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        (self.deadline != Timestamp::MAX).then_some(self.deadline)
    }
}

/// Consecutive events of one class, which the laws judge together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Metadata of the run: earliest entry, earliest deadline.
    pub(crate) meta: EventMetadata,
    pub(crate) count: u32,
}

pub(crate) struct Queued<T> {
    pub(crate) meta: EventMetadata,
    pub(crate) item: T,
}

/// The queue itself is unbounded: the stage checks its capacity before it pushes.
pub(crate) enum Queue<T> {
    Levels { levels: Levels<T>, adaptive: bool },
    Shortest(Shortest<T>),
    Fair(Fair<T>),
    Due(EarliestDue<T>),
    Partitioned(Partitioned<T>),
}

impl<T> Queue<T> {
    pub(crate) fn new(discipline: Discipline, classes: &Classes) -> Self {
        match discipline {
            Discipline::Fifo => Self::Levels { levels: Levels::single(), adaptive: false },
            Discipline::Priority => {
                Self::Levels { levels: Levels::by_priority(classes), adaptive: false }
            }
            Discipline::AdaptiveLifo => {
                Self::Levels { levels: Levels::by_priority(classes), adaptive: true }
            }
            Discipline::ShortestFirst => Self::Shortest(Shortest::default()),
            Discipline::FairByFlow => Self::Fair(Fair::default()),
            Discipline::EarliestDue => Self::Due(EarliestDue::new(classes)),
        }
    }

    /// First in, first out for each of `partitions` shares of the keys, each
    /// share served by one worker at a time.
    pub(crate) fn partitioned(partitions: usize) -> Self {
        Self::Partitioned(Partitioned::new(partitions))
    }

    /// What tells orders apart: the kind of the queue, and its parameter.
    pub(crate) fn order_shape(&self) -> (std::mem::Discriminant<Self>, usize) {
        let parameter = match self {
            Self::Levels { levels, adaptive } => 2 * levels.count() + usize::from(*adaptive),
            Self::Partitioned(partitions) => partitions.count(),
            Self::Shortest(_) | Self::Fair(_) | Self::Due(_) => 0,
        };
        (std::mem::discriminant(self), parameter)
    }

    #[inline]
    pub(crate) fn push(&mut self, queued: Queued<T>) {
        match self {
            Self::Levels { levels, .. } => levels.push(queued),
            Self::Shortest(heap) => heap.push(queued),
            Self::Fair(fair) => fair.push(queued),
            Self::Due(due) => due.push(queued),
            Self::Partitioned(partitions) => partitions.push(queued),
        }
    }

    /// Appends events of one class.
    pub(crate) fn push_all(&mut self, queued: Vec<Queued<T>>) {
        match self {
            Self::Levels { levels, .. } => levels.push_all(queued),
            Self::Shortest(_) | Self::Fair(_) | Self::Due(_) | Self::Partitioned(_) => {
                queued.into_iter().for_each(|queued| self.push(queued));
            }
        }
    }

    /// Up to `most` events of one class that are next to be served in such an order and
    /// stay, where the shape of the queue shows at least two without a search.
    pub(crate) fn next_run(
        &self,
        order: Order,
        most: usize,
        stays: impl Fn(&T) -> bool,
    ) -> Option<Run> {
        match self {
            Self::Levels { levels, adaptive } if !adaptive || order == Order::OldestFirst => {
                levels.next_run(most, stays)
            }
            _ => None,
        }
    }

    /// Moves the events of [`next_run`](Self::next_run) to the end of `to`.
    pub(crate) fn pop_run(&mut self, run: Run, to: &mut VecDeque<Queued<T>>) {
        if let Self::Levels { levels, .. } = self {
            levels.pop_run(run.count as usize, to);
        }
    }

    /// Claims the right to pop. `None` if nothing can be served now: the queue
    /// is empty, or every partition with events is being served already.
    pub(crate) fn lease(&mut self) -> Option<PartitionLease> {
        match self {
            Self::Partitioned(partitions) => partitions.lease(),
            Self::Levels { .. } | Self::Shortest(_) | Self::Fair(_) | Self::Due(_) => {
                self.is_ready().then_some(PartitionLease::WHOLE)
            }
        }
    }

    /// The next event. `due` returns the due time of an event, or none if it may not start now;
    /// queues that are not served by due times do not ask it.
    pub(crate) fn pop(
        &mut self,
        lease: PartitionLease,
        order: Order,
        due: impl Fn(&EventMetadata) -> Option<Timestamp>,
    ) -> Option<Queued<T>> {
        match self {
            Self::Levels { levels, adaptive } => {
                levels.pop(if *adaptive { order } else { Order::OldestFirst })
            }
            Self::Shortest(heap) => heap.pop(),
            Self::Fair(fair) => fair.pop(),
            Self::Due(lines) => lines.pop(order, due),
            Self::Partitioned(partitions) => partitions.pop(lease),
        }
    }

    /// Gives the right back.
    pub(crate) fn release(&mut self, lease: PartitionLease) {
        if let Self::Partitioned(partitions) = self {
            partitions.release(lease);
        }
    }

    /// Whether there is something that could be leased now.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Partitioned(partitions) => partitions.is_ready(),
            Self::Levels { .. } | Self::Shortest(_) | Self::Fair(_) | Self::Due(_) => {
                self.len() > 0
            }
        }
    }

    /// When the event that has waited longest entered, where the shape of the
    /// queue shows it without a search.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        match self {
            Self::Levels { levels, .. } => levels.oldest(),
            Self::Due(lines) => lines.oldest(),
            Self::Shortest(_) | Self::Fair(_) | Self::Partitioned(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Levels { levels, .. } => levels.len(),
            Self::Shortest(heap) => heap.len(),
            Self::Fair(fair) => fair.len(),
            Self::Due(lines) => lines.len(),
            Self::Partitioned(partitions) => partitions.len(),
        }
    }

    /// Takes out all events for which `gone` holds; costs a pass over the queue.
    pub(crate) fn extract(&mut self, mut gone: impl FnMut(&Queued<T>) -> bool) -> Vec<Queued<T>> {
        // Whoever gives the verdicts may panic: until all are there, nothing is moved.
        let mut verdicts = Vec::with_capacity(self.len());
        self.each(|queued| verdicts.push(gone(queued)));
        if !verdicts.contains(&true) {
            return Vec::new();
        }
        let mut verdicts = verdicts.into_iter();
        let gone = |_: &Queued<T>| verdicts.next() == Some(true);
        match self {
            Self::Levels { levels, .. } => levels.extract(gone),
            Self::Shortest(heap) => heap.extract(gone),
            Self::Fair(fair) => fair.extract(gone),
            Self::Due(lines) => lines.extract(gone),
            Self::Partitioned(partitions) => partitions.extract(gone),
        }
    }

    /// Shows each event to `visit`, in the order in which [`extract`](Self::extract) comes to it.
    fn each(&self, visit: impl FnMut(&Queued<T>)) {
        match self {
            Self::Levels { levels, .. } => levels.iter().for_each(visit),
            Self::Shortest(heap) => heap.iter().for_each(visit),
            Self::Fair(fair) => fair.iter().for_each(visit),
            Self::Due(lines) => lines.iter().for_each(visit),
            Self::Partitioned(partitions) => partitions.iter().for_each(visit),
        }
    }
}

/// How many priorities the classes have, and the level of each class, the highest first.
fn by_priority(classes: &Classes) -> (usize, Vec<usize>) {
    let mut priorities: Vec<_> = classes.iter().map(|(_, class)| class.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let level = |class: &Class| priorities.partition_point(|&other| other < class.priority);
    let levels = classes.iter().map(|(_, class)| level(class)).collect();
    (priorities.len(), levels)
}

/// Splits `all` into those that stay and those that are `gone`.
fn split<C, I>(all: C, gone: impl FnMut(&I) -> bool) -> (C, Vec<I>)
where
    C: IntoIterator<Item = I> + FromIterator<I>,
{
    let mut gone = gone;
    let mut out = Vec::new();
    let stay = all
        .into_iter()
        .filter_map(|item| {
            if gone(&item) {
                out.push(item);
                return None;
            }
            Some(item)
        })
        .collect();
    (stay, out)
}

#[cfg(test)]
mod tests;
