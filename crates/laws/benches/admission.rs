//! What one decision of each law costs.
//! ```text
//! cargo bench -p tamarisk-laws --bench admission
//! ```
//! Nanoseconds per call, the median of the repetitions and in brackets the least
//! and the greatest. The backlog changes from call to call and every class takes
//! its turn, so that neither branches nor caches see a constant.

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
        self.queued[0] = queued;
        self.running[0] = running;
        Backlog {
            queued: &self.queued,
            running: &self.running,
            queued_total: queued,
            running_total: running,
            workers: Concurrency::new(8),
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
