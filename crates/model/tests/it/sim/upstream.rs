//! Kinds of work, what becomes of places, and what stands behind a stage besides workers.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Change, ClassId, Concurrency, Decision, Finished, Moved,
    PlaceLimits, QueueOrder, Ratio, Timestamp, Waiting,
};
use tamarisk_model::sim::{
    Client, Discipline, Distribution, KindAt, Load, Outcome, Profile, Scenario, Seen, Simulation,
    Speed, Stage, Step, TraceArrival, Watch, What,
};

use super::*;

/// A law with a limit that writes down what it is told.
#[derive(Clone)]
struct Probe {
    limit: u32,
    park_after: Option<Duration>,
    /// By which time after they came events of each class are due.
    due: [Duration; 2],
    /// How many of each class may run.
    most: [u32; 2],
    told: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    kinds: Vec<u64>,
    /// When in ms, what, and how long in ms.
    moved: Vec<(u64, Change, u64)>,
    /// When in ms, service and response in ms.
    finished: Vec<(u64, u64, u64)>,
    running_most: u32,
}

impl Probe {
    fn new(limit: u32) -> Self {
        let (due, most) = ([SECOND; 2], [u32::MAX; 2]);
        Self { limit, park_after: None, due, most, told: Arc::default() }
    }

    fn moved(&self) -> Vec<(u64, Change, u64)> {
        self.told.lock().unwrap().moved.clone()
    }
}

fn ms(time: Duration) -> u64 {
    time.as_millis() as u64
}

fn at_ms(at: Timestamp) -> u64 {
    at.as_nanos() / 1_000_000
}

impl AdmissionLaw for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        self.told.lock().unwrap().kinds.push(arrival.kind);
        Decision::Admit
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let mut told = self.told.lock().unwrap();
        told.finished.push((at_ms(now), ms(finished.service), ms(finished.response)));
        told.running_most = told.running_most.max(backlog.running_total);
    }

    fn on_tick(&mut self, _: Timestamp, backlog: &Backlog<'_>) {
        let mut told = self.told.lock().unwrap();
        told.running_most = told.running_most.max(backlog.running_total);
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, _: &Backlog<'_>) {
        self.told.lock().unwrap().moved.push((at_ms(now), moved.change, ms(moved.time)));
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for Probe {
    fn park_after(&self, _: ClassId, _: u64) -> Option<Duration> {
        self.park_after
    }

    fn may_start(&self, class: ClassId, _: u64, backlog: &Backlog<'_>) -> bool {
        backlog.running[class.index()] < self.most[class.index()]
    }

    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new(self.limit))
    }
}

impl QueueOrder for Probe {
    fn due(&self, waiting: &Waiting) -> Timestamp {
        waiting.entered + self.due[waiting.class.index()]
    }
}

/// Two classes of one priority.
fn two_alike() -> Classes {
    let class = |name: &str| Class {
        name: name.to_owned(),
        target: Target::p90(100 * MS).unwrap(),
        priority: Priority(1),
    };
    Classes::new(vec![class("one"), class("two")]).unwrap()
}

/// These arrivals, in ms and of these classes.
fn arrivals(list: &[(u32, usize)]) -> Load {
    let arrival = |&(at, class): &(u32, usize)| TraceArrival {
        at: at * MS,
        class: ClassId::new(class),
        kind: 0,
        flow: 0,
        service: None,
    };
    Load::Trace(list.iter().map(arrival).collect())
}

fn scenario(stage: Stage, client: Client) -> Scenario {
    Scenario::new(two_alike(), 10 * SECOND).stage(stage).client(client)
}

fn work(service: Duration) -> Stage {
    Stage::new("work", Stage::UNLIMITED, Distribution::Constant(service))
}

/// When, in ms, which attempt did what.
#[derive(Default)]
struct Course(Vec<(u64, u64, What)>);

impl Watch for Course {
    fn see(&mut self, seen: &Seen) {
        self.0.push((at_ms(seen.at), seen.number, seen.what));
    }
}

impl Course {
    fn of(&self, what: What) -> Vec<(u64, u64)> {
        let that = self.0.iter().filter(|seen| seen.2 == what);
        that.map(|&(at, number, _)| (at, number)).collect()
    }
}

