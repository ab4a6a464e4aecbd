//! Shared input for the unit tests of these laws.

use std::time::Duration;

use tamarisk_control::{
    Arrival, Backlog, Class, ClassId, Classes, Concurrency, Ending, Finished, Priority, Target,
    Timestamp, Together, Waiting,
};

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// Classes of these priorities, each with a p90 of 1 s.
pub(super) fn classes(priorities: &[u8]) -> Classes {
    let class = |(index, &priority): (usize, &u8)| Class {
        name: index.to_string(),
        target: Target::p90(Duration::from_secs(1)).unwrap(),
        priority: Priority(priority),
    };
    Classes::new(priorities.iter().enumerate().map(class).collect()).unwrap()
}

/// What stands in a stage of eight workers.
pub(super) fn backlog<'a>(queued: &'a [u32], running: &'a [u32]) -> Backlog<'a> {
    Backlog {
        queued,
        running,
        queued_total: queued.iter().sum(),
        running_total: running.iter().sum(),
        workers: Concurrency::new(8),
    }
}

pub(super) fn arrival(class: usize) -> Arrival {
    Arrival { class: ClassId::new(class), deadline: None, flow: 0, kind: 0 }
}

/// An event that has waited for `waited_ms` at `now_ms`.
pub(super) fn waiting(now_ms: u64, waited_ms: u64) -> Waiting {
    let entered = at(now_ms - waited_ms);
    Waiting { class: ClassId::DEFAULT, entered, deadline: None, flow: 0, kind: 0 }
}

/// An event that was answered after so long, without waiting.
pub(super) fn finished_in(millis: u64) -> Finished {
    ended(millis, Ending::Completed)
}

pub(super) fn ended(millis: u64, ending: Ending) -> Finished {
    let response = Duration::from_millis(millis);
    Finished {
        class: ClassId::DEFAULT,
        service: response,
        response,
        ending,
        kind: 0,
        together: Together::ALONE,
    }
}
