//! What the text of [Welsh02 §5.4, §6.2] says of the figures that show its controllers.

use std::time::Duration;

use tamarisk_catalogue::ByName;
use tamarisk_control::{Classes, Target, Timestamp};
use tamarisk_laws::{Knobs, Laws};
use tamarisk_model::controller_figures as figures;
use tamarisk_model::figures::Figure;
use tamarisk_model::sim::{
    Client, Distribution, Load, Outcome, Profile, Scenario, Seen, Simulation, Stage, Watch, What,
};

fn values(figure: &Figure, panel: usize, line: usize) -> Vec<f64> {
    figure.panels[panel].lines[line].points.iter().map(|(_, y)| y.unwrap()).collect()
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How often `values` turn between at most `low` and at least `high`.
fn turns(values: &[f64], low: f64, high: f64) -> usize {
    let ends = values.iter().filter_map(|&value| match value {
        value if value >= high => Some(true),
        value if value <= low => Some(false),
        _ => None,
    });
    let mut ends: Vec<bool> = ends.collect();
    ends.dedup();
    ends.len().saturating_sub(1)
}

#[test]
fn figure_30_follows_three_bursts_up_to_twenty_threads_and_shrinks_between_them() {
    let figure = figures::figure_30();
    let (queue, threads) = (values(&figure, 0, 0), values(&figure, 1, 0));
    let bursts = [20..100, 140..220, 260..340].map(|burst| greatest(&threads[burst]));
    assert!(bursts.is_sorted() && bursts[0] > 4.0 && bursts[1] > 9.0, "{bursts:?}");
    assert_eq!(bursts[2], 20.0, "the most that may be");
    for (second, pair) in threads.windows(2).enumerate() {
        let step = pair[1] - pair[0];
        assert!(step <= 1.0 || queue[second] > 0.0, "{step} at {second} s");
    }
    let pauses = [130, 250, 370].map(|second| threads[second]);
    assert_eq!(pauses, [1.0; 3], "without demand the pool shrinks");
}

#[test]
fn the_threshold_of_the_queue_decides_how_far_the_pool_grows() {
    // Twice what one worker does.
    let most = |queued_count: f64| {
        let stage = Stage::new("stage", 1, Distribution::Exponential(Duration::from_millis(20)));
        let knobs = [("workers_max_count", 20.0), ("queued_count", queued_count)];
        let laws = Laws::new().workers("pool-sizing", &knobs).unwrap();
        let set = course(stage, 100.0, 60, &laws);
        set.iter().map(|(_, knobs)| knobs.workers.get()).max().unwrap()
    };
    let grown = [0.0, 100.0, 1e6].map(most);
    assert!(grown[0] > grown[1] && grown[1] > 2 && grown[2] == 1, "{grown:?}");
}

/// Printed: about 8 threads.
#[test]
fn figure_31_is_a_saw_tooth_about_eight_threads_with_detection_and_collapses_without() {
    let figure = figures::figure_31();
    let [without, with] = [0, 1].map(|line| values(&figure, 0, line));
    let [threads_without, threads] = [0, 1].map(|line| values(&figure, 1, line));
    assert_eq!(*threads_without.last().unwrap(), 100.0);
    // (8 ÷ 99)² of 400 a second.
    assert!(mean(&without[120..]) < 5.0, "{}", mean(&without[120..]));
    assert!(mean(&with[20..]) > 0.75 * 400.0, "{}", mean(&with[20..]));
    let (few, many) = (least(&threads[20..]), greatest(&threads[20..]));
    assert!(few >= 3.0 && many <= 14.0, "{few} to {many} threads");
    let average = mean(&threads[20..]);
    assert!((6.0..10.0).contains(&average), "{average}");
    let turns = turns(&threads, 5.0, 11.0);
    assert!(turns >= 4, "{turns} turns between 8 ± 3 in 200 s");
}

/// Printed: the optimum is 200; reduced to just below it, then increased until near the peak, and
/// so on.
#[test]
fn figure_32_oscillates_just_below_the_optimum_of_two_hundred() {
    let figure = figures::figure_32();
    let (batch, throughput) = (values(&figure, 0, 0), values(&figure, 1, 0));
    assert_eq!(batch[0], 1000.0);
    let reached = batch.iter().position(|&batch| batch < 200.0).unwrap();
    assert!(reached < 20, "after {reached} s");
    let (small, large) = (least(&batch[20..]), greatest(&batch[20..]));
    assert!(small > 50.0 && large < 250.0, "{small} to {large}");
    assert!(turns(&batch, 120.0, 130.0) >= 8, "{} turns", turns(&batch, 120.0, 130.0));
    assert!(turns(&batch, 100.0, 150.0) >= 20, "{} turns", turns(&batch, 100.0, 150.0));
    // 200 events take 20 + 100 ms.
    let peak = 200.0 / 0.12;
    assert!(mean(&throughput[20..]) > 0.85 * peak, "{}", mean(&throughput[20..]));
}

#[test]
fn where_larger_batches_are_always_better_the_smallest_that_sustains_most_is_held() {
    // A batch of b takes 20 + b/10 ms: of 1000 it does 8,333 a second, of 600 nine tenths of that.
    let stage = Stage::new("stage", 1, Distribution::Constant(Duration::from_micros(100)));
    let stage = stage.batch_cost(Duration::from_millis(20));
    let laws = Laws::new().batching("throughput-batching", &[]).unwrap();
    let set = course(stage, 9000.0, 300, &laws);
    let at = |second: u64| {
        let second = Duration::from_secs(second);
        set.iter()
            .rfind(|(at, _)| *at <= second)
            .map_or(1000.0, |(_, knobs)| knobs.batch.get().into())
    };
    let batches: Vec<f64> = (0..300).map(at).collect();
    let average = mean(&batches[30..]);
    assert!((400.0..650.0).contains(&average), "{average}");
    assert!(turns(&batches[30..], 400.0, 600.0) >= 20, "{batches:?}");
}

/// Printed: no thread is added at 100 and 200 packets a second, two at 400 and at 1,000; latency
/// at 400 and 1,000 is below that at 200; one thread alone breaks down at 1,000.
#[test]
fn figure_41_adds_threads_where_one_is_not_enough_and_answers_sooner_for_it() {
    let figure = figures::figure_41();
    let [one, sized] = [0, 1].map(|panel| values(&figure, panel, 0));
    let added: Vec<_> = values(&figure, 2, 0).iter().map(|threads| threads - 1.0).collect();
    let printed = [0.0, 0.0, 2.0, 2.0];
    assert_eq!(added[..2], printed[..2]);
    // Threads are added where they were, and within a factor of two as many: not two and two.
    for (added, printed) in added[2..].iter().zip(&printed[2..]) {
        assert!(
            (printed / 2.0..=2.0 * printed).contains(added),
            "{added} added, printed {printed}"
        );
    }
    assert!(one[2] > 5_000.0 && one[3] > 20_000.0, "{one:?}");
    assert!(sized[2] < sized[1] && sized[3] < sized[1], "{sized:?}");
}

/// Printed: a thread is added at each of two points, and three are enough. 1,000 packets a second
/// keep 3.04 threads busy here, so that a third is added in the end.
#[test]
fn figure_42_adds_a_thread_at_each_point_where_the_queue_grows() {
    let figure = figures::figure_42();
    let (queue, threads) = (values(&figure, 0, 0), values(&figure, 1, 0));
    let steps: Vec<f64> = threads.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|&step| step == 0.0 || step == 1.0), "{threads:?}");
    let last = *threads.last().unwrap();
    assert!((3.0..=4.0).contains(&last), "{last}");
    assert!(greatest(&queue) < 500.0 && greatest(&queue[80..]) < 100.0, "{queue:?}");
}