fn run(scenario: &Scenario, probe: &Probe) -> (Report, Course) {
    let simulation = Simulation::new(scenario).unwrap();
    let mut course = Course::default();
    let run = simulation.start(1).law("work", Box::new(probe.clone())).unwrap();
    (run.watch(&mut course).finish(), course)
}

#[test]
fn laws_see_kinds_and_each_has_its_service() {
    let client = Client::poisson("users", "work", 1000.0).class("one", 0.5).class("long", 0.5);
    let stage =
        work(MS).kind(KindAt::new("long").steps([Step::own(Distribution::Constant(5 * MS))]));
    let probe = Probe::new(1000);
    run(&scenario(stage, client).kind("short", "one").kind("long", "two"), &probe);
    let told = probe.told.lock().unwrap();
    let long = told.kinds.iter().filter(|kind| **kind == 2).count();
    assert_eq!(told.kinds.iter().filter(|kind| **kind == 0).count(), told.kinds.len() - long);
    // Of 10 000 requests half; the standard deviation is 50.
    assert!(long.abs_diff(5000) < 300, "{long}");
    assert!(told.finished.iter().all(|finished| matches!(finished.1, 1 | 5)));
}

#[test]
fn what_runs_for_long_is_parked_at_a_tick_and_its_place_is_anothers() {
    let client = Client::new("users", "work", arrivals(&[(0, 0), (50, 0)]));
    let probe = Probe { park_after: Some(100 * MS), ..Probe::new(1) };
    let (report, course) = run(&scenario(work(SECOND), client), &probe);
    // Ticks come each 100 ms, and after exactly 100 ms nothing is parked yet.
    assert_eq!(
        probe.moved(),
        [
            (200, Change::Parked, 200),
            (400, Change::Parked, 200),
            (1000, Change::ParkedEnded, 1000),
            (1200, Change::ParkedEnded, 1000),
        ]
    );
    assert_eq!(course.of(What::Started), [(0, 1), (200, 2)]);
    assert_eq!(course.of(What::Parked), [(200, 1), (400, 2)]);
    assert!(probe.told.lock().unwrap().finished.is_empty());
    assert_eq!(report.classes[0].counts.completed, 2);
    // Each is without a place for 800 ms of 10 s, and has one for 200 ms.
    assert!((report.stages[0].parked - 0.16).abs() < 1e-9, "{}", report.stages[0].parked);
    assert!((report.stages[0].running - 0.04).abs() < 1e-9, "{}", report.stages[0].running);
}

#[test]
fn at_most_1024_are_parked_at_a_time() {
    let client = Client::new("users", "work", arrivals(&[(0, 0); 1500]));
    let probe = Probe { park_after: Some(100 * MS), ..Probe::new(1500) };
    let (report, course) = run(&scenario(work(SECOND), client), &probe);
    assert_eq!(course.of(What::Parked).len(), 1024);
    assert_eq!(report.classes[0].counts.completed, 1500);
}

#[test]
fn the_earliest_due_is_next() {
    let client = Client::new("users", "work", arrivals(&[(0, 0), (10, 0), (20, 1), (30, 1)]));
    let stage = work(100 * MS).discipline(Discipline::EarliestDue);
    let probe = Probe { due: [200 * MS, 185 * MS], ..Probe::new(1) };
    let (_, course) = run(&scenario(stage, client), &probe);
    // Due at 210 ms, 205 ms and 215 ms.
    assert_eq!(course.of(What::Started), [(0, 1), (100, 3), (200, 2), (300, 4)]);
}

#[test]
fn who_may_not_start_leaves_its_place_to_others() {
    let client = Client::new("users", "work", arrivals(&[(0, 0), (10, 0), (20, 1), (30, 1)]));
    let stage = work(100 * MS).discipline(Discipline::EarliestDue);
    let probe = Probe { most: [1, 2], ..Probe::new(2) };
    let (_, course) = run(&scenario(stage, client), &probe);
    // The second waits beside a free place until the first has ended.
    assert_eq!(course.of(What::Started), [(0, 1), (20, 3), (100, 2), (120, 4)]);
}

