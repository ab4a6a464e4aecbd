//! A law over all stages: one promise for the whole way, kept where stages alone break it.
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use miette::{GraphicalReportHandler, GraphicalTheme};
use tamarisk_catalogue::papers::GlobalController;
use tamarisk_catalogue::{admission, global};
use tamarisk_control::global::{GraphSample, Share};
use tamarisk_control::{
    ClassId, Classes, Decision, GlobalLaw, Ratio, Reading, Reason, Target, Timestamp,
};
use tamarisk_model::scenario;
use tamarisk_model::sim::{
    Client, Distribution, Load, Profile, Report, Scenario, Simulation, Stage,
};

const PROMISE: f64 = 0.3;

fn three_stages() -> scenario::File {
    scenario::load(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/three-stages.toml"
    )))
    .unwrap()
}

/// With this law at every stage, and the global law or without.
fn run(law: &str, is_global: bool) -> Report {
    let mut scenario = three_stages().scenario;
    scenario.global = scenario.global.filter(|_| is_global);
    let simulation = Simulation::new(&scenario).unwrap();
    let mut run = simulation.start(7);
    // As after a long calm: with the rate that it begins with it holds this load back.
    let calm = [("rate_initial_per_second", 5000.0), ("burst_count", 10.0)];
    let knobs = if law == "response-time" { &calm[..] } else { &[] };
    for stage in &scenario.stages {
        run = run
            .law(&stage.name, admission(law).unwrap().law_with(&scenario.classes, knobs).unwrap())
            .unwrap();
    }
    run.finish()
}

fn p90(report: &Report) -> f64 {
    report.classes[0].response.quantile(0.9)
}

/// Of the events that stages behind the first were sent, how many they rejected.
fn rejected_late(report: &Report) -> f64 {
    let (mut offered, mut rejected) = (0, 0);
    for stage in &report.stages[1..] {
        offered += stage.classes[0].counts.offered;
        rejected += stage.classes[0].counts.rejected + stage.classes[0].counts.dropped;
    }
    rejected as f64 / offered as f64
}

/// What is claimed in [Fair07 §5.4]: that the whole keeps its promise, with rejections at the
/// first stage, where stages of their own do not and reject after work was spent.
#[test]
fn the_promise_of_the_whole_is_kept_where_stages_alone_break_it() {
    for law in ["predict-gate-trim", "response-time", "p"] {
        let (alone, together) = (run(law, false), run(law, true));
        assert!(p90(&alone) > 1.3 * PROMISE, "{law}: {}", p90(&alone));
        assert!(p90(&together) < PROMISE, "{law}: {}", p90(&together));
        assert!(together.classes[0].seconds_over <= 2, "{law}");
        // The last stage does 100 a second.
        let goodput = together.classes[0].goodput();
        assert!(goodput > 78.0 && goodput > 1.5 * alone.classes[0].goodput(), "{law}: {goodput}");
        assert!(rejected_late(&together) < 0.12, "{law}: {}", rejected_late(&together));
        assert!(rejected_late(&alone) > 0.13, "{law}: {}", rejected_late(&alone));
    }
}

/// Who divides the promise by hand keeps it, and pays for it.
#[test]
fn thirds_by_hand_serve_less() {
    let mut scenario = three_stages().scenario;
    scenario.global = None;
    let third = Classes::single(Target::p90(Duration::from_millis(100)).unwrap());
    let simulation = Simulation::new(&scenario).unwrap();
    let mut by_hand = simulation.start(7);
    for stage in &scenario.stages {
        let law = admission("predict-gate-trim").unwrap().law(&third);
        by_hand = by_hand.law(&stage.name, law).unwrap();
    }
    let (by_hand, together) = (by_hand.finish(), run("predict-gate-trim", true));
    let goodput = |report: &Report| report.classes[0].goodput();
    assert!(p90(&by_hand) < PROMISE);
    assert!(goodput(&together) > 1.02 * goodput(&by_hand), "{}", goodput(&by_hand));
    assert!(
        rejected_late(&together) < 0.4 * rejected_late(&by_hand),
        "{}",
        rejected_late(&by_hand)
    );
}

