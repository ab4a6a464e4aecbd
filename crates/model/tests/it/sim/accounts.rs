//! What is counted: it balances, it agrees with Little's law, it comes out the same.

use proptest::prelude::*;
use tamarisk_catalogue::ByName;
use tamarisk_catalogue::papers::ResponseTime;
use tamarisk_control::{AdmissionLaw, Ratio};
use tamarisk_laws::{Laws, Open, PredictGateTrim, Threshold};
use tamarisk_model::sim::{
    Client, Discipline, Distribution, Load, Profile, Resource, Retry, Scenario, Speed, Stage, Step,
    TraceWriter,
};

use super::*;

/// Everything at once, two stages overloaded.
fn rich() -> Scenario {
    let rate = Profile::constant(50.0).ramp(2 * SECOND, 4 * SECOND, 400.0).step(7 * SECOND, 20.0);
    let sessions = Load::Sessions {
        rate: Profile::constant(20.0),
        gaps: Distribution::Erlang { stages: 3, mean: SECOND },
        stay: Ratio::new(0.6).unwrap(),
        think: Distribution::LogNormal { mean: 200 * MS, variation: 2.0 },
    };
    let retry = Retry::backoff(3, exponential(50 * MS), 2.0);
    Scenario::new(classes(&["gold", "lead"]), 9 * SECOND)
        .warm_up(SECOND)
        .resource(Resource::cores("processor", 2.0))
        .resource(Resource::pool("database", 3))
        .stage(
            Stage::new("front", 16, exponential(MS))
                .discipline(Discipline::AdaptiveLifo)
                .steps([
                    Step::on("processor", exponential(4 * MS)),
                    Step::own(Distribution::Pareto { least: MS, shape: 1.5 }),
                ])
                .route("back", 0.7),
        )
        .stage(
            Stage::new("back", 8, exponential(MS))
                .discipline(Discipline::Priority)
                .speed(Speed::Contended { cores: 4.0, knee: 6.0 })
                .stretch(Profile::constant(1.0).spike(5 * SECOND, 6 * SECOND, 3.0))
                .steps_of(
                    "lead",
                    [Step::on("database", exponential(30 * MS)), Step::own(exponential(5 * MS))],
                )
                .route("front", 0.2),
        )
        .client(
            Client::new("crowd", "front", Load::poisson(rate))
                .class("gold", 0.3)
                .class("lead", 0.7)
                .flows(7)
                .patience(400 * MS)
                .retry(retry),
        )
        .client(Client::new("sessions", "front", sessions).class("gold", 1.0))
        .client(Client::new("users", "back", Load::users(20, exponential(300 * MS))))
}

fn law(kind: usize, scenario: &Scenario) -> Box<dyn AdmissionLaw> {
    match kind {
        0 => Box::new(Open),
        1 => Box::new(Threshold::new(5)),
        2 => Box::new(ResponseTime::new(&scenario.classes)),
        _ => Box::new(PredictGateTrim::new(&scenario.classes)),
    }
}

/// All that there are, in haste, behind this door.
fn all_laws(admission: &str) -> Laws {
    let limits =
        [("lower_targets_ratio", 0.1), ("upper_targets_ratio", 0.5), ("interval_seconds", 0.5)];
    let sizes = [("workers_min_count", 2.0), ("workers_max_count", 16.0)];
    let laws = Laws::new().admission(admission, &[]);
    let laws = laws.and_then(|laws| laws.dropping("codel", &[]));
    let laws = laws.and_then(|laws| laws.workers("pool-sizing", &sizes));
    let most = [("batch_events_max_count", 20.0)];
    let laws = laws.and_then(|laws| laws.batching("throughput-batching", &most));
    let laws = laws.and_then(|laws| laws.quality("degradation", &[]));
    laws.and_then(|laws| laws.termination("termination-threshold", &limits)).unwrap()
}

/// Kinds of laws: four of admission, and all that there are, with the workers for a limit and
/// with another one.
const KINDS: usize = 6;

