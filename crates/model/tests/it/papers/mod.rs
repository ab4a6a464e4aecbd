//! What the papers' figures show of overload control, as predicates of the same figures simulated:
//! `examples/paper_figures.rs` draws them, `docs/FIGURES.md` has the printed values beside.

mod arashi;
mod chart;
mod course;
mod degradation;
mod termination;

use arashi::{Fate, HIGH};
use chart::Chart;
use course::Part;
use degradation::Remedy;
use termination::{INDEX, RANKING, Shift};

/// Between the least and the greatest.
fn spread(values: impl IntoIterator<Item = f64>) -> f64 {
    let range = |(least, most): (f64, f64), x| (least.min(x), most.max(x));
    let (least, most) = values.into_iter().fold((f64::INFINITY, 0.0), range);
    most - least
}

/// Each curve's value at `x`, in a panel.
fn values(chart: &Chart, panel: usize, x: f64) -> Vec<f64> {
    chart.panels[panel].curves.iter().map(|curve| curve.at(x)).collect()
}

/// [Welsh02 fig. 52]: the rate falls exponentially in the spike and rises slowly after it; the measured
/// percentile goes up to a few times the target.
#[test]
fn the_controller_cuts_its_rate_in_the_spike_and_gives_it_back_slowly() {
    let chart = arashi::controller();
    let (measured, rate) = (chart.curve(0, "measured"), chart.curve(1, "rate"));
    let (before, least) = (rate.at(70.0), -rate.greatest_of(70.0, 150.0, |rate| -rate));
    assert!(least < before / 20.0, "from {before:.1} to {least:.2} a second");
    assert!(rate.at(215.0) > 5.0 * least && rate.at(215.0) < before, "{:.1}", rate.at(215.0));
    let peak = measured.greatest(70.0, 150.0);
    assert!((1.0..6.0).contains(&peak), "the paper has about 4 s, here {peak:.1} s");
    assert!(measured.greatest(170.0, 220.0) < 1.0);
}

/// [Welsh02 fig. 53; Welsh03 fig. 8]: the paper meets its target of 10 s at every number of users. Here the
/// papers' controller does not, from 128 users on; what it gains against no control is the predicate.
#[test]
fn the_papers_controller_misses_its_target_with_many_users_and_the_default_law_does_not() {
    let chart = arashi::by_users();
    let p90 = |name| arashi::USERS.map(|users| chart.curve(0, name).at(f64::from(users)));
    let [open, printed, default] =
        ["without control", "response-time", "predict-gate-trim"].map(p90);
    assert!(printed[..2].iter().all(|p90| *p90 < arashi::TARGET), "{printed:?}");
    assert!(printed[2..].iter().all(|p90| *p90 > arashi::TARGET), "{printed:?}");
    assert!(printed[5] < open[5] / 2.0, "{printed:?}, {open:?} without control");
    assert!(default.iter().all(|p90| *p90 < arashi::TARGET / 2.0), "{default:?}");
}

/// [Welsh02 fig. 55; Welsh03 fig. 10]
#[test]
fn under_a_massive_spike_admitted_requests_are_answered_soon_and_most_are_rejected() {
    let chart = arashi::massive_spike();
    let response = |name| chart.curve(0, name);
    let (open, ruled) = (response("without control"), response("with control"));
    assert!(open.at(147.0) > 30.0, "{:.1} s", open.at(147.0));
    assert!(ruled.mean(75.0, 150.0) < open.mean(75.0, 150.0) / 10.0);
    let rejected = chart.curve(1, "with control");
    assert!(rejected.mean(75.0, 145.0) > 70.0 && rejected.mean(0.0, 65.0) < 10.0);
}

/// [Welsh02 figs 58 and 59]: 57.6 and 55.5 % of the high and the low ones rejected, or 48.8 and 87.9 %.
#[test]
fn told_apart_the_high_class_is_rejected_less_often() {
    let rejected = |told_apart| {
        let part = arashi::two_classes(told_apart, 1).between(HIGH.0, HIGH.1);
        arashi::high_and_low(&part, told_apart).map(|part| 100.0 * part.lost())
    };
    let [alike, low] = rejected(false);
    assert!((alike - low).abs() < 15.0, "not told apart: {alike:.1} and {low:.1} %");
    let [high, low] = rejected(true);
    assert!(low > high + 10.0, "told apart: {high:.1} and {low:.1} %");
    assert!(high < alike - 5.0, "the high ones: {alike:.1} %, and told apart {high:.1} %");
}