#[test]
fn at_the_door_alone_it_is_enough_and_nothing_is_rejected_behind() {
    let report = run("open", true);
    assert!(p90(&report) < PROMISE && report.classes[0].goodput() > 85.0);
    assert_eq!(rejected_late(&report), 0.0);
    let reasons: Vec<_> = report.stages[0].rejections.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, [Reason::RateExceeded]);
}

#[test]
fn nobody_is_rejected_who_can_be_served() {
    let mut scenario = three_stages().scenario;
    scenario.clients = vec![Client::poisson("readers", "parse", 60.0)];
    let report = Simulation::new(&scenario).unwrap().run(1);
    assert!(report.classes[0].rejected_share() < 0.003, "{}", report.classes[0].rejected_share());
}

#[test]
fn the_report_shows_what_fell_to_whom() {
    let report = run("open", true).global.unwrap();
    assert_eq!(report.law, "global-controller");
    let targets: Vec<_> =
        report.stages.iter().map(|stage| stage.targets[0].response_time().as_secs_f64()).collect();
    // Each slower than its service at the 90th percentile, the longest for the longest work.
    assert!(
        targets[0] > 0.046 && targets[2] > targets[0] && targets[1] > targets[2],
        "{targets:?}"
    );
    let shares: Vec<_> = report.stages.iter().map(|stage| stage.share.unwrap()).collect();
    assert!(shares.iter().all(|share| (share.visits - 1.0).abs() < 0.1), "{shares:?}");
    assert!(run("open", false).global.is_none());
}

/// Two ways lead on from the first stage; the flow changes over from one to the other.
#[test]
fn shares_follow_the_flow() {
    let classes = Classes::new(
        ["left", "right"]
            .map(|name| tamarisk_control::Class {
                name: name.to_owned(),
                target: Target::p90(Duration::from_millis(300)).unwrap(),
                priority: tamarisk_control::Priority(0),
            })
            .to_vec(),
    )
    .unwrap();
    let service = |millis| Distribution::Exponential(Duration::from_millis(millis));
    let law = global("global-controller", &[]).unwrap();
    let load = |first: f64, then: f64| {
        Load::poisson(Profile::constant(first).step(Duration::from_secs(30), then))
    };
    let at = |seconds| {
        let scenario = Scenario::new(classes.clone(), Duration::from_secs(seconds))
            .stage(
                Stage::new("door", 2, service(5))
                    .routes_of("left", [route("a")])
                    .routes_of("right", [route("b")]),
            )
            .stage(Stage::new("a", 4, service(20)))
            .stage(Stage::new("b", 4, service(20)))
            .client(Client::new("l", "door", load(90.0, 10.0)).class("left", 1.0))
            .client(Client::new("r", "door", load(10.0, 90.0)).class("right", 1.0))
            .global(law.clone());
        let report = Simulation::new(&scenario).unwrap().run(3).global.unwrap();
        [1, 2].map(|stage: usize| report.stages[stage].share.unwrap())
    };
    let [a, b] = at(29);
    assert!((a.visits - 0.9).abs() < 0.06 && (b.visits - 0.1).abs() < 0.06, "{a:?} {b:?}");
    assert!(a.spare > 2.0 * b.spare && a.throughput.get() > 4.0 * b.throughput.get());
    let [a, b] = at(60);
    assert!((a.visits - 0.1).abs() < 0.06 && (b.visits - 0.9).abs() < 0.06, "{a:?} {b:?}");
    assert!(b.spare > 2.0 * a.spare && b.throughput.get() > 4.0 * a.throughput.get());
}

