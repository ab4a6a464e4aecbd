//! The situations of the table in `docs/LAWS.md`, held to stated tolerances.
//!
//! Goodput is in parts of what the upstream can do at full speed. The heavy-tailed
//! mix of work makes the capacity itself uncertain by a few per cent within a run,
//! hence tolerances of 0.93 and more where the table's means say 0.98 and more.

mod simulated_stage;

use simulated_stage::report::{Summary, settling_time, summarise};
use simulated_stage::scenarios::{self, Scenario};
use simulated_stage::{Record, run};
use tamarisk_control::{AdmissionLaw, ClassId};
use tamarisk_laws::{OpaqueUpstream, Open, PredictGateTrim, ResponseTime, Threshold};

const SEEDS: [u64; 3] = [1, 2, 3];
const MORE_SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

fn default_law(scenario: &Scenario) -> PredictGateTrim {
    PredictGateTrim::new(&scenario.workload.classes)
}

fn opaque_law(scenario: &Scenario) -> OpaqueUpstream {
    OpaqueUpstream::new(&scenario.workload.classes)
}

fn overall(scenario: &Scenario, records: &[Record]) -> Summary {
    let (from, to) = scenario.measured;
    summarise(records, &scenario.workload.classes, None, from, to)
}

/// Runs every seed, and checks goodput, p90 and settling time of each.
fn check<L: AdmissionLaw>(
    scenario: &Scenario,
    law: impl Fn(&Scenario) -> L,
    goodput_min: f64,
    p90_max: f64,
    settled_max: f64,
) {
    for seed in SEEDS {
        let records = run(&mut law(scenario), scenario, seed);
        let summary = overall(scenario, &records);
        let goodput = summary.goodput / scenario.capacity();
        let (from, to) = scenario.measured;
        let settled = settling_time(&records, &scenario.workload.classes, from, to);
        assert!(
            goodput >= goodput_min && summary.p90 <= p90_max && settled <= settled_max,
            "seed {seed}: goodput {goodput:.3}, p90 {:.3}, settled after {settled} s",
            summary.p90
        );
    }
}

#[test]
fn the_default_law_keeps_throughput_and_target_in_a_spike_from_3_to_1000_users() {
    check(&scenarios::spike(), default_law, 0.95, 0.5, 0.5);
}

#[test]
fn the_default_law_keeps_both_at_twice_the_capacity() {
    check(&scenarios::step(2.0), default_law, 0.93, 0.5, 0.5);
}

#[test]
fn the_default_law_keeps_both_at_ten_times_the_capacity() {
    check(&scenarios::step(10.0), default_law, 0.9, 0.5, 0.5);
    check(&scenarios::uniform(10.0), default_law, 0.97, 0.6, 0.5);
}

#[test]
fn the_default_law_keeps_both_when_service_becomes_slower() {
    // 1 ÷ 2.5 of the capacity is left.
    check(&scenarios::slowdown(), default_law, 0.37, 0.6, 1.0);
}

#[test]
fn the_default_law_needs_no_warming_up() {
    check(&scenarios::cold(), default_law, 0.97, 0.6, 0.5);
    check(&scenarios::wide(2.0), default_law, 0.95, 0.7, 0.5);
}

#[test]
fn the_opaque_form_keeps_throughput_and_target_in_a_spike() {
    check(&scenarios::spike(), opaque_law, 0.93, 0.85, 2.0);
}

#[test]
fn the_opaque_form_keeps_both_at_ten_times_the_capacity() {
    check(&scenarios::uniform(10.0), opaque_law, 0.96, 0.8, 2.0);
    check(&scenarios::step(10.0), opaque_law, 0.9, 0.7, 2.0);
}

#[test]
fn the_opaque_form_keeps_both_when_service_becomes_slower() {
    check(&scenarios::slowdown(), opaque_law, 0.35, 0.85, 2.0);
}

#[test]
fn the_opaque_form_learns_under_overload_what_it_could_not_learn_before() {
    check(&scenarios::cold(), opaque_law, 0.93, 0.85, 2.0);
}

#[test]
fn the_opaque_form_finds_four_hundred_workers_from_cold() {
    // A second of it passes before the first of 400 places is known to be there,
    // and what was let in meanwhile may still be late some seconds on.
    check(&scenarios::wide(2.0), opaque_law, 0.88, 0.9, 7.0);
}

#[test]
fn the_opaque_form_backs_off_where_concurrency_does_harm() {
    check(&scenarios::contended(), opaque_law, 0.9, 0.8, 2.0);
}

/// Widths, targets and services that the constants were not chosen with. From two
/// seconds after the step on, about a thousand completions: chance alone makes
/// three per cent of the goodput of exponential and log-normal service, which is
/// why a run may have 0.9 where the means of the table say 0.95 and more.
#[test]
fn the_opaque_form_keeps_both_at_ten_times_the_capacity_of_any_width() {
    let mut sum = 0.0;
    let widths = scenarios::widths_held_out();
    for width in &widths {
        let scenario = width.offered(10.0, 1000.0);
        let (step, to) = scenario.measured;
        let records = run(&mut opaque_law(&scenario), &scenario, 1);
        let summary = summarise(&records, &scenario.workload.classes, None, step + 2.0, to);
        let goodput = summary.goodput / scenario.capacity();
        assert!(goodput >= 0.9 && summary.p90 <= 1.0, "{width:?}: {goodput:.3}, {summary:?}");
        sum += goodput;
    }
    let mean = sum / widths.len() as f64;
    assert!(mean >= 0.96, "{mean:.3} on average");
}