fn traced(scenario: &Scenario, kind: usize, seed: u64) -> (Vec<u8>, Report) {
    let simulation = Simulation::new(scenario).unwrap();
    let mut run = simulation.start(seed);
    for stage in &scenario.stages {
        run = match kind {
            4 => run.laws(&stage.name, &all_laws("predict-gate-trim")).unwrap(),
            5 => run.laws(&stage.name, &all_laws("work-limit")).unwrap(),
            _ => run.law(&stage.name, law(kind, scenario)).unwrap(),
        };
    }
    let mut writer = TraceWriter::new(Vec::new());
    let report = run.watch(&mut writer).finish();
    (writer.finish().unwrap(), report)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    for kind in 0..KINDS {
        let (one, report) = traced(&rich(), kind, 42);
        let (again, same) = traced(&rich(), kind, 42);
        assert!(one.len() > 100_000, "{}", one.len());
        assert!(one == again, "law {kind}");
        assert_eq!(report, same);
        let (other, _) = traced(&rich(), kind, 43);
        assert!(one != other);
    }
}

#[test]
fn watching_changes_nothing() {
    let (_, watched) = traced(&rich(), 0, 5);
    assert_eq!(watched, Simulation::new(&rich()).unwrap().run(5));
}

#[test]
fn a_law_for_a_stage_that_is_not_there_is_rejected() {
    let simulation = Simulation::new(&rich()).unwrap();
    let rejected = simulation.start(1).law("bank", Box::new(Open)).err().unwrap();
    assert_eq!(rejected.to_string(), "there is no stage \"bank\"");
}

#[test]
fn littles_law_holds() {
    let scenario = single(700.0, 100_000.0, Stage::new("work", 1, exponential(MS)));
    let report = Simulation::new(&scenario).unwrap().run(1);
    let stage = &report.stages[0];
    let seconds = report.measured.as_secs_f64();
    let rate = stage.classes[0].counts.completed as f64 / seconds;
    // Only who is inside at the ends of the measured time is counted on one side.
    let (by_time, by_events) = (stage.queued, rate * stage.classes[0].wait.mean());
    assert!((by_time / by_events - 1.0).abs() < 1e-3, "{by_time} {by_events}");
    let inside = stage.queued + stage.running;
    let by_events = rate * stage.classes[0].response.mean();
    assert!((inside / by_events - 1.0).abs() < 1e-3, "{inside} {by_events}");
}

/// The accounts of a report balance, at every stage and altogether.
fn check_balance(report: &Report) {
    for class in &report.classes {
        let (before, after) = class.inside;
        assert_eq!(before + class.counts.offered, class.counts.ended() + after, "{class:?}");
        assert!(class.in_time <= class.counts.completed);
        assert_eq!(class.response.count(), class.counts.completed);
        assert!(class.retried + class.given_up <= class.counts.ended() - class.counts.completed);
    }
    for stage in &report.stages {
        let rejected: u64 = stage.classes.iter().map(|class| class.counts.rejected).sum();
        assert_eq!(rejected, stage.rejections.iter().map(|reason| reason.1).sum::<u64>());
        assert!(stage.running >= 0.0 && stage.queued >= 0.0);
    }
    let completed: u64 = report.classes.iter().map(|class| class.counts.completed).sum();
    let by_flow: u64 = report.flows.iter().map(|flow| flow.completed).sum();
    assert_eq!(completed, by_flow);
}

#[test]
fn the_accounts_of_the_richest_scenario_balance_under_every_law() {
    for kind in 0..KINDS {
        let (_, report) = traced(&rich(), kind, 7);
        check_balance(&report);
        assert!(report.classes[1].retried > 0, "law {kind}");
    }
    let (_, report) = traced(&rich(), 0, 7);
    assert!(report.classes[1].counts.dropped > 0);
}

fn durations() -> impl Strategy<Value = Duration> {
    (0u64..30_000).prop_map(Duration::from_micros)
}

fn distributions() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        durations().prop_map(Distribution::Constant),
        durations().prop_map(Distribution::Exponential),
        (1u32..5, durations()).prop_map(|(stages, mean)| Distribution::Erlang { stages, mean }),
        (durations(), 1.0f64..20.0)
            .prop_map(|(mean, squared)| Distribution::hyper_exponential(mean, squared)),
        (durations(), 1.01f64..4.0)
            .prop_map(|(least, shape)| Distribution::Pareto { least, shape }),
        (durations(), durations(), 0.0f64..=1.0)
            .prop_map(|(usual, rare, share)| Distribution::bimodal(usual, rare, share)),
        prop::collection::vec(durations(), 1..9)
            .prop_map(|values| Distribution::Empirical(values.into())),
    ]
}

