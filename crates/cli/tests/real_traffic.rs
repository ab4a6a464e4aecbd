//! `tamarisk protect` on real traffic: situations of `bench/`, so short that only what goes
//! wrong by far shows. The full ones, with the bars that count: `tamarisk-bench`'s `real_traffic`.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::thread;

use tamarisk_bench::real_traffic::front::Front;
use tamarisk_bench::real_traffic::run::run;
use tamarisk_bench::real_traffic::situations::{Bound, all};

/// What is rejected here is rejected for no reason; before the law that is the default now,
/// it was a half and more.
const REJECTED_MAX: f64 = 0.05;
/// So much of a bar is reached from a cold start within the time that there is.
const SHARE_MIN: f64 = 0.8;

/// Two at a time: with more, they would take the cores from each other.
#[test]
fn places_are_held_by_the_work_of_the_upstream_only() {
    let front = Front::Tamarisk(env!("CARGO_BIN_EXE_tamarisk").into());
    let halves: [&[_]; 2] = [
        &[
            ("idle-app", 8.0),
            ("stalled-bodies", 6.0),
            ("polls", 8.0),
            ("lost", 8.0),
            ("tight", 6.0),
            ("fan-out", 12.0),
        ],
        &[("trickling", 8.0), ("window-zero", 6.0), ("greedy-client", 12.0), ("leavers", 15.0)],
    ];
    let failed: Vec<_> = thread::scope(|scope| {
        let of_half = |half: &'static [(&str, f64)]| {
            let front = &front;
            scope.spawn(move || {
                half.iter().flat_map(|shortened| failed(front, shortened)).collect::<Vec<_>>()
            })
        };
        let running = halves.map(of_half);
        running.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The bars that a situation of so many seconds misses.
fn failed(front: &Front, &(name, seconds): &(&str, f64)) -> Vec<String> {
    let mut situation = all(1.0).into_iter().find(|situation| situation.name == name).unwrap();
    situation.seconds = seconds;
    let measured = run(&situation, front, 1).unwrap();
    let judged = situation.bars.iter().zip(measured).filter_map(|(bar, measured)| {
        let bound = match bar.bound {
            Bound::AtMost(bound) => Bound::AtMost(bound.max(REJECTED_MAX)),
            Bound::AtLeast(bound) => Bound::AtLeast(bound * SHARE_MIN),
        };
        let missed = || format!("{name}: {}: {measured:.3}, {bound:?}", bar.what);
        (!bound.is_kept(measured)).then(missed)
    });
    judged.collect()
}