/// [Welsh02 figs 56 and 57]: 99 % rejected.
#[test]
fn quality_alone_helps_and_with_admission_control_the_target_is_met_more_often() {
    let courses = [Remedy::Nothing, Remedy::Quality, Remedy::QualityThenAdmission];
    let [nothing, quality, both] = courses.map(|remedy| remedy.course(1));
    let p90 = |course: &course::Course| course.between(100.0, 200.0).p90().unwrap_or(f64::NAN);
    assert!(p90(&nothing) > 50.0 && p90(&quality) < 10.0);
    let rejected = both.between(100.0, 200.0).lost();
    assert!(rejected > 0.75, "{rejected:.2} rejected");
    let in_target = |course: &course::Course| {
        let periods = course.over_time(5.0, Part::p90);
        let late = periods.iter().filter(|(at, _)| *at > 60.0).filter_map(|(_, p90)| *p90);
        let (met, all) =
            late.fold((0, 0), |(met, all), p90| (met + u32::from(p90 <= 5.0), all + 1));
        f64::from(met) / f64::from(all)
    };
    let (alone, both) = (in_target(&quality), in_target(&both));
    assert!(both > alone + 0.25, "{alone:.2} of the time alone, {both:.2} with admission control");
}

/// [Welsh03 fig. 9]
#[test]
fn with_many_users_control_helps_every_type_that_needed_it() {
    for (name, row) in arashi::TYPES.iter().zip(arashi::by_type(1)) {
        let [few, few_ruled, many, many_ruled] = row;
        assert!((few_ruled - few).abs() < 0.2 * few, "{name}: {few:.2} and {few_ruled:.2} s");
        if many > 20.0 {
            assert!(many_ruled < many / 3.0, "{name}: {many:.1} and {many_ruled:.1} s");
        }
    }
}

/// [Welsh03 fig. 11]
#[test]
fn one_controller_for_all_rejects_all_types_alike_and_one_for_each_does_not() {
    let types = arashi::by_controller(1, "response-time").types;
    let [each, one] = [0, 1].map(|column| spread(types.map(|fates| fates[column].rejected)));
    assert!(each > 50.0 && one < 20.0, "{each:.0} and {one:.0} points between types");
}

#[test]
fn the_default_law_and_a_plain_queue_keep_the_target_with_one_controller_and_with_many() {
    for law in ["predict-gate-trim", "plain-queue"] {
        for Fate { p90, in_time, rejected } in arashi::by_controller(1, law).all {
            assert!(p90 < arashi::TARGET, "{law}: {p90:.1} s");
            assert!(in_time > 25.0, "{law}: {in_time:.0} % in time, {rejected:.0} % rejected");
        }
    }
}

/// [SERT06 fig. 2]: from 50 a second to 29 at 5 %, and from 15 to 309 ms.
#[test]
fn a_few_long_requests_fill_the_queue_of_a_server_with_admission_control() {
    let chart = termination::long_requests();
    let (throughput, mean) = (chart.curve(0, "AC"), chart.curve(1, "AC"));
    assert!(throughput.at(0.1) > 48.5 && (24.0..34.0).contains(&throughput.at(5.0)));
    assert!(mean.at(0.1) < 0.03 && mean.at(5.0) > 0.2, "{} {}", mean.at(0.1), mean.at(5.0));
}

/// [SERT06 fig. 5]
#[test]
fn the_threshold_is_the_printed_function_of_the_loss() {
    let chart = termination::threshold_function();
    let at = |name, percent| chart.curve(0, name).at(percent);
    assert_eq!([at("α = 4", 0.0), at("α = 4", 5.0)], [15.0, 15.0]);
    // 0.5 + 14.5 · ((15 − 10) ÷ 10)⁴
    assert!((at("α = 4", 10.0) - 1.40625).abs() < 1e-3);
    assert!((at("α = 1", 10.0) - 7.75).abs() < 1e-3);
    assert_eq!([at("α = 4", 15.0), at("α = 4", 20.0)], [0.5, 0.5]);
    assert_eq!(at("α = 0", 14.5), 15.0);
}

/// [SERT06 figs 9 and 10]: three times the throughput, half the response time, and 81.7 instead of
/// 45.3 % within a second.
#[test]
fn termination_keeps_the_throughput_while_a_tenth_is_heavy() {
    for seed in [1, 2, 3] {
        let [admission, sert] = Shift::new(seed).during();
        assert!(sert.throughput() > 2.0 * admission.throughput());
        assert!(sert.mean() < 0.6 * admission.mean());
        let within = [&admission, &sert].map(|part| part.within(1.0));
        assert!(within[0] < 0.6 && within[1] > 0.8, "{within:?} within a second");
    }
}

