use proptest::prelude::*;

use tamarisk_control::global::{STAGES_MAX, StageSample, Times};
use tamarisk_control::{Class, Concurrency, Priority, Reason};

use super::entry::RETRY_MAX;
use super::*;

const R: Duration = Duration::from_millis(200);

fn classes() -> Classes {
    Classes::single(Target::p90(R).unwrap())
}

fn ms(millis: f64) -> Times {
    let time = Duration::from_secs_f64(millis / 1e3);
    Times { mean: time, percentile: time }
}

/// One worker that needs `millis` for each of `processed` events.
fn stage(entered: u64, processed: u64, millis: f64) -> StageSample {
    let times = Some(ms(millis));
    let workers = Concurrency::ONE;
    StageSample { entered, processed, workers, service: times, response: times }
}

fn sample(law: &mut GlobalController, stages: &[StageSample], edges: &[(usize, usize, f64)]) {
    law.on_sample(&GraphSample { lasted: Duration::from_secs(1), stages, edges });
}

/// Parse (2 ms), then render (10 ms): 100 a second at best.
fn line() -> GlobalController {
    let mut law = GlobalController::new(&classes());
    sample(&mut law, &[stage(80, 80, 2.0), stage(0, 80, 10.0)], &[(0, 1, 80.0)]);
    law
}

