//! Laws chosen by name, and targets that change while a stage runs.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Target};
use tamarisk_laws::WorkLimit;
use tamarisk_laws::catalogue::Laws;
use tamarisk_stage::{BuildError, Clock, Context, Entry, Gate, StageBuilder, StageObservation};

fn p90(millis: u64) -> Target {
    Target::p90(Duration::from_millis(millis)).unwrap()
}

fn gate(laws: Laws) -> Gate {
    StageBuilder::new("db").target(p90(100)).laws(laws).clock(Clock::runtime()).gate().unwrap()
}

fn names(seen: &StageObservation) -> Vec<(&'static str, &'static str)> {
    seen.laws.iter().map(|law| (law.rules, law.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stage_shows_the_laws_that_were_named_and_their_constants() {
    let laws = Laws::new()
        .admission("threshold", &[("queued_count", 7.0)])
        .unwrap()
        .dropping("selective-dropper", &[])
        .unwrap()
        .workers("pool-sizing", &[("workers_min_count", 2.0), ("workers_max_count", 9.0)])
        .unwrap()
        .termination("termination-threshold", &[("upper_targets_ratio", 3.0)])
        .unwrap();
    let gate = gate(laws);
    // The governor's first tick.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let seen = gate.observe();
    assert_eq!((seen.law, seen.workers), ("threshold", 2));
    assert_eq!(
        names(&seen),
        [
            ("admission", "threshold"),
            ("workers", "pool-sizing"),
            ("termination", "termination-threshold"),
            ("dropping", "selective-dropper"),
        ]
    );
    assert_eq!(seen.laws[0].knobs, [("queued_count", 7.0)]);
    assert_eq!(seen.classes[0].run_limit, Some(Duration::from_millis(300)));
}

#[tokio::test(start_paused = true)]
async fn a_new_target_holds_from_the_next_event_on_and_disturbs_nobody_inside() {
    let laws = Laws::new().admission("bouncer", &[]).unwrap();
    let laws = laws.workers("fixed", &[("workers_count", 1.0)]).unwrap();
    let stage = StageBuilder::new("db").target(p90(500)).laws(laws);
    let gate = stage.clock(Clock::runtime()).gate().unwrap();
    // Events of 50 ms, so that one behind another takes 100.
    for _ in 0..40 {
        let permit = gate.enter(Entry::new()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        permit.complete();
    }
    let running = gate.enter(Entry::new()).await.unwrap();
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.enter(Entry::new()).await.map(tamarisk_stage::GatePermit::complete) }
    });
    tokio::task::yield_now().await;
    gate.set_targets(&[(ClassId::DEFAULT, p90(10))]);
    assert_eq!(gate.observe().classes[0].target, Duration::from_millis(10));
    assert_eq!(gate.classes().at(ClassId::DEFAULT).target, p90(10));
    let third = tokio::time::timeout(Duration::from_secs(1), gate.enter(Entry::new())).await;
    assert!(matches!(third, Ok(Err(_))), "100 ms fit into 500, and not into 10");
    running.complete();
    waiting.await.unwrap().unwrap();
    let total = gate.observe().total();
    assert!(total.balance());
    assert_eq!((total.completed, total.rejected), (42, 1));
}

#[tokio::test(start_paused = true)]
async fn new_laws_replace_the_old_ones_whole() {
    let quality = Laws::new().quality("degradation", &[]).unwrap();
    let gate = gate(quality.workers("fixed", &[("workers_count", 3.0)]).unwrap());
    let inside = gate.enter(Entry::new()).await.unwrap();
    let laws = Laws::new().admission("vegas", &[]).unwrap();
    gate.set_laws(laws).unwrap();
    let seen = gate.observe();
    assert_eq!(names(&seen), [("admission", "vegas")]);
    assert!(seen.workers > 3, "its limit is the law's now: {}", seen.workers);
    inside.complete();
    assert!(gate.observe().total().balance());
}

#[tokio::test]
async fn constants_that_do_not_go_together_say_so() {
    let laws = Laws::new().admission("red", &[("queue_min_count", 50.0)]).unwrap();
    let built = StageBuilder::new("db").laws(laws.clone()).gate();
    assert!(matches!(built, Err(BuildError::Laws { .. })));
    let gate = gate(Laws::new());
    assert!(gate.set_laws(laws).unwrap_err().to_string().contains("\"db\""));
    assert_eq!(gate.observe().law, "work-limit");
}

#[tokio::test]
async fn a_stage_with_workers_refuses_the_law_that_is_for_gates() {
    let refused = |builder: StageBuilder| {
        let error = builder.handler(async |event: u32, _: Context| Ok(event)).err().unwrap();
        assert_eq!(error, BuildError::GateLaw { stage: "db".to_owned() });
        assert!(error.to_string().contains("predict-gate-trim"), "{error}");
    };
    let stage = || StageBuilder::new("db").target(p90(100));
    let laws = Laws::new().admission("work-limit", &[]).unwrap();
    refused(stage().laws(laws.clone()));
    refused(stage().laws(laws.quality("degradation", &[]).unwrap()));
    refused(stage().law(WorkLimit::new(&Classes::single(p90(100)))));
    let other = Laws::new().admission("opaque-upstream", &[]).unwrap();
    assert!(stage().laws(other).handler(async |event: u32, _: Context| Ok(event)).is_ok());
}
