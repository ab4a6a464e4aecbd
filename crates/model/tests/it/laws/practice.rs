//! What the laws from practice do to the stages of `docs/LAWS.md`, good and bad.
//!
//! The bounds are a little wider than what three seeds give. Where a law fails in a
//! situation that is bounded too: its documentation says so.

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{AdmissionLaw, Classes};
use tamarisk_model::sim::Profile;

use super::records::Summary;
use super::run;
use super::situations::{self, Situation};

const SEEDS: [u64; 3] = [1, 2, 3];

/// What a law is expected to reach.
struct Row {
    law: &'static str,
    /// Answers within their target when 3 users become 1000, in parts of capacity.
    spike: RangeInclusive<f64>,
    /// The same at 10 times the capacity, open loop.
    tenfold: RangeInclusive<f64>,
    /// Rejected or dropped at 80 % load, per cent, by 8 workers with mixed work.
    needless: RangeInclusive<f64>,
    /// The same by 400 workers, from cold.
    needless_wide: RangeInclusive<f64>,
}

const ROWS: [Row; 11] = [
    // The square root of drops is for senders who slow down.
    row("codel", 0.88..=1.02, 0.0..=0.05, 0.3..=2.5, 0.0..=0.1),
    row("service-codel", 0.95..=1.1, 0.93..=1.1, 1.0..=4.0, 0.0..=0.1),
    row("adaptive-lifo", 0.95..=1.1, 0.91..=1.1, 1.0..=4.0, 0.0..=0.1),
    row("red", 0.95..=1.1, 0.94..=1.1, 0.0..=1.2, 0.0..=0.1),
    // A lucky answer makes all others look queued.
    row("vegas", 0.70..=0.9, 0.70..=0.9, 18.0..=28.0, 95.0..=99.5),
    // Its greatest limit is 200, from 20 by less than one a second.
    row("gradient2", 0.93..=1.1, 0.92..=1.1, 0.1..=1.5, 86.0..=94.0),
    // It measures first.
    row("min-rtt-gradient", 0.92..=1.1, 0.86..=1.1, 0.7..=5.0, 15.0..=32.0),
    // Nothing is rejected for ten seconds.
    row("pi-shedding", 0.58..=0.78, 0.33..=0.55, 0.0..=0.1, 0.0..=0.1),
    // Five per cent a second.
    row("dagor", 0.65..=0.88, 0.0..=0.06, 2.0..=10.0, 0.0..=0.1),
    // When the CPU is found busy, the best time is that of the queue.
    row("cpu-shedding", 0.0..=0.06, 0.0..=0.06, 0.6..=2.0, 0.0..=0.1),
    // It rides at the target without looking where it lands.
    row("bouncer", 0.35..=0.6, 0.0..=0.12, 0.0..=0.1, 0.0..=0.1),
];

const fn row(
    law: &'static str,
    spike: RangeInclusive<f64>,
    tenfold: RangeInclusive<f64>,
    needless: RangeInclusive<f64>,
    needless_wide: RangeInclusive<f64>,
) -> Row {
    Row { law, spike, tenfold, needless, needless_wide }
}

fn make(law: &str, classes: &Classes) -> Box<dyn AdmissionLaw> {
    tamarisk_catalogue::admission(law).unwrap().law(classes)
}

fn summaries(law: &str, situation: &Situation, class: Option<usize>) -> [Summary; 3] {
    SEEDS.map(|seed| {
        let records = run(make(law, situation.classes()), situation, seed);
        match class {
            Some(class) => situation.summary_of(class, &records),
            None => situation.summary(&records),
        }
    })
}

/// Answers within their target, in parts of capacity, for each seed.
fn goodput(law: &str, situation: &Situation, class: Option<usize>) -> [f64; 3] {
    summaries(law, situation, class).map(|summary| summary.goodput / situation.capacity)
}

fn check(
    situation: &str,
    bounds: impl Fn(&Row) -> &RangeInclusive<f64>,
    of: impl Fn(&str) -> [f64; 3],
) {
    let wrong: Vec<String> = ROWS
        .iter()
        .map(|row| (row, of(row.law)))
        .filter(|(row, values)| !values.iter().all(|value| bounds(row).contains(value)))
        .map(|(row, values)| format!("{}: {values:.3?} is not in {:?}", row.law, bounds(row)))
        .collect();
    assert!(wrong.is_empty(), "{situation}: {wrong:#?}");
}

fn needless(law: &str, situation: &Situation) -> [f64; 3] {
    summaries(law, situation, None).map(|summary| 100.0 * summary.turned_away())
}

#[test]
fn every_law_is_listed_under_its_own_name() {
    let situation = situations::spike();
    for row in &ROWS {
        assert_eq!(make(row.law, situation.classes()).name(), row.law);
    }
}

#[test]
fn three_users_become_a_thousand() {
    check("spike", |row| &row.spike, |law| goodput(law, &situations::spike(), None));
}

#[test]
fn ten_times_the_capacity_comes() {
    check("10 ×", |row| &row.tenfold, |law| goodput(law, &situations::step(10.0), None));
}

#[test]
fn some_reject_at_eighty_per_cent_load() {
    check("0.8 ×", |row| &row.needless, |law| needless(law, &situations::eighty_percent()));
}

#[test]
fn some_reject_nearly_all_of_what_a_wide_service_could_do() {
    check("wide", |row| &row.needless_wide, |law| needless(law, &situations::wide(0.8)));
}

#[test]
fn dagor_serves_the_high_class_first_and_pi_shedding_swings_with_it() {
    // High offers 0.8 × the capacity, low 9.2 ×, once both have found their level.
    let situation = situations::priorities(10.0, 0.08).measured(100.0, 140.0);
    let high = |law| goodput(law, &situation, Some(0));
    assert!(high("dagor").iter().all(|share| *share >= 0.77), "{:?}", high("dagor"));
    // The swinging share takes the high class along.
    let swings = high("pi-shedding");
    assert!(swings.iter().all(|share| (0.2..=0.55).contains(share)), "{swings:?}");
}

#[test]
fn shedding_on_cpu_meets_a_load_that_grows() {
    // From 0.3 to 2 times the capacity in 34 seconds.
    let steps = 1..=34_u32;
    let step = situations::step(2.0);
    let rate = steps.fold(Profile::constant(0.3 * step.capacity), |rate, second| {
        let times = 0.3 + 0.05 * f64::from(second);
        rate.step(Duration::from_secs(second.into()), times * step.capacity)
    });
    let situation = step.rate(rate).measured(16.0, 60.0);
    let shares = goodput("cpu-shedding", &situation, None);
    assert!(shares.iter().all(|share| (0.75..=1.05).contains(share)), "{shares:?}");
}