#[test]
fn at_eighty_per_cent_load_next_to_nothing_is_refused() {
    let refused = |scenario: &Scenario, law: &dyn Fn() -> Box<dyn AdmissionLaw>| {
        let shares = SEEDS.map(|seed| {
            let summary = overall(scenario, &run(&mut *law(), scenario, seed));
            summary.turned_away()
        });
        shares.iter().sum::<f64>() / SEEDS.len() as f64
    };
    for scenario in [scenarios::uniform(0.8), scenarios::wide(0.8)] {
        assert_eq!(refused(&scenario, &|| Box::new(default_law(&scenario))), 0.0);
        assert_eq!(refused(&scenario, &|| Box::new(opaque_law(&scenario))), 0.0);
    }
    let heavy_tail = scenarios::eighty_percent();
    assert!(refused(&heavy_tail, &|| Box::new(default_law(&heavy_tail))) <= 0.001);
    assert!(refused(&heavy_tail, &|| Box::new(opaque_law(&heavy_tail))) <= 0.001);
}

/// Of one class, in the measured stretch.
fn of_class(scenario: &Scenario, records: &[Record], index: usize) -> Summary {
    let (from, to) = scenario.measured;
    summarise(records, &scenario.workload.classes, Some(ClassId::new(index)), from, to)
}

fn both_forms(scenario: &Scenario) -> [Box<dyn AdmissionLaw>; 2] {
    [Box::new(default_law(scenario)), Box::new(opaque_law(scenario))]
}

#[test]
fn a_high_priority_that_fits_is_served_in_full_and_the_rest_goes_to_the_low_one() {
    // Of ten times the capacity, a fifth of the capacity is of the high class, and
    // four fifths.
    for (high_share, low_min) in [(0.02, 0.72), (0.08, 0.17)] {
        let scenario = scenarios::priorities(high_share);
        for seed in MORE_SEEDS {
            for mut law in both_forms(&scenario) {
                let records = run(&mut *law, &scenario, seed);
                let [high, low] = [0, 1].map(|index| of_class(&scenario, &records, index));
                let share = high.goodput * 20.0 / high.offered;
                assert!(share >= 0.99, "{} of seed {seed}: {share:.3} of the high", law.name());
                let left = low.goodput / scenario.capacity();
                assert!(left >= low_min, "{} of seed {seed}: {left:.3} for the low", law.name());
            }
        }
    }
}

#[test]
fn a_high_priority_beyond_the_capacity_gets_all_of_it() {
    // A fifth of ten times the capacity is twice the capacity: half of it can be served.
    let scenario = scenarios::priorities(0.2);
    for seed in MORE_SEEDS {
        for mut law in both_forms(&scenario) {
            let records = run(&mut *law, &scenario, seed);
            let [high, low] = [0, 1].map(|index| of_class(&scenario, &records, index));
            let told = format!("{} of seed {seed}: {high:?}, {low:?}", law.name());
            assert!(high.goodput >= 0.96 * scenario.capacity() && high.p90 <= 0.7, "{told}");
            assert!(low.goodput <= 0.02 * scenario.capacity(), "{told}");
        }
    }
}

#[test]
fn a_rare_and_heavy_class_is_admitted_like_the_others() {
    let scenario = scenarios::spike();
    let (from, to) = scenario.measured;
    let records = run(&mut default_law(&scenario), &scenario, 1);
    let rejected =
        |class| summarise(&records, &scenario.workload.classes, class, from, to).rejected;
    let (rare, all) = (rejected(Some(ClassId::new(3))), rejected(None));
    assert!((rare - all).abs() < 0.1, "rejected {rare:.2} of the rare class, {all:.2} of all");
}

#[test]
fn without_control_almost_every_answer_comes_too_late() {
    let scenario = scenarios::spike();
    let summary = overall(&scenario, &run(&mut Open, &scenario, 1));
    assert!(summary.goodput < 0.1 * scenario.capacity() && summary.p90 > 1.5, "{summary:?}");
}

#[test]
fn a_threshold_that_suits_one_service_fails_another() {
    let mut law = Threshold::new(100);
    let [site, quick] = [scenarios::step(10.0), scenarios::uniform(10.0)];
    let [site_sum, quick_sum] =
        [&site, &quick].map(|scenario| overall(scenario, &run(&mut law, scenario, 1)));
    assert!(site_sum.goodput > 0.9 * site.capacity(), "{site_sum:?}");
    assert!(quick_sum.goodput < 0.1 * quick.capacity(), "{quick_sum:?}");
}

#[test]
fn the_papers_controller_comes_down_to_its_target_but_loses_throughput() {
    let scenario = scenarios::spike();
    let mut law = ResponseTime::new(&scenario.workload.classes);
    let records = run(&mut law, &scenario, 1);
    let classes = &scenario.workload.classes;
    let (from, to) = scenario.measured;
    let settled = settling_time(&records, classes, from, to);
    assert!((5.0..40.0).contains(&settled), "settled after {settled} s");
    let summary = overall(&scenario, &records);
    assert!(summary.goodput < 0.6 * scenario.capacity(), "{summary:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = scenarios::step(2.0);
    let trace = |seed| run(&mut default_law(&scenario), &scenario, seed);
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
    let trace = |seed| run(&mut opaque_law(&scenario), &scenario, seed);
    assert_eq!(trace(7), trace(7));
}