fn speeds() -> impl Strategy<Value = Speed> {
    prop_oneof![
        Just(Speed::Full),
        (0.1f64..4.0).prop_map(Speed::Cores),
        (0.5f64..4.0, 0.5f64..9.0).prop_map(|(cores, knee)| Speed::Contended { cores, knee }),
        prop::collection::vec(0.1f64..4.0, 1..5).prop_map(Speed::Totals),
    ]
}

fn stages() -> impl Strategy<Value = Stage> {
    let discipline = prop::sample::select(vec![
        Discipline::Fifo,
        Discipline::Priority,
        Discipline::AdaptiveLifo,
    ]);
    let step = (prop::option::of(prop::bool::ANY), distributions()).prop_map(|(on, work)| Step {
        on: on.map(|shared| if shared { "shared" } else { "pool" }.to_owned()),
        work,
    });
    let steps = prop::collection::vec(step, 1..4);
    let extras = (0u32..5, 0.0f64..=1.0, 0u32..5);
    (1u32..9, 0u32..30, discipline, speeds(), steps, prop::option::of(0.0f64..0.9), extras)
        .prop_map(
            |(
                workers,
                capacity,
                discipline,
                speed,
                steps,
                onward,
                (batch, degradable, clean_up),
            )| {
                let stage = Stage::new("", workers, exponential(MS))
                    .capacity(capacity)
                    .discipline(discipline)
                    .speed(speed)
                    .steps(steps)
                    .batch_cost(batch * MS)
                    .degradable(Ratio::saturating(degradable))
                    .clean_up(clean_up * MS);
                match onward {
                    Some(share) => stage.route("0", share),
                    None => stage,
                }
            },
        )
}

fn clients() -> impl Strategy<Value = Client> {
    let load = prop_oneof![
        (0.0f64..300.0, 0.0f64..300.0).prop_map(|(rate, later)| {
            Load::poisson(Profile::constant(rate).ramp(SECOND, 2 * SECOND, later))
        }),
        (0u32..40, 0u32..40, distributions()).prop_map(|(count, later, think)| Load::Closed {
            users: vec![(Duration::ZERO, count), (SECOND, later)],
            think,
        }),
        (0.0f64..50.0, 0.0f64..0.9, distributions()).prop_map(|(rate, stay, think)| {
            Load::Sessions {
                rate: Profile::constant(rate),
                gaps: exponential(SECOND),
                stay: Ratio::saturating(stay),
                think,
            }
        }),
    ];
    let retry = (0u32..4, distributions(), 1.0f64..3.0)
        .prop_map(|(attempts, pause, growth)| Retry::backoff(attempts, pause, growth));
    let times = || prop::option::of(10u32..500);
    (load, retry, 0.0f64..=1.0, 1u32..5, times(), times()).prop_map(
        |(load, retry, share, flows, patience, resend)| {
            let resend = resend.filter(|_| matches!(load, Load::Closed { .. }));
            let mut client = Client::new("", "0", load)
                .class("gold", share)
                .class("lead", 1.0 - share)
                .flows(flows)
                .retry(retry);
            client.resend = resend.map(|after| after * MS);
            match patience {
                Some(patience) => client.patience(patience * MS),
                None => client,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// In debug builds the simulator checks its accounts at every event as well.
    #[test]
    fn whatever_the_scenario_the_accounts_balance(
        stages in prop::collection::vec(stages(), 1..5),
        clients in prop::collection::vec(clients(), 1..4),
        kind in 0..KINDS,
        seed in any::<u64>(),
        warm_up in 0u32..1500,
    ) {
        let mut scenario = Scenario::new(classes(&["gold", "lead"]), 2 * SECOND)
            .warm_up(warm_up * MS)
            .resource(Resource::cores("shared", 1.5))
            .resource(Resource::pool("pool", 2));
        let count = stages.len();
        for (index, mut stage) in stages.into_iter().enumerate() {
            stage.name = index.to_string();
            for route in &mut stage.routes {
                route.to = ((index + 1) % count).to_string();
            }
            scenario = scenario.stage(stage);
        }
        for (index, mut client) in clients.into_iter().enumerate() {
            client.name = index.to_string();
            scenario = scenario.client(client);
        }
        // Users who think for no time and are served in none would take indefinitely.
        for client in &mut scenario.clients {
            if let Load::Closed { think, .. } = &mut client.load {
                *think = Distribution::Mixture(vec![
                    (0.5, think.clone()),
                    (0.5, exponential(50 * MS)),
                ]);
            }
        }
        let (_, report) = traced(&scenario, kind, seed);
        check_balance(&report);
    }
}
