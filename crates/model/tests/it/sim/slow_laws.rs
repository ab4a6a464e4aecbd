//! Slow laws at stages: what they set is done, exactly; and it does what it is meant to.

use tamarisk_catalogue::ByName;
use tamarisk_control::{ClassId, Ratio, Timestamp};
use tamarisk_laws::{Coordination, Knobs, Laws};
use tamarisk_model::sim::{
    Client, Discipline, Distribution, Load, Outcome, Resource, Seen, Speed, Stage, Step,
    TraceArrival, TraceWriter, Watch, What,
};

use super::*;

/// What laws set, tick by tick, and how long terminated events had run.
#[derive(Default)]
struct Course {
    set: Vec<(Timestamp, Knobs)>,
    completed: Vec<Timestamp>,
    lost: Vec<Timestamp>,
}

impl Watch for Course {
    fn see(&mut self, seen: &Seen) {
        match seen.what {
            What::Left(Outcome::Completed) => self.completed.push(seen.at),
            What::Left(_) => self.lost.push(seen.at),
            _ => {}
        }
    }

    fn set(&mut self, at: Timestamp, _: u32, knobs: &Knobs) {
        self.set.push((at, *knobs));
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

impl Course {
    /// The knobs at the end of so many seconds.
    fn knobs(&self, seconds: u64) -> Knobs {
        self.set.iter().rfind(|(since, _)| *since <= at(seconds)).unwrap().1
    }

    fn completed_per_second(&self, from: u64, until: u64) -> f64 {
        let count = self.completed.iter().filter(|&&done| at(from) < done && done <= at(until));
        count.count() as f64 / (until - from) as f64
    }

    fn share_lost(&self, from: u64, until: u64) -> f64 {
        let of = |times: &[Timestamp]| {
            times.iter().filter(|&&end| at(from) < end && end <= at(until)).count() as f64
        };
        of(&self.lost) / (of(&self.lost) + of(&self.completed)).max(1.0)
    }
}

fn run(scenario: &Scenario, laws: &Laws, seed: u64) -> (Course, Report) {
    let simulation = Simulation::new(scenario).unwrap();
    let mut course = Course::default();
    let stage = &scenario.stages[0].name;
    let run = simulation.start(seed).laws(stage, laws).unwrap().watch(&mut course);
    let report = run.finish();
    (course, report)
}

/// So many a second at one stage, for so long.
fn overload(stage: Stage, per_second: f64, duration: Duration) -> Scenario {
    Scenario::new(one_class(), duration)
        .client(Client::poisson("crowd", &stage.name, per_second))
        .stage(stage.discipline(Discipline::AdaptiveLifo))
}

/// The default law at the door.
fn guarded() -> Laws {
    Laws::new().admission("predict-gate-trim", &[]).unwrap()
}

/// The same, for slow laws that take turns: it keeps the queue short and answers in time, so that
/// none of them acts on its own.
fn in_turns() -> Laws {
    guarded().coordination(Coordination::Composition)
}

#[test]
fn thread_pool_sizing_finds_its_number() {
    // Sixteen do 800/s together; beyond, each one more is one too many: sixty-four do 200/s.
    let speed = Speed::Contended { cores: 16.0, knee: 16.0 };
    let scenario = |workers| {
        let stage = Stage::new("work", workers, exponential(20 * MS)).speed(speed.clone());
        overload(stage, 2000.0, 120 * SECOND)
    };
    let sizes = [("workers_min_count", 2.0), ("workers_max_count", 64.0)];
    let laws = in_turns().workers("pool-sizing", &sizes).unwrap();
    let mut found = Vec::new();
    for seed in 1..=5 {
        let (course, report) = run(&scenario(2), &laws, seed);
        assert_eq!(course.knobs(0).workers.get(), 2);
        let most = course.set.iter().map(|(_, knobs)| knobs.workers.get()).max().unwrap();
        assert!((16..40).contains(&most), "{most}");
        found.push((course.knobs(120).workers.get(), course.completed_per_second(60, 120)));
        assert!(report.stages[0].workers > 8.0 && report.stages[0].workers < 26.0);
    }
    for (workers, throughput) in &found {
        assert!((10..=22).contains(workers) && *throughput > 0.8 * 800.0, "{found:?}");
    }
    // Nor does a law help that only keeps the queue short.
    let short = Laws::new().admission("red", &[]).unwrap();
    let (all, _) = run(&scenario(64), &short, 1);
    assert!(all.completed_per_second(60, 120) < 0.4 * 800.0);
}

#[test]
fn workers_are_added_where_a_full_queue_rejects_before_the_law_is_asked() {
    // One worker does 1000/s. With eight places in the queue nobody waits for long, so that the law
    // admits all it is asked about; the queue rejects two of three.
    let classes = Classes::single(Target::p90(200 * MS).unwrap());
    let stage = Stage::new("work", 1, exponential(MS)).capacity(8);
    let scenario = Scenario { classes, ..overload(stage, 3000.0, 60 * SECOND) };
    let laws = in_turns().workers("pool-sizing", &[("workers_max_count", 8.0)]).unwrap();
    let (course, report) = run(&scenario, &laws, 1);
    assert!(report.stages[0].workers > 2.0, "{}", report.stages[0].workers);
    // Three bear just what comes, and the queue is empty now and then.
    assert!(course.share_lost(30, 60) < 0.08, "{}", course.share_lost(30, 60));
}

#[test]
fn batching_finds_the_least_batch_that_keeps_the_throughput() {
    // A batch of b takes 10 + b ms: of 500 it does 980/s, of 90 still 900/s, and one at a
    // time 91/s.
    let classes = Classes::single(Target::p90(2 * SECOND).unwrap());
    let stage = Stage::new("work", 1, Distribution::Constant(MS)).batch_cost(10 * MS);
    let scenario = Scenario { classes, ..overload(stage, 2000.0, 120 * SECOND) };
    let laws = in_turns().batching("throughput-batching", &[("batch_events_max_count", 500.0)]);
    let (course, report) = run(&scenario, &laws.unwrap(), 1);
    assert_eq!(course.knobs(0).batch.get(), 500);
    let batch = course.knobs(120).batch.get();
    let throughput = course.completed_per_second(90, 120);
    assert!((20..=150).contains(&batch), "{batch}");
    assert!(throughput > 0.8 * 980.0, "{throughput}");
    assert!(report.stages[0].batch < 250.0);
    // The law is worth it: one event at a time costs nine tenths.
    let (single, _) = run(&scenario, &guarded(), 1);
    assert!(single.completed_per_second(90, 120) < 92.0);
}

#[test]
fn degradation_holds_the_percentile_so_that_the_door_need_not_close() {
    // Twice what four workers do at full quality; at a half of it they do what comes.
    let stage = Stage::new("work", 4, exponential(20 * MS));
    let scenario = overload(stage, 400.0, 120 * SECOND).warm_up(20 * SECOND);
    let least = [("quality_least_ratio", 0.2)];
    let laws = in_turns().quality("degradation", &least).unwrap();
    let (course, degraded) = run(&scenario, &laws, 1);
    let (_, rejected) = run(&scenario, &guarded(), 1);
    let (class, otherwise) = (&degraded.classes[0], &rejected.classes[0]);
    assert!(otherwise.rejected_share() > 0.4, "{}", otherwise.rejected_share());
    assert!(class.rejected_share() < 0.05, "{}", class.rejected_share());
    assert!(class.response.quantile(0.9) < 0.1, "{}", class.response.quantile(0.9));
    assert!(class.goodput() > 0.94 * 400.0, "{}", class.goodput());
    let quality = degraded.stages[0].quality;
    assert!((0.3..0.6).contains(&quality), "{quality}");
    assert!(course.set.iter().all(|(_, knobs)| knobs.quality.get() >= 0.2));
}

#[test]
fn the_share_of_the_work_that_does_not_degrade_is_always_done() {
    let full = |degradable: f64| {
        let stage = Stage::new("work", 1, Distribution::Constant(100 * MS));
        let stage = stage.degradable(Ratio::new(degradable).unwrap());
        let scenario = overload(stage, 40.0, 60 * SECOND);
        let laws = in_turns().quality("degradation", &[("quality_least_ratio", 0.0)]).unwrap();
        run(&scenario, &laws, 1).0.completed_per_second(40, 60)
    };
    // At most 1 ÷ (0.1·0.5) a second with a half of it, however low the quality.
    assert!(full(0.0) < 10.1);
    let half = full(0.5);
    assert!((14.0..20.1).contains(&half), "{half}");
    assert!(full(1.0) > 25.0);
}

/// Arrivals of (ms, ms of service), and when which one began, ended and left, in ms.
fn told(stage: Stage, laws: &Laws, arrivals: &[(u32, u32)], patience: u32) -> String {
    let arrival = |&(at, service): &(u32, u32)| TraceArrival {
        at: at * MS,
        class: ClassId::DEFAULT,
        kind: 0,
        flow: 0,
        service: Some(service * MS),
    };
    let trace = Load::Trace(arrivals.iter().map(arrival).collect());
    let client = Client::new("recorded", &stage.name, trace).patience(patience * MS);
    let scenario = Scenario::new(one_class(), 2 * SECOND)
        .resource(Resource::cores("processor", 1.0))
        .resource(Resource::pool("table", 1))
        .client(client)
        .stage(stage);
    struct Told(String);
    impl Watch for Told {
        fn see(&mut self, seen: &Seen) {
            let what = match seen.what {
                What::Started => "begins",
                What::Ended(Outcome::Completed) => "is done",
                What::Ended(Outcome::Terminated) => "is ended",
                What::Ended(Outcome::Dropped) => "is dropped",
                What::Left(Outcome::Dropped) => "leaves from the queue",
                _ => return,
            };
            let at = seen.at.as_nanos() / 1_000_000;
            self.0 += &format!("{at} {} {what}, ", seen.number);
        }
    }
    let mut told = Told(String::new());
    let simulation = Simulation::new(&scenario).unwrap();
    let run = simulation.start(1).laws("work", laws).unwrap();
    let report = run.watch(&mut told).finish();
    let counts = report.classes[0].counts;
    assert_eq!(counts.offered, counts.ended(), "{}", told.0);
    told.0.trim_end_matches(", ").to_owned()
}

/// One worker, unless stated otherwise.
fn work() -> Stage {
    Stage::new("work", 1, Distribution::Constant(SECOND))
}

/// Nothing is lost, so that the limit is the upper one: twice the target of 100 ms.
fn threshold() -> Laws {
    let bounds = [("lower_targets_ratio", 1.0), ("upper_targets_ratio", 2.0)];
    Laws::new().termination("termination-threshold", &bounds).unwrap()
}

const PATIENT: u32 = 10_000;

#[test]
fn an_event_that_runs_beyond_its_limit_is_ended_and_its_worker_cleans_up() {
    let arrivals = [(10, 500), (20, 150), (30, 199), (40, 201)];
    let swept = "10 1 begins, 210 1 is ended, 210 2 begins, 360 2 is done, 360 3 begins, \
                 559 3 is done, 559 4 begins, 759 4 is ended";
    assert_eq!(told(work(), &threshold(), &arrivals, PATIENT), swept);
    let cleaned = "10 1 begins, 240 1 is ended, 240 2 begins, 390 2 is done, 390 3 begins, \
                   589 3 is done, 589 4 begins, 819 4 is ended";
    assert_eq!(told(work().clean_up(30 * MS), &threshold(), &arrivals, PATIENT), cleaned);
}

#[test]
fn what_is_ended_lets_go_of_what_it_holds_or_waits_for() {
    let on = |resource: &str| {
        let stage = Stage::new("work", 3, Distribution::Constant(SECOND));
        stage.steps([Step::on(resource, Distribution::Constant(SECOND))])
    };
    // Both get half of the core until 210 ms; then the second has it alone and is ended as well.
    let shared = "10 1 begins, 110 2 begins, 210 1 is ended, 250 2 is done";
    assert_eq!(told(on("processor"), &threshold(), &[(10, 900), (110, 90)], PATIENT), shared);
    // The first has the only connection until 210 ms, the second waits for it until it is
    // ended, the third gets it.
    let arrivals = [(10, 900), (20, 900), (30, 190), (60, 20)];
    let stage = Stage { workers: 4, ..on("table") };
    let pool = "10 1 begins, 20 2 begins, 30 3 begins, 60 4 begins, 210 1 is ended, \
                220 2 is ended, 230 3 is ended, 250 4 is done";
    assert_eq!(told(stage, &threshold(), &arrivals, PATIENT), pool);
}

#[test]
fn the_deadline_law_ends_what_runs_when_patience_does() {
    let arrivals = [(10, 500), (20, 50), (150, 40)];
    let without = Laws::new();
    let runs_on = "10 1 begins, 100 2 is dropped, 100 2 leaves from the queue, \
                   200 3 is dropped, 200 3 leaves from the queue, 510 1 is done";
    assert_eq!(told(work(), &without, &arrivals, 50), runs_on);
    let deadline = Laws::new().termination("deadline", &[]).unwrap();
    let ended = "10 1 begins, 60 1 is ended, 60 2 begins, 70 2 is ended, 150 3 begins, \
                 190 3 is done";
    assert_eq!(told(work(), &deadline, &arrivals, 50), ended);
}

#[test]
fn a_worker_pays_for_a_batch_once_and_begins_what_is_still_worth_it() {
    let batches =
        |most: f64| Laws::new().batching("fixed", &[("batch_events_count", most)]).unwrap();
    let stage = || work().batch_cost(20 * MS);
    let arrivals = [(10, 10), (20, 10), (21, 10), (22, 10), (23, 10)];
    // The first alone, then three for one cost, then one.
    let three = "10 1 begins, 40 1 is done, 40 2 begins, 70 2 is done, 70 3 begins, 80 3 is done, \
                 80 4 begins, 90 4 is done, 90 5 begins, 120 5 is done";
    assert_eq!(told(stage(), &batches(3.0), &arrivals, PATIENT), three);
    // Who waits in the batch beyond its deadline is not begun.
    let patient = "10 1 begins, 40 1 is done, 40 2 begins, 70 2 is done, 70 3 begins, 80 3 is done, \
                   80 4 is dropped, 80 4 leaves from the queue, 80 5 is dropped, \
                   80 5 leaves from the queue";
    assert_eq!(told(stage(), &batches(9.0), &arrivals, 55), patient);
    // Of two workers none takes more than its share.
    let two = Stage { workers: 2, ..stage() };
    let arrivals = [(10, 10), (11, 30), (12, 10), (13, 10), (14, 10), (15, 10)];
    let shared = "10 1 begins, 11 2 begins, 40 1 is done, 40 3 begins, 61 2 is done, 61 5 begins, \
                  70 3 is done, 70 4 begins, 80 4 is done, 80 6 begins, 91 5 is done, 110 6 is done";
    assert_eq!(told(two, &batches(9.0), &arrivals, PATIENT), shared);
}

#[test]
fn terminating_the_rare_that_take_long_lets_the_many_pass() {
    // One in a hundred takes a hundred times as long: half of all work.
    let long = Distribution::bimodal(10 * MS, SECOND, 0.01);
    let scenario = overload(Stage::new("work", 4, long), 600.0, 120 * SECOND).warm_up(30 * SECOND);
    let bounds = [("interval_seconds", 2.0), ("upper_targets_ratio", 20.0)];
    let laws = guarded().termination("termination-threshold", &bounds).unwrap();
    let (_, ended) = run(&scenario, &laws, 1);
    let (_, open) = run(&scenario, &guarded(), 1);
    let (ended, open) = (&ended.classes[0], &open.classes[0]);
    assert_eq!(open.counts.terminated, 0);
    let share = ended.counts.terminated as f64 / ended.counts.completed as f64;
    assert!((0.004..0.013).contains(&share), "{share}");
    assert!(ended.goodput() > 1.25 * open.goodput(), "{} {}", ended.goodput(), open.goodput());
}

/// All five, under a spike of ten times what the stage is sized for.
fn everything() -> (Scenario, Laws) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = tamarisk_model::scenario::load(&folder.join("composition.toml")).unwrap();
    (file.scenario, file.laws[0].1.clone())
}

#[test]
fn all_five_give_what_they_have_under_a_spike_and_take_it_back() {
    let (scenario, laws) = everything();
    let (course, report) = run(&scenario, &laws, 1);
    let alone = Laws { admission: laws.admission.clone(), ..Laws::new() };
    let (door, without) = run(&scenario, &alone, 1);
    // The spike lasts from 40 to 140 s.
    let (before, spike, after) = (course.knobs(39), course.knobs(110), course.knobs(250));
    assert_eq!((before.workers.get(), before.quality), (8, Ratio::ONE));
    assert_eq!((spike.workers.get(), spike.quality.get()), (32, 0.25));
    assert!(course.set.iter().any(|(_, knobs)| knobs.batch.get() < 50));
    assert!(after.workers.get() < 20 && after.quality == Ratio::ONE, "{after:?}");
    assert!(report.classes[0].counts.terminated > 0);
    // What the door alone rejects nine tenths of is nearly all borne in the end.
    assert!(door.share_lost(41, 140) > 0.85, "{}", door.share_lost(41, 140));
    assert!(course.share_lost(100, 120) < 0.1, "{}", course.share_lost(100, 120));
    let [all, one] = [&report, &without].map(|report| report.classes[0].goodput());
    assert!(all > 2.0 * one, "{all} {one}");
    assert!(report.classes[0].response.quantile(0.9) < 0.5);
    assert_eq!(report.stages[0].slow_laws.len(), 4);
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_all_five() {
    let (scenario, laws) = everything();
    let traced = |seed| {
        let mut writer = TraceWriter::new(Vec::new());
        let simulation = Simulation::new(&scenario).unwrap();
        let report = simulation.start(seed).laws("web", &laws).unwrap().watch(&mut writer).finish();
        (writer.finish().unwrap(), report)
    };
    let (one, report) = traced(7);
    let (again, same) = traced(7);
    assert!(one == again && report == same);
    assert!(one != traced(8).0);
    let text = String::from_utf8(one).unwrap();
    assert!(text.contains(" terminated\n"));
    assert!(text.starts_with("0,,0,,,workers 8 batch 50 quality 1\n"));
}

#[test]
fn laws_that_cannot_be_are_rejected() {
    let simulation_of = |scenario: &Scenario| Simulation::new(scenario).unwrap();
    let scenario = overload(work(), 1.0, SECOND);
    let simulation = simulation_of(&scenario);
    let error = simulation.start(1).laws("bank", &guarded()).err().unwrap();
    assert_eq!(error.to_string(), "there is no stage \"bank\"");
    let mut laws = guarded().workers("pool-sizing", &[("workers_min_count", 60.0)]).unwrap();
    laws.workers.as_mut().unwrap().set("workers_max_count", 50.0).unwrap();
    let error = simulation.start(1).laws("work", &laws).err().unwrap();
    assert!(error.to_string().starts_with("pool-sizing: "), "{error}");
}