#[test]
fn more_important_classes_go_first_unless_none_of_them_may_start() {
    let client = Client::new("users", "work", arrivals(&[(0, 0), (10, 1), (20, 0), (30, 0)]));
    let stage = work(100 * MS).discipline(Discipline::EarliestDue);
    let scenario = Scenario::new(classes(&["gold", "lead"]), SECOND).stage(stage).client(client);
    let (_, course) = run(&scenario, &Probe::new(1));
    assert_eq!(course.of(What::Started), [(0, 1), (100, 3), (200, 4), (300, 2)]);
    let probe = Probe { most: [1, 1], ..Probe::new(2) };
    let (_, course) = run(&scenario, &probe);
    assert_eq!(course.of(What::Started), [(0, 1), (10, 2), (100, 3), (200, 4)]);
}

#[test]
fn a_pause_moves_all_ends() {
    for speed in [Speed::Full, Speed::Cores(4.0)] {
        let client = Client::new("users", "work", arrivals(&[(0, 0), (80, 0), (200, 0)]));
        let stage = work(100 * MS).pause(50 * MS, 150 * MS);
        let stage = Stage { workers: 4, ..stage }.speed(speed);
        let (_, course) = run(&scenario(stage, client), &Probe::new(4));
        let ends = course.of(What::Left(Outcome::Completed));
        assert_eq!(ends, [(200, 1), (250, 2), (300, 3)]);
    }
}

#[test]
fn a_lost_reply_fails_after_the_answer_time_and_uses_no_worker() {
    let client = Client::new("users", "work", arrivals(&[(0, 0), (10, 0), (60, 0)]));
    let stage = work(100 * MS).outage(Duration::ZERO, 50 * MS).answer_time(2 * SECOND);
    let stage = Stage { workers: 1, ..stage };
    let (report, course) = run(&scenario(stage, client), &Probe::new(3));
    assert_eq!(course.of(What::Left(Outcome::Failed)), [(2000, 1), (2010, 2)]);
    assert_eq!(course.of(What::Left(Outcome::Completed)), [(160, 3)]);
    assert_eq!((report.classes[0].counts.failed, report.classes[0].in_time), (2, 1));
}

#[test]
fn the_stated_share_of_replies_is_lost() {
    let client = Client::poisson("users", "work", 1000.0);
    let stage = work(MS).lost(Ratio::new(0.1).unwrap()).answer_time(SECOND);
    let (report, _) = run(&scenario(stage, client), &Probe::new(1000));
    let counts = report.classes[0].counts;
    let share = counts.failed as f64 / counts.ended() as f64;
    // The standard deviation is 0.003; those lost in the last second have not ended.
    assert!((share - 0.09).abs() < 0.015, "{share}");
}

#[test]
fn what_needs_no_worker_begins_while_all_are_busy() {
    let client = Client::poisson("users", "work", 20.0).class("poll", 1.0);
    let poll = KindAt::new("poll").steps([Step::own(Distribution::Constant(SECOND))]);
    let stage = Stage { workers: 1, ..work(MS) }.kind(poll.without_worker());
    let (report, _) = run(&scenario(stage, client).kind("poll", "one"), &Probe::new(1000));
    assert!(report.classes[0].counts.completed > 100);
    assert!((report.classes[0].response.mean() - 1.0).abs() < 1e-9);
}

#[test]
fn the_response_of_a_stream_ends_at_its_first_data_and_it_keeps_its_worker() {
    let stream = KindAt::new("stream").first_data(Distribution::Constant(10 * MS));
    let stage = Stage { workers: 1, ..work(SECOND) }.kind(stream);
    let gap = Distribution::Constant(SECOND);
    let load = Load::Open { rate: Profile::constant(2.0), gaps: gap };
    let client = Client::new("users", "work", load).class("stream", 1.0);
    let scenario = Scenario::new(two_alike(), 2500 * MS).stage(stage).client(client);
    let probe = Probe::new(2);
    let (report, _) = run(&scenario.kind("stream", "one"), &probe);
    // They come at 500 ms, 1000 ms … and there is a worker at 500 ms, 1500 ms ….
    let told = probe.told.lock().unwrap();
    assert_eq!(told.moved, [(510, Change::FirstData, 10), (1510, Change::FirstData, 510)]);
    assert_eq!(told.finished, [(1500, 1000, 10)]);
    assert!((report.classes[0].response.mean() - 0.010).abs() < 1e-9);
}