/// [SERT06 §3.2]: UB whenever p ≤ LW, and LB while more than HW are lost.
#[test]
fn below_the_low_watermark_events_run_to_the_upper_bound_at_once() {
    /// When events were lost and when they were ended, in seconds.
    #[derive(Default)]
    struct Losses {
        offered: Vec<u64>,
        lost: Vec<u64>,
        ended: Vec<u64>,
    }
    impl Watch for Losses {
        fn see(&mut self, seen: &Seen) {
            let second = seen.at.since(Timestamp::ZERO).as_secs();
            match seen.what {
                What::Offered => self.offered.push(second),
                What::Left(Outcome::Terminated) => self.ended.push(second),
                What::Left(Outcome::Rejected(_)) => self.lost.push(second),
                _ => {}
            }
        }
    }
    // One event in 500 takes 3 s: three times the target, which is LB, and less than UB. Of 250 a
    // second few find the bucket empty; for forty seconds six times as many come.
    let long = Distribution::bimodal(Duration::from_millis(5), Duration::from_secs(3), 0.002);
    let rate = Profile::constant(250.0);
    let rate = rate.spike(Duration::from_secs(200), Duration::from_secs(240), 1500.0);
    let client = Client::new("crowd", "stage", Load::poisson(rate));
    let stage = Stage::new("stage", 20, long);
    let scenario = Scenario::new(one_class(), Duration::from_secs(600)).stage(stage).client(client);
    let bucket = [("rate_per_second", 300.0), ("burst_count", 8.0)];
    let laws = Laws::new().admission("rate-limit", &bucket).unwrap();
    let laws = laws.termination("termination-threshold", &[]).unwrap();
    let mut losses = Losses::default();
    let simulation = Simulation::new(&scenario).unwrap();
    simulation.start(1).laws("stage", &laws).unwrap().watch(&mut losses).finish();
    let within = |seconds: &[u64], range: std::ops::Range<u64>| {
        seconds.iter().filter(|second| range.contains(second)).count()
    };
    // The overload is over at 240 s, and the interval in which it ended at 250.
    for calm in [0..200, 250..600] {
        let offered = within(&losses.offered, calm.clone()) as f64;
        let share = within(&losses.lost, calm.clone()) as f64 / offered;
        assert!(0.001 < share && share < 0.05, "{share}");
        assert_eq!(within(&losses.ended, calm), 0);
    }
    let ended = within(&losses.ended, 210..250);
    assert!(ended > 10, "{ended} were ended under overload");
}

fn one_class() -> Classes {
    Classes::single(Target::p90(Duration::from_secs(1)).unwrap())
}

/// What laws set, and when.
fn course(stage: Stage, per_second: f64, seconds: u64, laws: &Laws) -> Vec<(Duration, Knobs)> {
    struct Set(Vec<(Duration, Knobs)>);
    impl Watch for Set {
        fn see(&mut self, _: &Seen) {}

        fn set(&mut self, at: Timestamp, _: u32, knobs: &Knobs) {
            self.0.push((at.since(Timestamp::ZERO), *knobs));
        }
    }
    let client = Client::poisson("crowd", "stage", per_second);
    let duration = Duration::from_secs(seconds);
    let scenario = Scenario::new(one_class(), duration).stage(stage).client(client);
    let mut set = Set(Vec::new());
    let simulation = Simulation::new(&scenario).unwrap();
    simulation.start(1).laws("stage", laws).unwrap().watch(&mut set).finish();
    set.0
}
