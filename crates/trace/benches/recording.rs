//! What recording adds to a decision.
//! ```text
//! cargo bench -p tamarisk-trace --bench recording
//! ```
//! Nanoseconds of the thread's CPU time for an event, from its arrival to its end (three calls of the law), with and
//! without recording in turn: the median of the repetitions and in brackets the least
//! and the greatest. The trace goes to a file in the folder for temporary files, at the
//! rate of the loop; what the disk cannot take of it is counted and shown.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures time and prints")]

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Concurrency, Ending, Finished, Target,
    Timestamp, Together, Waiting,
};
use tamarisk_laws::PredictGateTrim;
use tamarisk_trace::Recorder;

const EVENTS: u64 = 200_000;
const REPETITIONS: usize = 11;
/// Between two events: 20 000 a second.
const STEP_NANOS: u64 = 50_000;

fn main() {
    let target = Target::p90(Duration::from_millis(200)).expect("200 ms are a target");
    let classes = Classes::single(target);
    let path = std::env::temp_dir().join(format!("recording-{}.trace", std::process::id()));
    let recorder = Recorder::create(&path, Recorder::BYTES_MAX).expect("a file can be made");
    let law = || Box::new(PredictGateTrim::new(&classes));
    let mut alone: Box<dyn AdmissionLaw> = law();
    let mut traced: Box<dyn AdmissionLaw> = Box::new(recorder.trace(law(), "bench", &classes, &[]));
    let (mut plain, mut recorded) = (Vec::new(), Vec::new());
    for repetition in 0..REPETITIONS as u64 {
        plain.push(events(&mut *alone, repetition));
        recorded.push(events(&mut *traced, repetition));
        // The disk catches up, as it does between events of a real load.
        std::thread::sleep(Duration::from_millis(200));
    }
    let end = recorder.finish().expect("it can be written");
    std::fs::remove_file(path).expect("it is there");
    println!("the default law, alone     {}", spread(plain));
    println!("the default law, recorded  {}", spread(recorded));
    let bytes = end.bytes as f64 / end.records as f64;
    println!("{} records of {bytes:.1} bytes, {} missing", end.records, end.lost);
}

/// Nanoseconds for each of many events that arrive, leave the queue and end.
fn events(law: &mut dyn AdmissionLaw, repetition: u64) -> f64 {
    let began = cpu_nanos();
    for number in repetition * EVENTS..(repetition + 1) * EVENTS {
        let now = Timestamp::from_nanos(number * STEP_NANOS);
        let count = [1 + (number % 7) as u32];
        let backlog = Backlog {
            queued: &count,
            running: &[8],
            queued_total: count[0],
            running_total: 8,
            workers: Concurrency::new(8),
        };
        let class = ClassId::DEFAULT;
        black_box(law.on_arrival(
            now,
            &Arrival { class, deadline: None, flow: number, kind: 0 },
            &backlog,
        ));
        let waiting = Waiting { class, entered: now, deadline: None, flow: 0, kind: 0 };
        black_box(law.on_dequeue(now, &waiting, &backlog));
        let service =
            Duration::from_nanos(1_000_000 + (number.wrapping_mul(0x9e37_79b9) >> 12 & 0xf_ffff));
        let finished = Finished {
            class,
            service,
            response: service,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        law.on_finish(now + service, &finished, &backlog);
    }
    (cpu_nanos() - began) as f64 / EVENTS as f64
}

fn cpu_nanos() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn spread(mut nanos: Vec<f64>) -> String {
    nanos.sort_unstable_by(f64::total_cmp);
    let middle = nanos[nanos.len() / 2];
    format!("{middle:.0} ({:.0} … {:.0})", nanos[0], nanos[nanos.len() - 1])
}