#[test]
fn who_leaves_the_queue_is_abandoned_and_who_runs_is_done_for_nobody() {
    let client = Client::new("users", "work", arrivals(&[(0, 0), (10, 0), (90, 0)]));
    let client = client.leaves(Distribution::Constant(30 * MS));
    let stage = Stage { workers: 1, ..work(100 * MS) };
    let probe = Probe::new(1);
    let (report, course) = run(&scenario(stage, client), &probe);
    assert_eq!(probe.moved(), [(40, Change::Abandoned, 30)]);
    assert_eq!(course.of(What::Left(Outcome::Dropped)), [(40, 2)]);
    assert_eq!(course.of(What::Left(Outcome::Terminated)), [(100, 1), (200, 3)]);
    assert_eq!(probe.told.lock().unwrap().finished, [(100, 100, 100), (200, 100, 110)]);
    assert_eq!(report.classes[0].in_time, 0);
}

#[test]
fn who_has_its_answer_does_not_leave() {
    let client = Client::poisson("users", "work", 100.0).leaves(Distribution::Constant(2 * MS));
    let (report, _) = run(&scenario(work(MS), client), &Probe::new(1000));
    let counts = report.classes[0].counts;
    assert!(counts.completed > 900 && counts.terminated + counts.dropped == 0, "{counts:?}");
}

#[test]
fn a_greedy_flow_sends_its_share_and_the_others_the_rest_alike() {
    let client = Client::poisson("users", "work", 1000.0);
    let client = client.flows(11).greedy(Ratio::new(0.9).unwrap());
    let (report, _) = run(&scenario(work(MS), client), &Probe::new(1000));
    let offered: Vec<_> = report.flows.iter().map(|flow| flow.offered).collect();
    let sum: u64 = offered.iter().sum();
    // The standard deviations are 30 and 10.
    assert!(offered[0].abs_diff(sum * 9 / 10) < 150, "{offered:?}");
    assert!(offered[1..].iter().all(|count| count.abs_diff(sum / 100) < 50), "{offered:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The engine checks its accounts after every event.
    #[test]
    fn everything_at_once_balances(
        (limit, workers) in (1u32..12, 1u32..8),
        park_after in prop::option::of(1u32..300),
        most in [1u32..8, 1u32..8],
        discipline in 0usize..4,
        (lost, leaves) in (0.0f64..0.2, 1u32..400),
        seed in any::<u64>(),
    ) {
        let disciplines = [
            Discipline::Fifo,
            Discipline::Priority,
            Discipline::AdaptiveLifo,
            Discipline::EarliestDue,
        ];
        let stage = Stage::new("work", workers, exponential(20 * MS))
            .discipline(disciplines[discipline])
            .lost(Ratio::new(lost).unwrap())
            .answer_time(500 * MS)
            .outage(SECOND, 1200 * MS)
            .pause(2 * SECOND, 2500 * MS)
            .kind(KindAt::new("poll").steps([Step::own(exponential(300 * MS))]).without_worker())
            .kind(KindAt::new("stream").first_data(exponential(30 * MS)))
            .route("next", 0.3);
        let client = Client::poisson("users", "work", 200.0)
            .class("one", 0.4)
            .class("two", 0.3)
            .class("poll", 0.1)
            .class("stream", 0.2)
            .flows(5)
            .greedy(Ratio::new(0.5).unwrap())
            .retry(tamarisk_model::sim::Retry::backoff(2, exponential(50 * MS), 2.0))
            .leaves(exponential(leaves * MS));
        let scenario = Scenario::new(classes(&["one", "two"]), 4 * SECOND)
            .kind("poll", "one")
            .kind("stream", "two")
            .stage(stage)
            .stage(Stage::new("next", 2, exponential(5 * MS)).route("work", 0.2))
            .client(client);
        let park_after = park_after.map(|after| after * MS);
        let probe = Probe { park_after, most, ..Probe::new(limit) };
        let simulation = Simulation::new(&scenario).unwrap();
        let run = simulation.start(seed).law("work", Box::new(probe.clone())).unwrap();
        let report = run.finish();
        for class in &report.classes {
            let inside = class.inside.1 - class.inside.0;
            prop_assert_eq!(class.counts.offered, class.counts.ended() + inside);
        }
        prop_assert!(probe.told.lock().unwrap().running_most <= limit);
    }
}
