//! What one decision of each law costs.
//! ```text
//! cargo bench -p tamarisk-laws --bench admission
//! ```
//! Nanoseconds per call, the median of the repetitions and in brackets the least
//! and the greatest. The backlog changes from call to call and every class takes
//! its turn, so that neither branches nor caches see a constant.
//!
//! The first table has one method at a time. The second has whole crossings: each event starts,
//! and ends after its service while others run, so that a law which knows its events by their
//! start finds them.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures time and prints"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Class, ClassId, Classes, Concurrency, Ending, Finished,
    Priority, Target, Timestamp, Together, Waiting,
};
use tamarisk_laws::{PlainQueue, PredictGateTrim, WorkLimit};

const CALLS: u64 = 1_000_000;
const REPETITIONS: usize = 11;
/// Simulated time between two calls: 100 000 a second.
const STEP_NANOS: u64 = 10_000;

fn main() {
    println!(
        "law                classes  arrival, idle    arrival, queued  overload         dequeue          finish"
    );
    for classes in [1, 4, 64].map(classes) {
        report(&classes, || PredictGateTrim::new(&classes));
    }
    for classes in [1, 4, 64].map(classes) {
        report(&classes, || WorkLimit::new(&classes));
    }
    for classes in [1, 4, 64].map(classes) {
        report(&classes, || PlainQueue::new(&classes));
    }
    println!(
        "\nlaw                  kinds  crossing a free gate  rejected            longest call, us"
    );
    let classes = classes(1);
    for kinds in [1, 64, 1000] {
        report_crossings(kinds, || PredictGateTrim::new(&classes));
    }
    for kinds in [1, 64, 1000] {
        report_crossings(kinds, || WorkLimit::new(&classes));
    }
}

/// `count` classes on four priority levels, or fewer.
fn classes(count: usize) -> Classes {
    let class = |index: usize| Class {
        name: index.to_string(),
        target: Target::p90(Duration::from_millis(200)).expect("200 ms are a target"),
        priority: Priority((index % 4) as u8),
    };
    Classes::new((0..count).map(class).collect()).expect("the names differ")
}

fn report<L: AdmissionLaw>(classes: &Classes, make: impl Fn() -> L) {
    let count = classes.len();
    let mut stage = Stage { queued: vec![0; count], running: vec![0; count], now: 0 };
    let class = |call: u64| ClassId::new(call as usize % count);
    let arrival =
        |call| Arrival { class: class(call), deadline: None, flow: 1 + call % 1000, kind: 0 };

    let mut law = taught(make(), &mut stage, count);
    let idle = measure(|call| {
        black_box(law.on_arrival(stage.tick(), &arrival(call), &stage.backlog(0, 4)));
    });
    let mut law = taught(make(), &mut stage, count);
    let queued = measure(|call| {
        let backlog_length = 1 + (call % 7) as u32;
        black_box(law.on_arrival(stage.tick(), &arrival(call), &stage.backlog(backlog_length, 8)));
    });
    let mut law = taught(make(), &mut stage, count);
    let overload = measure(|call| {
        // One in a thousand finds no room, so that there always is an overload.
        let backlog_length = if call % 1000 == 0 { 1_000_000 } else { 1 + (call % 7) as u32 };
        black_box(law.on_arrival(stage.tick(), &arrival(call), &stage.backlog(backlog_length, 8)));
    });
    let mut law = taught(make(), &mut stage, count);
    let dequeue = measure(|call| {
        let now = stage.tick();
        let waiting =
            Waiting { class: class(call), entered: now, deadline: None, flow: 0, kind: 0 };
        black_box(law.on_dequeue(now, &waiting, &stage.backlog(1, 7)));
    });
    let mut law = taught(make(), &mut stage, count);
    let finish = measure(|call| {
        let now = stage.tick();
        law.on_finish(now, &finished(class(call), call), &stage.backlog(1, 7));
    });
    println!(
        "{:18} {count:7}  {idle:15}  {queued:15}  {overload:15}  {dequeue:15}  {finish}",
        law.name()
    );
}