fn targets(law: &GlobalController, stages: usize) -> Vec<f64> {
    let target = |stage| law.target(stage, ClassId::DEFAULT).unwrap().response_time();
    (0..stages).map(|stage| target(stage).as_secs_f64() * 1e3).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-3
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn admitted(law: &mut GlobalController, now: Timestamp, asking: usize) -> usize {
    (0..asking).filter(|_| law.on_entry(now) == Decision::Admit).count()
}

#[test]
fn stages_share_the_promise_as_they_are_used() {
    // 12 ms are service; of the other 188 one part in six is for the first.
    let targets = targets(&line(), 2);
    assert!(close(targets[0], 2.0 + 188.0 / 6.0), "{targets:?}");
    assert!(close(targets[1], 10.0 + 188.0 * 5.0 / 6.0), "{targets:?}");
}

#[test]
fn more_workers_leave_more_time_to_the_others() {
    let mut law = GlobalController::new(&classes());
    let second = StageSample { workers: Concurrency::new(20), ..stage(0, 80, 10.0) };
    sample(&mut law, &[stage(80, 80, 2.0), second], &[(0, 1, 80.0)]);
    let targets = targets(&law, 2);
    assert!(close(targets[0], 2.0 + 188.0 * 0.8), "{targets:?}");
}

#[test]
fn what_was_learned_of_positions_is_void_when_they_mean_other_stages() {
    let mut law = line();
    law.stages_changed();
    assert_eq!((law.share(0), law.target(1, ClassId::DEFAULT)), (None, None));
    // The slow stage now comes first: nothing of the fast one is averaged in.
    sample(&mut law, &[stage(80, 80, 10.0), stage(0, 80, 2.0)], &[(0, 1, 80.0)]);
    let mut fresh = GlobalController::new(&classes());
    sample(&mut fresh, &[stage(80, 80, 10.0), stage(0, 80, 2.0)], &[(0, 1, 80.0)]);
    assert!((0..2).all(|stage| law.share(stage) == fresh.share(stage)));
}

#[test]
fn shares_move_with_the_flow() {
    let diamond = |left: f64| {
        let mut law = GlobalController::new(&classes());
        let count = |share: f64| (100.0 * share) as u64;
        let stages =
            [stage(100, 100, 1.0), stage(0, count(left), 5.0), stage(0, count(1.0 - left), 5.0)];
        let edges = [(0, 1, 100.0 * left), (0, 2, 100.0 * (1.0 - left))];
        sample(&mut law, &stages, &edges);
        law
    };
    let law = diamond(0.75);
    let shares: Vec<Share> = (0..3).map(|stage| law.share(stage).unwrap()).collect();
    // The left one is the slowest: 200 a second are three quarters of 266.7.
    assert!(close(shares[1].throughput.get(), 200.0), "{shares:?}");
    assert!(close(shares[2].throughput.get(), 200.0 / 3.0), "{shares:?}");
    let parts = targets(&law, 3);
    let way = parts[0] + 0.75 * parts[1] + 0.25 * parts[2];
    assert!(close(way, 200.0) && parts[1] > parts[2], "{parts:?}");

    let mirrored = targets(&diamond(0.25), 3);
    assert!(close(mirrored[1], parts[2]) && close(mirrored[2], parts[1]), "{mirrored:?}");
}

#[test]
fn stages_whose_slow_events_do_not_meet_may_promise_more_together() {
    let mut law = GlobalController::new(&classes());
    // As exponential times have it.
    let spread = Times { percentile: Duration::from_millis(23), ..ms(10.0) };
    let spread = |entered| StageSample { response: Some(spread), ..stage(entered, 80, 10.0) };
    for _ in 0..20 {
        sample(&mut law, &[spread(80), spread(0)], &[(0, 1, 80.0)]);
    }
    let targets = targets(&law, 2);
    // 46 ms are the two percentiles, and 20 + √2 · 13 that of both together.
    let expected = 200.0 * 46.0 / (20.0 + 2_f64.sqrt() * 13.0);
    assert!((targets[0] + targets[1] - expected).abs() < 0.05 * expected, "{targets:?}");
}

#[test]
fn a_promise_that_service_alone_breaks_is_shared_as_service_is() {
    let mut law = GlobalController::new(&classes());
    sample(&mut law, &[stage(1, 1, 100.0), stage(0, 1, 300.0)], &[(0, 1, 1.0)]);
    let targets = targets(&law, 2);
    assert!(close(targets[0], 50.0) && close(targets[1], 150.0), "{targets:?}");
}

#[test]
fn all_may_enter_before_anything_is_known() {
    let mut law = GlobalController::new(&classes());
    assert_eq!(admitted(&mut law, at(0), 1000), 1000);
    assert!(law.share(0).is_none() && law.target(0, ClassId::DEFAULT).is_none());
}

#[test]
fn as_many_enter_as_may_be_inside_and_then_as_many_as_leave() {
    let mut law = line();
    // 0.2 s of 100 a second.
    law.on_tick(at(0), 0);
    assert_eq!(admitted(&mut law, at(0), 1000), 20);
    // In 100 ms ten leave.
    assert_eq!(admitted(&mut law, at(100), 1000), 10);
    law.on_tick(at(200), 50);
    assert_eq!(admitted(&mut law, at(200), 1000), 0);
    assert_eq!(admitted(&mut law, at(700), 1000), 20);
}

#[test]
fn overload_is_steered_to_the_aim() {
    let mut law = line();
    admitted(&mut law, at(0), 1000);
    sample(&mut law, &[stage(80, 80, 2.0), stage(0, 80, 10.0)], &[(0, 1, 80.0)]);
    // α moves half of the way to 1 each time, from 0.434: (0.859 · 0.8 · 0.2 s) · 100 a second.
    law.on_tick(at(1000), 0);
    assert_eq!(admitted(&mut law, at(1000), 99), 13);
    sample(&mut law, &[stage(80, 80, 2.0), stage(0, 80, 10.0)], &[(0, 1, 80.0)]);
    law.on_tick(at(2000), 0);
    assert_eq!(admitted(&mut law, at(2000), 1000), 20);
}

#[test]
fn a_rejection_says_when_there_will_be_room() {
    let mut law = line();
    law.on_tick(at(0), 110);
    let Decision::Reject(rejection) = law.on_entry(at(0)) else { panic!("it is full") };
    assert_eq!(rejection.reason, Reason::RateExceeded);
    let wait = rejection.retry_after.unwrap();
    assert!(wait > Duration::from_millis(909) && wait < Duration::from_millis(911), "{wait:?}");
}

#[test]
fn while_too_many_are_inside_what_is_done_is_what_can_be_done() {
    let mut law = line();
    law.on_tick(at(0), 50);
    law.on_tick(at(100), 10);
    sample(&mut law, &[stage(40, 40, 2.0), stage(0, 40, 10.0)], &[(0, 1, 40.0)]);
    assert!(close(law.share(1).unwrap().throughput.get(), 70.0));
    law.on_tick(at(200), 50);
    sample(&mut law, &[stage(40, 40, 2.0), stage(0, 40, 10.0)], &[(0, 1, 40.0)]);
    assert!(close(law.share(1).unwrap().throughput.get(), 55.0));
    // With few inside it is only that no more came.
    law.on_tick(at(0), 1);
    sample(&mut law, &[stage(40, 40, 2.0), stage(0, 40, 10.0)], &[(0, 1, 40.0)]);
    assert!(close(law.share(1).unwrap().throughput.get(), 100.0));
}

#[test]
fn what_a_stage_rejects_was_asked_for_all_the_same() {
    let mut law = GlobalController::new(&classes());
    sample(&mut law, &[stage(200, 200, 2.0), stage(0, 100, 10.0)], &[(0, 1, 200.0)]);
    assert!(close(law.share(1).unwrap().throughput.get(), 100.0));
}

#[test]
fn targets_stay_until_they_are_a_twentieth_off() {
    let mut law = line();
    let before = targets(&law, 2);
    sample(&mut law, &[stage(80, 80, 2.0), stage(0, 80, 10.5)], &[(0, 1, 80.0)]);
    assert_eq!(targets(&law, 2), before);
    sample(&mut law, &[stage(80, 80, 2.0), stage(0, 80, 15.0)], &[(0, 1, 80.0)]);
    let after = targets(&law, 2);
    assert!(after[1] > before[1] && close(after[0] + after[1], 200.0), "{after:?}");
}

#[test]
fn every_class_has_its_own_promise_shared() {
    let class = |name: &str, millis| Class {
        name: name.into(),
        target: Target::p90(Duration::from_millis(millis)).unwrap(),
        priority: Priority(0),
    };
    let mut law = GlobalController::new(
        &Classes::new(vec![class("gold", 100), class("plain", 400)]).unwrap(),
    );
    sample(&mut law, &[stage(80, 80, 2.0), stage(0, 80, 10.0)], &[(0, 1, 80.0)]);
    let whole = |class| -> f64 {
        (0..2).map(|stage| law.target(stage, class).unwrap().response_time().as_secs_f64()).sum()
    };
    assert!(close(whole(ClassId::new(0)), 0.1) && close(whole(ClassId::new(1)), 0.4));
    assert!(law.target(0, ClassId::new(2)).is_none());
}

#[test]
fn a_new_promise_is_shared_by_what_was_learned() {
    let mut law = line();
    law.set_targets(&Classes::single(Target::p90(Duration::from_millis(400)).unwrap()));
    let targets = targets(&law, 2);
    assert!(close(targets[0] + targets[1], 400.0), "{targets:?}");
}

#[test]
fn flows_without_an_answer_change_nothing() {
    let mut law = line();
    let before = targets(&law, 2);
    let endless = [(0, 1, 80.0), (1, 0, 800.0)];
    sample(&mut law, &[stage(80, 80, 50.0), stage(0, 80, 50.0)], &endless);
    assert_eq!(targets(&law, 2), before);
    sample(&mut law, &[stage(0, 80, 50.0), stage(0, 80, 50.0)], &[]);
    assert_eq!(targets(&law, 2), before);
    let stages = [stage(80, 80, 50.0), stage(0, 80, 50.0)];
    law.on_sample(&GraphSample { lasted: Duration::ZERO, stages: &stages, edges: &[] });
    assert_eq!(targets(&law, 2), before);
}

#[test]
fn a_graph_that_is_too_large_is_left_alone() {
    let mut law = GlobalController::new(&classes());
    sample(&mut law, &[stage(1, 1, 1.0); STAGES_MAX + 1], &[]);
    assert!(law.share(0).is_none());
    assert_eq!(law.on_entry(at(0)), Decision::Admit);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn whatever_is_told_decisions_are_finite(
        stages in prop::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>()), 0..6),
        edges in prop::collection::vec((0..7_usize, 0..7_usize, any::<f64>()), 0..12),
        lasted in any::<u64>(),
        ticks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..6),
    ) {
        let mut law = GlobalController::new(&classes());
        let stages: Vec<_> = stages
            .into_iter()
            .map(|(entered, processed, workers, mean, percentile)| {
                let nanos = Duration::from_nanos;
                let times = Some(Times { mean: nanos(mean), percentile: nanos(percentile) });
                let workers = Concurrency::new(workers);
                StageSample { entered, processed, workers, service: times, response: times }
            })
            .collect();
        let lasted = Duration::from_nanos(lasted);
        for (now, inside) in ticks {
            law.on_tick(Timestamp::from_nanos(now), inside);
            law.on_sample(&GraphSample { lasted, stages: &stages, edges: &edges });
            if let Decision::Reject(rejection) = law.on_entry(Timestamp::from_nanos(now)) {
                prop_assert!(rejection.retry_after <= Some(RETRY_MAX));
            }
            for stage in 0..stages.len() {
                law.target(stage, ClassId::DEFAULT);
                if let Some(share) = law.share(stage) {
                    prop_assert!(share.visits.is_finite() && share.spare.is_finite());
                    prop_assert!(share.throughput.get().is_finite());
                }
            }
            law.readings(&mut |reading| assert!(reading.value.is_finite(), "{}", reading.name));
        }
    }
}