fn route(to: &str) -> tamarisk_model::sim::Route {
    tamarisk_model::sim::Route { to: to.to_owned(), probability: 1.0 }
}

#[test]
fn a_law_of_ones_own_takes_the_place_of_the_scenarios() {
    let scenario = three_stages().scenario;
    let simulation = Simulation::new(&scenario).unwrap();
    let law = Box::new(GlobalController::new(&scenario.classes));
    assert_eq!(simulation.start(1).global(law).unwrap().finish(), simulation.run(1));
}

#[test]
fn a_graph_that_is_too_large_is_rejected() {
    let service = Distribution::Constant(Duration::from_millis(1));
    let classes = Classes::single(Target::p90(Duration::from_millis(300)).unwrap());
    let mut scenario = Scenario::new(classes, Duration::from_secs(1))
        .client(Client::poisson("users", "0", 1.0))
        .global(global("global-controller", &[]).unwrap());
    for index in 0..65 {
        scenario = scenario.stage(Stage::new(index.to_string(), 1, service.clone()));
    }
    let error = Simulation::new(&scenario).unwrap_err().to_string();
    assert_eq!(error, "the global law is invalid: a graph of 65 stages is not between 1 and 64");
}

/// Lets everybody in, and adds up what it is told: who entered, and who was processed.
#[derive(Debug)]
struct Recorder(Arc<[AtomicU64; 2]>);

impl GlobalLaw for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn on_entry(&mut self, _: Timestamp) -> Decision {
        Decision::Admit
    }

    fn on_tick(&mut self, _: Timestamp, _: u64) {}

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn on_sample(&mut self, sample: &GraphSample<'_>) {
        for stage in sample.stages {
            self.0[0].fetch_add(stage.entered, Ordering::Relaxed);
            self.0[1].fetch_add(stage.processed, Ordering::Relaxed);
        }
    }

    fn share(&self, _: usize) -> Option<Share> {
        None
    }

    fn target(&self, _: usize, _: ClassId) -> Option<Target> {
        None
    }

    fn set_targets(&mut self, _: &Classes) {}

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

/// As a live graph counts.
#[test]
fn what_ends_without_an_answer_is_processed_too() {
    let classes = Classes::single(Target::p90(Duration::from_millis(300)).unwrap());
    let service = Distribution::Exponential(Duration::from_millis(10));
    let stage = Stage {
        lost: Ratio::saturating(0.2),
        answer_time: Duration::from_millis(100),
        ..Stage::new("app", 8, service)
    };
    let scenario = Scenario::new(classes, Duration::from_secs(30))
        .client(Client::poisson("users", "app", 100.0))
        .stage(stage);
    let simulation = Simulation::new(&scenario).unwrap();
    let told = Arc::<[AtomicU64; 2]>::default();
    simulation.start(1).global(Box::new(Recorder(told.clone()))).unwrap().finish();
    let [entered, processed] = [0, 1].map(|index: usize| told[index].load(Ordering::Relaxed));
    // A fifth of 3000 is lost; ten are inside at most on average.
    assert!(entered > 2500 && processed <= entered && entered - processed < 50, "{told:?}");
}

fn mistake(global: &str) -> String {
    let text = include_str!("../../../../scenarios/three-stages.toml")
        .replace("[global]\nlaw = \"global-controller\"", &format!("[global]\n{global}"));
    let error = scenario::parse("three.toml", &text).unwrap_err();
    let mut shown = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    handler.render_report(&mut shown, &error).unwrap();
    shown
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    let shown = mistake("law = \"global\"");
    assert!(shown.contains("global-controller") && shown.contains("three.toml:14"), "{shown}");
    let shown = mistake("law = \"global-controller\"\nperiod_seconds = 0");
    assert!(shown.contains("period_seconds of global-controller cannot be 0"), "{shown}");
    let shown = mistake("law = \"global-controller\"\nperiod = 1");
    assert!(shown.contains("period_seconds"), "{shown}");
}