/// [SERT06 figs 11 to 14]: alike below the capacity; above it less is lost, and answers come sooner, in
/// less than `times` the time.
fn check_beside_admission(chart: &Chart, times: f64) {
    let name = chart.name;
    for load in [60.0, 80.0] {
        let lost = values(chart, 0, load);
        assert!((lost[0] - lost[1]).abs() < 1.5, "{name}: {lost:?} at {load} %");
    }
    // The capacity is where admission control alone loses one in twenty [SERT06 §5.1].
    let at_capacity = values(chart, 0, 100.0)[0];
    assert!((4.0..6.0).contains(&at_capacity), "{name}: {at_capacity} at 100 %");
    for load in [120.0, 140.0, 160.0, 180.0, 200.0] {
        let (lost, means) = (values(chart, 0, load), values(chart, 1, load));
        assert!(lost[1] < 0.85 * lost[0], "{name}: {lost:?} at {load} %");
        assert!(means[1] < times * means[0], "{name}: {means:?} at {load} %");
    }
}

/// Printed: 7.5 to 27.9 % less lost, and answered in 38.0 to 75.4 % less time, which falls from 120 to
/// 140 %.
#[test]
fn termination_loses_less_of_an_overload_of_ranking() {
    let chart = RANKING.beside_admission();
    check_beside_admission(&chart, 0.62);
    let [at_120, at_140] = [120.0, 140.0].map(|load| values(&chart, 1, load)[1]);
    assert!(at_140 < at_120, "from {at_120} to {at_140} s");
}

/// Printed: 2.7 to 13.8 % less lost, and sooner.
#[test]
fn termination_loses_less_of_an_overload_of_index_matching() {
    check_beside_admission(&INDEX.beside_admission(), 0.9);
}

#[test]
fn a_chart_of_two_figures_names_both() {
    let named = |name| Chart { name, ..termination::threshold_function() };
    let subtitle = |name| named(name).drawn().subtitle;
    assert_eq!(subtitle("sert06-11"), "Figures 11 and 12 of Zhou and Yang 2006, simulated.");
    assert_eq!(subtitle("sert06-5"), "Figure 5 of Zhou and Yang 2006, simulated.");
}

/// [SERT06 fig. 15]: at 100 % the lowest loses 11.2 %, the highest and the adaptive one 4 %; in an overload
/// the adaptive one is as good as the lowest, and better than the others.
#[test]
fn the_adaptive_threshold_of_ranking_is_a_high_one_in_calm_and_a_low_one_in_an_overload() {
    let chart = RANKING.beside_fixed();
    let lost = |load| {
        let [low, middle, high, adaptive] = values(&chart, 0, load)[..] else {
            panic!("four curves")
        };
        (low, middle, high, adaptive)
    };
    for load in [60.0, 80.0, 100.0] {
        let (low, _, high, adaptive) = lost(load);
        assert!(low > high + 1.0 && adaptive < low - 1.0, "{load} %: {low} {high} {adaptive}");
    }
    for load in [160.0, 180.0, 200.0] {
        let (low, middle, high, adaptive) = lost(load);
        assert!(high > low + 3.0 && adaptive < low + 2.0, "{load} %: {low} {high} {adaptive}");
        assert!(adaptive < middle && adaptive < high, "{load} %: {middle} {high} {adaptive}");
    }
}

/// [SERT06 fig. 16]: 1.5 s is always better than the other fixed ones, and the adaptive one comparable.
#[test]
fn the_lowest_threshold_of_index_matching_is_the_best_and_the_adaptive_one_comparable() {
    let chart = INDEX.beside_fixed();
    for load in [100.0, 120.0, 140.0, 160.0, 180.0, 200.0] {
        let lost = values(&chart, 0, load);
        let [low, middle, high, adaptive] = lost[..] else { panic!("four curves") };
        assert!(low < middle && low < high, "{lost:.1?} at {load} %");
        assert!(adaptive < low + 5.0, "{lost:.1?} at {load} %");
    }
}

/// [SERT06 figs 17 and 18]: no significant difference.
#[test]
fn the_watermarks_make_little_difference() {
    for chart in [RANKING.watermarks(), INDEX.watermarks()] {
        for load in [60.0, 100.0, 140.0, 200.0] {
            let lost = values(&chart, 0, load);
            assert!(spread(lost.clone()) < 5.0, "{}: {lost:.1?} at {load} %", chart.name);
        }
    }
}
