//! Laws chosen by name, and targets that change while a stage runs.
use std::time::Duration;

use tamarisk_catalogue::ByName;
use tamarisk_catalogue::papers::PoolSizing;
use tamarisk_control::{ClassId, Classes, Concurrency, Target};
use tamarisk_laws::{Laws, Open, WorkLimit};
use tamarisk_stage::{
    BuildError, Clock, Context, Entry, Gate, GatePermit, StageBuilder, StageObservation,
};

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

/// Two run at once.
async fn two_run(gate: &Gate) {
    let both = [(); 2].map(|()| gate.try_enter(Entry::new()).unwrap());
    tokio::time::advance(Duration::from_millis(5)).await;
    both.into_iter().for_each(GatePermit::complete);
}

#[tokio::test(start_paused = true)]
async fn a_gate_finds_how_many_may_run_whatever_else_is_chosen() {
    let dropping = || Laws::new().dropping("codel", &[]).unwrap();
    let gate = gate(dropping());
    let chosen = [Laws::new(), dropping(), Laws::new().quality("degradation", &[]).unwrap()];
    for laws in chosen {
        two_run(&gate).await;
        assert_eq!(gate.observe().law, "work-limit");
        gate.set_laws(laws).unwrap();
    }
    two_run(&gate).await;
    let found = gate.observe().workers;
    gate.set_law(Box::new(Open));
    assert_eq!((gate.observe().law, gate.observe().workers), ("open", found));
    two_run(&gate).await;
    assert!(gate.observe().total().balance());
}

#[tokio::test(start_paused = true)]
async fn a_gate_has_as_many_places_as_its_workers_law_says() {
    let pool = PoolSizing::new(Concurrency::new(4)..=Concurrency::new(32), 1);
    let builder = StageBuilder::new("db").workers_law(pool).law(Open);
    let gate = builder.clock(Clock::runtime()).gate().unwrap();
    assert_eq!(gate.observe().workers, 4);
    two_run(&gate).await;
    // The workers law is gone with the others.
    gate.set_laws(Laws::new()).unwrap();
    assert_eq!(names(&gate.observe()), [("admission", "work-limit")]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_which_nothing_says_how_many_may_run_is_not_built() {
    let laws = || Laws::new().admission("codel", &[]).unwrap();
    let no_limit = BuildError::NoLimit { stage: "db".to_owned(), law: "codel" };
    assert_eq!(StageBuilder::new("db").laws(laws()).gate().err(), Some(no_limit.clone()));
    assert!(no_limit.to_string().contains("state `workers`"), "{no_limit}");
    let open = gate(Laws::new());
    assert_eq!(open.set_laws(laws()), Err(no_limit));
    assert_eq!(open.observe().law, "work-limit", "nothing has changed");

    let stated = StageBuilder::new("db").workers(3).laws(laws()).gate().unwrap();
    assert_eq!((stated.observe().law, stated.observe().workers), ("codel", 3));
    stated.set_laws(laws().workers("fixed", &[("workers_count", 5.0)]).unwrap()).unwrap();
    assert_eq!(stated.observe().workers, 5);
    stated.set_laws(laws()).unwrap();
    assert_eq!(stated.observe().workers, 3, "as stated");
    stated.set_laws(Laws::new()).unwrap();
    assert_eq!((stated.observe().law, stated.observe().workers), ("predict-gate-trim", 3));
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
    let other = Laws::new().admission("gradient2", &[]).unwrap();
    assert!(stage().laws(other).handler(async |event: u32, _: Context| Ok(event)).is_ok());
}