/// Events in flight at a free gate.
const IN_FLIGHT: usize = 50;
/// Of 500 microseconds: 50 of them in flight are 100 000 events a second.
const SERVICE: Duration = Duration::from_nanos(STEP_NANOS * IN_FLIGHT as u64);

/// What a start and an end cost together, with so many kinds, and what a rejection costs.
fn report_crossings<L: AdmissionLaw>(kinds: u64, make: impl Fn() -> L) {
    let mut stage = Stage { queued: vec![0], running: vec![0], now: 0 };
    let arrival = |call: u64| Arrival {
        class: ClassId::DEFAULT,
        deadline: None,
        flow: 1 + call % 1000,
        kind: 1 + call % kinds,
    };
    let running = IN_FLIGHT as u32;
    let mut law = make();
    let mut longest = Duration::ZERO;
    let mut cross = |law: &mut L, stage: &mut Stage, call: u64| {
        let now = stage.tick();
        black_box(law.on_arrival(now, &arrival(call), &stage.backlog_of(0, running - 1, 1000)));
        let Some(started) = call.checked_sub(IN_FLIGHT as u64) else { return };
        let finished = Finished {
            service: SERVICE,
            response: SERVICE,
            kind: arrival(started).kind,
            ..finished(ClassId::DEFAULT, call)
        };
        let began = Instant::now();
        law.on_finish(now, &finished, &stage.backlog_of(0, running - 1, 1000));
        longest = longest.max(began.elapsed());
        if call.is_multiple_of(1000) {
            law.on_tick(now, &stage.backlog_of(0, running - 1, 1000));
        }
    };
    let mut count = 0;
    let crossing = measure(|_| {
        cross(&mut law, &mut stage, count);
        count += 1;
    });
    let rejected = measure(|call| {
        let now = stage.tick();
        black_box(law.on_arrival(now, &arrival(call), &stage.backlog_of(1_000_000, running, 50)));
    });
    println!(
        "{:18} {kinds:7}  {crossing:20}  {rejected:18}  {:.0}",
        law.name(),
        longest.as_secs_f64() * 1e6
    );
}

/// A law that has seen a hundred completions of each class.
fn taught<L: AdmissionLaw>(mut law: L, stage: &mut Stage, classes: usize) -> L {
    for call in 0..100 * classes as u64 {
        let class = ClassId::new(call as usize % classes);
        let now = stage.tick();
        law.on_finish(now, &finished(class, call), &stage.backlog(0, 4));
    }
    law
}

fn finished(class: ClassId, call: u64) -> Finished {
    // Service times in no order, as samples have.
    let nanos = call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    let service = Duration::from_nanos(1_000_000 + nanos);
    Finished {
        class,
        service,
        response: service,
        ending: Ending::Completed,
        kind: 0,
        together: Together::ALONE,
    }
}

struct Stage {
    queued: Vec<u32>,
    running: Vec<u32>,
    now: u64,
}

impl Stage {
    fn tick(&mut self) -> Timestamp {
        self.now += STEP_NANOS;
        Timestamp::from_nanos(self.now)
    }

    fn backlog(&mut self, queued: u32, running: u32) -> Backlog<'_> {
        self.backlog_of(queued, running, 8)
    }

    fn backlog_of(&mut self, queued: u32, running: u32, workers: u32) -> Backlog<'_> {
        self.queued[0] = queued;
        self.running[0] = running;
        Backlog {
            queued: &self.queued,
            running: &self.running,
            queued_total: queued,
            running_total: running,
            workers: Concurrency::new(workers),
        }
    }
}

/// `median (least–greatest)` nanoseconds a call.
fn measure(mut call: impl FnMut(u64)) -> String {
    let mut nanos: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let began = Instant::now();
            (0..CALLS).for_each(&mut call);
            began.elapsed().as_secs_f64() * 1e9 / CALLS as f64
        })
        .collect();
    nanos.sort_unstable_by(f64::total_cmp);
    let median = nanos[REPETITIONS / 2];
    format!("{median:.0} ({:.0}–{:.0})", nanos[0], nanos[REPETITIONS - 1])
}
