//! What holds everywhere, also at the edges.

use std::time::Duration;

use proptest::prelude::*;
use tamarisk_control::{Concurrency, PerSecond, Ratio, Target};
use tamarisk_model::Seconds;
use tamarisk_model::capacity::{Unreachable, greatest_rate, least_workers};
use tamarisk_model::queueing::{
    Accuracy, LoadDependent, MultiServer, PhaseServer, PhaseType, ThreadPenalty,
};

fn rate(value: f64) -> PerSecond {
    PerSecond::new(value).unwrap()
}

/// 1 − ρ from nearly all to next to nothing.
fn spare() -> impl Strategy<Value = f64> {
    (-12.0..-0.01).prop_map(|exponent: f64| 10f64.powf(exponent))
}

/// Service rates from once a day to a million a second.
fn service() -> impl Strategy<Value = f64> {
    (-5.0..6.0).prop_map(|exponent: f64| 10f64.powf(exponent))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn quantile_and_distribution_are_inverse(
        service in service(), workers in 1u32..2000, spare in spare(), percentile in 1e-6..0.999_999,
    ) {
        let stage = MultiServer::new(rate(service), Concurrency::new(workers)).unwrap();
        let arrivals = rate(f64::from(workers) * service * (1.0 - spare));
        let response = stage.at(arrivals).unwrap().response;
        let quantile = response.quantile(Ratio::new(percentile).unwrap());
        let back = response.exceeds(quantile).get();
        prop_assert!((back - (1.0 - percentile)).abs() <= 1e-12, "{back} for {percentile}");
    }

    #[test]
    fn number_and_response_time_obey_littles_law(
        service in service(), workers in 1u32..2000, spare in spare(),
    ) {
        let stage = MultiServer::new(rate(service), Concurrency::new(workers)).unwrap();
        let arrivals = rate(f64::from(workers) * service * (1.0 - spare));
        let solved = stage.at(arrivals).unwrap();
        let expected = arrivals.get() * solved.response.mean().get();
        prop_assert!((solved.number - expected).abs() <= 1e-10 * expected);
        let below: f64 = (0..workers).map(|n| {
            stage.occupancy(arrivals).unwrap().probability(n).get()
        }).take(50).sum();
        prop_assert!(below <= 1.0 - solved.waiting.get() + 1e-12);
    }

    #[test]
    fn more_workers_and_fewer_events_are_never_slower(
        service in service(), workers in 1u32..500, spare in spare(), percentile in 0.01..0.9999,
    ) {
        let p = Ratio::new(percentile).unwrap();
        let quantile = |workers: u32, arrivals: f64| {
            let stage = MultiServer::new(rate(service), Concurrency::new(workers)).unwrap();
            stage.at(rate(arrivals)).unwrap().response.quantile(p).get() * (1.0 + 1e-12)
        };
        let arrivals = f64::from(workers) * service * (1.0 - spare);
        let here = quantile(workers, arrivals);
        prop_assert!(quantile(workers + 1, arrivals) <= here * (1.0 + 1e-12));
        prop_assert!(quantile(workers, arrivals * 0.9) <= here * (1.0 + 1e-12));
    }

    #[test]
    fn what_arrives_is_unstable_or_gives_finite_numbers(
        service in service(), workers in 1u32..5000, load in 0.0..3.0, lost in 0.0..2.0,
        parallelism in 1u32..5000,
    ) {
        let (m, alpha) = (Concurrency::new(workers), Concurrency::new(parallelism));
        let stage = LoadDependent::new(rate(service), m, alpha, rate(lost * service)).unwrap();
        let arrivals = rate(load * stage.capacity().get());
        match stage.at(arrivals) {
            Ok(solved) => {
                prop_assert!(arrivals < stage.capacity());
                prop_assert!(solved.number.is_finite() && solved.number >= 0.0);
                prop_assert!(solved.response.mean().get() > 0.0);
                let p99 = solved.response.quantile(Ratio::new(0.99).unwrap());
                prop_assert!(p99.get() > 0.0);
            }
            Err(unstable) => {
                let lone_and_stuck = unstable.capacity == PerSecond::ZERO;
                prop_assert!(lone_and_stuck || unstable.utilisation().unwrap() > 0.999_999);
            }
        }
    }

    #[test]
    fn one_step_more_or_less_of_penalty_is_no_jump(
        workers in 1u32..64, load in 0.01..0.99,
    ) {
        let m = Concurrency::new(workers);
        let plain = MultiServer::new(rate(1.0), m).unwrap();
        let arrivals = rate(load * f64::from(workers));
        let penalty = ThreadPenalty { per_thread: rate(1e-9), free: 0 };
        let slower = LoadDependent::new(rate(1.0), m, m, penalty.lost(1)).unwrap();
        let (plain, slower) = (plain.at(arrivals).unwrap(), slower.at(arrivals).unwrap());
        let ratio = slower.response.mean().get() / plain.response.mean().get();
        prop_assert!((1.0..1.0 + 1e-5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn service_of_several_steps_keeps_its_workers_busy_as_its_mean_says(
        steps in 2usize..6, workers in 1u32..4, load in 0.05..0.99,
    ) {
        let service = PhaseType::erlang(steps, rate(1.0)).unwrap();
        let stage = PhaseServer::new(service.clone(), Concurrency::new(workers));
        let arrivals = rate(load * stage.capacity().get());
        let solved = stage.at(arrivals).unwrap();
        let exponential = MultiServer::new(rate(1.0 / steps as f64), Concurrency::new(workers));
        let exponential = exponential.unwrap().at(arrivals).unwrap();
        // Regular service waits less than exponential, and no less than half as long.
        prop_assert!(solved.queued <= exponential.queued);
        prop_assert!(solved.queued >= exponential.queued / 2.0);
        let mean = solved.queued / arrivals.get() + service.mean().get();
        prop_assert!((solved.response.mean().get() - mean).abs() < 1e-9 * mean);
    }

    #[test]
    fn one_worker_of_several_steps_is_exact_up_to_the_edge(
        steps in 2usize..20, spare in -5.9..-0.01,
    ) {
        // Pollaczek and Khinchine, with steps of the rate 1: E[S] = r, E[S²] = r·(r + 1).
        let r = steps as f64;
        let service = PhaseType::erlang(steps, rate(1.0)).unwrap();
        let arrivals = rate((1.0 - 10f64.powf(spare)) / r);
        let spared = arrivals.get().mul_add(-r, 1.0);
        let expected = r + arrivals.get() * r * (r + 1.0) / (2.0 * spared);
        let solved = PhaseServer::new(service, Concurrency::ONE).at(arrivals).unwrap();
        prop_assert_eq!(solved.means, Accuracy::Exact);
        let mean = solved.response.mean().get();
        prop_assert!((mean - expected).abs() < 1e-9 * expected, "{} is not {}", mean, expected);
    }

    #[test]
    fn the_least_workers_are_enough_and_one_less_is_not(
        arrivals in 0.01..20_000.0, service in 0.5..1000.0, times in 2.4..20.0,
    ) {
        let target = Target::p90(Duration::from_secs_f64(times / service)).unwrap();
        let meets = |workers| {
            let stage = MultiServer::new(rate(service), Concurrency::new(workers)).unwrap();
            let p90 = Ratio::new(0.9).unwrap();
            stage.at(rate(arrivals)).is_ok_and(|solved| {
                solved.response.quantile(p90).get()
                    <= Seconds::from(target.response_time()).get() * (1.0 + 1e-12)
            })
        };
        let least = least_workers(rate(arrivals), rate(service), target).unwrap().get();
        prop_assert!(meets(least), "{least} are not enough");
        prop_assert!(least == 1 || !meets(least - 1), "{least} are not the least");
    }

    #[test]
    fn the_greatest_rate_is_bearable_and_more_is_not(
        service in 0.5..1000.0, workers in 1u32..1000, times in 2.4..20.0,
    ) {
        let target = Target::p90(Duration::from_secs_f64(times / service)).unwrap();
        let (service, workers) = (rate(service), Concurrency::new(workers));
        let greatest = greatest_rate(service, workers, target).unwrap();
        let late = |rate| {
            let solved = MultiServer::new(service, workers).unwrap().at(rate);
            solved.map_or(1.0, |s| s.response.exceeds(target.response_time().into()).get())
        };
        prop_assert!(late(greatest) <= 0.1);
        prop_assert!(late(rate(greatest.get() * (1.0 + 1e-9))) > 0.1);
    }
}

#[test]
fn a_target_that_service_alone_misses_is_unreachable() {
    let target = Target::p90(Duration::from_millis(100)).unwrap();
    // 50 ms on average: Pr[S ≤ 100 ms] = 1 − e⁻².
    let error = least_workers(rate(10.0), rate(20.0), target).unwrap_err();
    let Unreachable::TooSlow { within, .. } = error else { panic!("{error}") };
    assert!((within.get() - (1.0 - (-2f64).exp())).abs() < 1e-12);
    assert_eq!(
        error.to_string(),
        "no number of workers reaches p90 ≤ 100 ms: without any queue 86.4 % stay within it"
    );
}

#[test]
fn thousands_of_millions_of_workers_are_answered_too() {
    let many = Concurrency::new(4_000_000_000);
    let stage = MultiServer::new(rate(1.0), many).unwrap();
    // Halfin and Whitt: with √a spare the waiting probability is 0.2234 [Halfin81 pp. 567–588].
    let solved = stage.at(rate(4e9 - 63_245.55)).unwrap();
    assert!((solved.waiting.get() - 0.2234).abs() < 1e-3, "{}", solved.waiting);
}

#[test]
fn where_the_approximation_takes_over_there_is_no_jump() {
    let queued = |workers: u32| {
        let service = PhaseType::erlang(2, rate(1.0)).unwrap();
        let stage = PhaseServer::new(service, Concurrency::new(workers));
        let solved = stage.at(rate(stage.capacity().get() * 0.95)).unwrap();
        (solved.means, solved.queued)
    };
    let (exact, last) = queued(127);
    let (approximate, first) = queued(128);
    assert_eq!((exact, approximate), (Accuracy::Exact, Accuracy::Approximate));
    assert!((first / last - 1.0).abs() < 0.05, "{last} and then {first}");
}

#[test]
fn no_arrivals_are_no_trouble() {
    let stage = MultiServer::new(rate(4.0), Concurrency::new(3)).unwrap();
    let solved = stage.at(PerSecond::ZERO).unwrap();
    assert_eq!((solved.number, solved.waiting), (0.0, Ratio::ZERO));
    assert_eq!(solved.response.mean().get(), 0.25);
}

#[test]
fn a_rate_that_is_capacity_up_to_rounding_is_unstable() {
    // 3 · 0.05 is a little more than 0.15, in binary fractions only.
    let stage = MultiServer::new(rate(0.05), Concurrency::new(3)).unwrap();
    let unstable = stage.at(rate(0.15)).unwrap_err();
    assert_eq!(
        unstable.to_string(),
        "unstable: 0.15/s is the most that can be served; 0.15/s arrive"
    );
}

#[test]
fn with_a_great_penalty_a_lone_event_is_stuck() {
    // φ = 1.4 μ: two at once are needed for any progress.
    let workers = Concurrency::new(4);
    let stage = LoadDependent::new(rate(1.0), workers, workers, rate(1.4)).unwrap();
    assert!(stage.at(PerSecond::ZERO).is_err());
    let occupancy = stage.occupancy(rate(1.0)).unwrap();
    assert_eq!(occupancy.probability(0), Ratio::ZERO);
    assert!(occupancy.probability(1).get() > 0.0);
}
