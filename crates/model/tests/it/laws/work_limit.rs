//! What the work limit is for: upstreams that cannot be seen into, overloaded or not.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Concurrency, Decision, Dequeue, Finished, Moved,
    PlaceLimits, QueueOrder, Reading, Timestamp, Waiting,
};
use tamarisk_laws::WorkLimit;
use tamarisk_model::scenario;
use tamarisk_model::sim::{Outcome, Simulation};

use super::records::{Record, Summary};
use super::situations::{self, Situation};
use super::{reading, run, run_to_end};

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

fn law(situation: &Situation) -> Box<WorkLimit> {
    Box::new(WorkLimit::new(situation.classes()))
}

fn overall(situation: &Situation, seed: u64) -> Summary {
    situation.summary(&run(law(situation), situation, seed))
}

/// Mean and least goodput, in parts of the capacity, are at least these.
fn check(situation: &Situation, mean_min: f64, least_min: f64) {
    let goodputs = SEEDS.map(|seed| overall(situation, seed).goodput / situation.capacity);
    let mean = goodputs.iter().sum::<f64>() / goodputs.len() as f64;
    let least = goodputs.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(mean >= mean_min && least >= least_min, "mean {mean:.3}, least {least:.3}");
}

/// The share of requests that were rejected or dropped, of all seeds, at most.
fn check_rejected(situation: &Situation, most: f64) {
    let shares = SEEDS.map(|seed| overall(situation, seed).turned_away());
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean <= most, "{mean:.5}: {shares:?}");
}

/// A law before a clock that began a while ago, whose limit is written down. All requests are one
/// client's: clients are counted with a salt, which is the time at which an overload began.
struct Later {
    law: WorkLimit,
    by: Duration,
    /// Instants and limits.
    limits: Arc<Mutex<Vec<(Timestamp, f64)>>>,
}

impl AdmissionLaw for Later {
    fn name(&self) -> &'static str {
        self.law.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let arrival =
            Arrival { deadline: arrival.deadline.map(|at| at + self.by), flow: 0, ..*arrival };
        self.law.on_arrival(now + self.by, &arrival, backlog)
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let entered = waiting.entered + self.by;
        let waiting =
            Waiting { entered, deadline: waiting.deadline.map(|at| at + self.by), ..*waiting };
        self.law.on_dequeue(now + self.by, &waiting, backlog)
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let entered = waiting.entered + self.by;
        let waiting =
            Waiting { entered, deadline: waiting.deadline.map(|at| at + self.by), ..*waiting };
        self.law.on_sweep(now + self.by, &waiting, backlog)
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.law.on_move(now + self.by, moved, backlog);
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.law.on_finish(now + self.by, finished, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.law.on_tick(now + self.by, backlog);
        let mut limits = self.limits.lock().unwrap();
        self.law.readings(&mut |reading| {
            if reading.name == "limit_count" {
                limits.push((now, reading.value));
            }
        });
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.law.readings(visit);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for Later {
    fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        self.law.park_after(class, kind)
    }

    fn may_start(&self, class: ClassId, kind: u64, backlog: &Backlog<'_>) -> bool {
        self.law.may_start(class, kind, backlog)
    }

    fn concurrency(&self) -> Option<Concurrency> {
        self.law.concurrency()
    }
}

impl QueueOrder for Later {
    fn due(&self, waiting: &Waiting) -> Timestamp {
        self.law.due(waiting)
    }
}

#[test]
fn it_does_the_same_whenever_its_clock_began() {
    let situation = situations::uniform(10.0);
    let run_later = |by| {
        run(Box::new(Later { law: *law(&situation), by, limits: Arc::default() }), &situation, 1)
    };
    let now = run_later(Duration::ZERO);
    let later = run_later(Duration::from_secs(36_000));
    assert!(now == later, "the first difference is at {:?}", differs_at(&now, &later));
}

fn differs_at(some: &[Record], others: &[Record]) -> Option<usize> {
    some.iter().zip(others).position(|(one, other)| one != other)
}

#[test]
fn an_application_that_is_not_overloaded_has_nothing_rejected_however_long_its_reports_take() {
    for reports in [15.0, 30.0] {
        check_rejected(&situations::idle_application(reports), 0.0);
    }
}

/// What of all requests was not answered, where as many are served at once as come: on average over
/// twenty seeds, and at most.
fn rejected_idle(text: &str) -> (f64, f64) {
    let file = scenario::parse("idle.toml", text).unwrap();
    let simulation = Simulation::new(&file.scenario).unwrap();
    let shares = (1..=20).map(|seed| {
        let law = Box::new(WorkLimit::new(&file.scenario.classes));
        let report = simulation.start(seed).law("application", law).unwrap().finish();
        let counts = report.classes[0].counts;
        (counts.rejected + counts.dropped) as f64 / counts.offered as f64
    });
    let shares: Vec<f64> = shares.collect();
    (shares.iter().sum::<f64>() / 20.0, shares.into_iter().fold(0.0, f64::max))
}

/// The first answers are the short ones, and chance alone makes windows in which all take twice as
/// long as they did: that is no queue.
#[test]
fn service_of_half_of_the_target_is_not_taken_for_a_queue_where_nobody_waits() {
    let text = |rate: &str, service: &str, target: &str| {
        format!(
            "duration = \"60s\"\np90 = \"{target}\"\n\
             [stages.application]\nworkers = \"unlimited\"\n\
             service = {service}\nadmission = \"work-limit\"\n\
             [clients.users]\nopen = \"{rate}\"\n"
        )
    };
    let exponential = r#"{ exponential = "1s" }"#;
    for (rate, service, target, most, worst) in [
        ("8/s", exponential, "2s", 0.006, 0.1),
        ("40/s", exponential, "2s", 0.002, 0.01),
        // Equal responses are no queue either; what is rejected came in the first two seconds.
        ("40/s", "\"1s\"", "1500ms", 0.02, 0.05),
    ] {
        let (mean, least) = rejected_idle(&text(rate, service, target));
        assert!(mean <= most && least <= worst, "{rate} {service} {target}: {mean:.4}, {least:.4}");
    }
}

/// Before many answers have come, no more long work is sent than few workers could do in time. That
/// alone would never show that there are more.
#[test]
fn caution_with_long_work_ends_where_there_is_room() {
    for (rate, calls) in [("0.4/s", 5), ("8/s", 5), ("2/s", 1)] {
        let (mean, _) = rejected_idle(&format!(
            "duration = \"60s\"\np90 = \"1500ms\"\n\
             [stages.application]\nworkers = \"unlimited\"\ndiscipline = \"earliest-due\"\n\
             service = {{ uniform = [\"290ms\", \"1710ms\"] }}\nadmission = \"work-limit\"\n\
             [clients.users]\nopen = \"{rate}\"\ncalls = {calls}\n"
        ));
        assert!(mean <= 0.025, "{rate}, {calls}: {mean:.4}");
    }
}

#[test]
fn streams_whose_first_data_takes_long_are_sent_where_there_is_room() {
    let text = r#"
        duration = "60s"
        p90 = "2s"
        kinds = { stream = {} }
        [stages.application]
        workers = "unlimited"
        service = "3s"
        kinds = { stream = { first_data = "1s" } }
        admission = "work-limit"
        [clients.users]
        open = "20/s"
        mix = { stream = 1 }
    "#;
    let (mean, most) = rejected_idle(text);
    assert!(mean < 0.1 && most < 0.15, "{mean:.4}, {most:.4}");
}

/// The scenario of this name, with 20 seeds: the mean share of the requests that is rejected, and how
/// many a second end as they should after the first minute, until the clients stop.
fn streamed(name: &str) -> (f64, f64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = scenario::load(&folder.join(name).with_extension("toml")).unwrap();
    let simulation = Simulation::new(&file.scenario).unwrap();
    let runs = (1..=20).map(|seed| {
        let stage = &file.scenario.stages[0].name;
        let law = Box::new(WorkLimit::new(&file.scenario.classes));
        let report = simulation.start(seed).law(stage, law).unwrap().finish();
        let counts = report.classes[0].counts;
        let rejected = (counts.rejected + counts.dropped) as f64;
        (rejected / counts.offered as f64, counts.completed as f64 / 300.0)
    });
    runs.fold((0.0, 0.0), |sums, run| (sums.0 + run.0 / 20.0, sums.1 + run.1 / 20.0))
}

#[test]
fn streams_that_wait_for_something_to_happen_do_not_wait_for_a_place() {
    let (rejected, _) = streamed("notifications");
    assert!(rejected < 0.001, "{rejected:.4}");
}

#[test]
fn no_more_streams_are_sent_to_a_shared_upstream_than_are_of_use() {
    let (rejected, ended) = streamed("calm-shared-streams");
    assert!(rejected < 0.02, "{rejected:.4}, {ended:.3}");
    let (rejected, ended) = streamed("shared-streams");
    assert!(rejected > 0.5 && ended > 0.8 * 0.894, "{rejected:.4}, {ended:.3}");
}

#[test]
fn at_four_fifths_of_the_capacity_next_to_nothing_is_rejected() {
    check_rejected(&situations::uniform(0.8), 0.001);
    check_rejected(&situations::wide(0.8), 0.001);
    check_rejected(&situations::eighty_percent(), 0.001);
    check_rejected(&situations::workers_of_40_ms(0.8, 200), 0.005);
}

#[test]
fn goodput_stays_in_an_overload() {
    check(&situations::uniform(10.0), 0.95, 0.93);
    // Short requests go first, so that more are answered than of an average mix.
    check(&situations::spike(), 1.2, 1.0);
    check(&situations::step(10.0), 1.2, 1.0);
    check(&situations::wide(2.0), 0.8, 0.7);
}

#[test]
fn service_that_becomes_slower_is_not_taken_for_a_queue() {
    // 1 ÷ 2.5 of the capacity is left.
    check(&situations::slowdown(), 0.45, 0.37);
}

/// Where the limit settles by the equations of docs/WORK-LIMIT.md, if the service is known, before so
/// many workers, of so many seconds each, that are promised in so many times as long.
fn settles_at(workers: f64, promise: f64) -> f64 {
    let waiting = 0.15 * (promise - 1.0) * workers;
    workers + waiting.min(0.35 * workers).max(0.5 + 0.08 * workers)
}

/// The limit before so many workers of 40 ms at three times what they can do: its mean over 20 s,
/// for a trial of another limit is none that it has settled at.
fn settled(workers: u32, p90_millis: f64, seed: u64) -> f64 {
    let text = format!(
        "duration = \"40s\"\np90 = \"{p90_millis}ms\"\n[stages.application]\n\
         workers = {workers}\nservice = {{ exponential = \"40ms\" }}\n\
         admission = \"work-limit\"\n[clients.users]\nopen = \"{}/s\"\n",
        3 * workers * 25,
    );
    let scenario = scenario::parse("settles.toml", &text).unwrap().scenario;
    let limits = Arc::<Mutex<Vec<_>>>::default();
    let watched = Arc::clone(&limits);
    let law = WorkLimit::new(&scenario.classes);
    let law = Box::new(Later { law, by: Duration::ZERO, limits: watched });
    Simulation::new(&scenario).unwrap().start(seed).law("application", law).unwrap().finish();
    let from = Timestamp::ZERO + Duration::from_secs(20);
    let limits = limits.lock().unwrap();
    let late: Vec<_> = limits.iter().filter(|(at, _)| *at >= from).map(|(_, it)| *it).collect();
    late.iter().sum::<f64>() / late.len() as f64
}

/// The means and the spread are those of docs/WORK-LIMIT.md; `--nocapture` prints them.
#[test]
fn the_limit_settles_where_the_equations_say() {
    println!(
        "| workers | target ÷ service | by the equations | mean of 20 seeds | least … greatest |"
    );
    for (workers, promise) in [(1, 5.0), (4, 2.0), (8, 5.0), (8, 20.0), (40, 5.0), (100, 5.0)] {
        let mut limits: Vec<f64> =
            (1..=20).map(|seed| settled(workers, 40.0 * promise, seed)).collect();
        limits.sort_by(f64::total_cmp);
        let (mean, expected) =
            (limits.iter().sum::<f64>() / 20.0, settles_at(f64::from(workers), promise));
        let (least, greatest) = (limits[0], limits[19]);
        println!("| {workers} | {promise} | {expected:.1} | {mean:.1} | {least} … {greatest} |");
        assert!((0.85..1.25).contains(&(mean / expected)), "{mean} instead of {expected}");
        assert!(least >= 0.6 * expected && greatest <= 1.9 * expected, "{limits:?}");
    }
}

#[test]
fn an_upstream_that_suffers_from_concurrency_is_spared() {
    check(&situations::contended(), 0.9, 0.85);
}

#[test]
fn a_target_below_the_service_means_best_effort() {
    let situation = situations::workers_of_40_ms(3.0, 20);
    let shares = SEEDS.map(|seed| {
        let (records, stage) = run_to_end(law(&situation), &situation, seed);
        let completed = Some(Outcome::Completed);
        let done = records.iter().filter(|record| record.outcome == completed).count();
        let out_of_reach = reading(&stage, "target_out_of_reach_ratio");
        assert!(out_of_reach > 0.9, "{out_of_reach}");
        done as f64 / (200.0 * 40.0)
    });
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.85 && shares.iter().all(|share| *share > 0.7), "{shares:?}");
    check_rejected(&situations::workers_of_40_ms(0.5, 20), 0.03);
}

#[test]
fn a_client_that_leaves_at_once_and_comes_again_makes_nobody_else_late() {
    let text = include_str!("../../../../../scenarios/leaving-client.toml");
    let scenario = scenario::parse("leaving-client.toml", text).unwrap().scenario;
    let simulation = Simulation::new(&scenario).unwrap();
    let (mut in_time, mut offered) = (0, 0);
    for seed in SEEDS {
        let law = Box::new(WorkLimit::new(&scenario.classes));
        let report = simulation.start(seed).law("application", law).unwrap().finish();
        // The first flow is the client that leaves.
        in_time += report.flows[1..].iter().map(|flow| flow.in_time).sum::<u64>();
        offered += report.flows[1..].iter().map(|flow| flow.offered).sum::<u64>();
    }
    let share = in_time as f64 / offered as f64;
    assert!(share > 0.95, "{share:.3} of the others' requests were in time");
}

#[test]
fn the_same_events_give_the_same_decisions() {
    let situation = situations::workers_of_40_ms(3.0, 200);
    assert_eq!(run(law(&situation), &situation, 7), run(law(&situation), &situation, 7));
}

/// Twice what can be borne, where service takes six tenths of the target: it can be kept, so it is.
#[test]
fn a_target_that_service_leaves_little_of_is_kept_nevertheless() {
    let text = include_str!("../../../../../scenarios/most-of-target.toml");
    let file = scenario::parse("most-of-target.toml", text).unwrap();
    let simulation = Simulation::new(&file.scenario).unwrap();
    for seed in SEEDS {
        let law = Box::new(WorkLimit::new(&file.scenario.classes));
        let report = simulation.start(seed).law("service", law).unwrap().finish();
        // Of 67 a second.
        let goodput = report.classes[0].goodput();
        assert!(goodput > 50.0, "seed {seed}: {goodput:.1} answers in time a second");
    }
}

/// A crowd asks for one kind of work at once, and finds a law that knows nothing. What came of another
/// kind meanwhile waited in the upstream behind it, which is none of its service.
#[test]
fn a_crowd_from_a_cold_start_does_not_make_other_kinds_look_long() {
    let text = r#"
        duration = "10s"
        p90 = "200ms"
        kinds = { page = {}, large = {} }
        [stages.application]
        workers = 8
        service = { exponential = "40ms" }
        admission = "work-limit"
        [clients.crowd]
        closed = 33
        think = "1h"
        mix = { large = 1 }
        [clients.users]
        open = "100/s"
        mix = { page = 1 }
    "#;
    let file = scenario::parse("crowd.toml", text).unwrap();
    let simulation = Simulation::new(&file.scenario).unwrap();
    let rejected = (1..=40).map(|seed| {
        let law = Box::new(WorkLimit::new(&file.scenario.classes));
        let report = simulation.start(seed).law("application", law).unwrap().finish();
        report.classes[0].counts.rejected
    });
    let mean = rejected.sum::<u64>() as f64 / 40.0;
    assert!(mean < 1.5, "{mean} of 1,000 are rejected");
}

/// Short requests beside `routes` kinds of long ones at three times what the others can do. Returns the
/// share of the short ones that are in time, on average.
fn gets_in_time_beside(routes: usize) -> f64 {
    let names: Vec<_> = (0..routes).map(|route| format!("report{route}")).collect();
    let each = |text: &str| names.iter().map(|name| format!("{name} = {text}")).collect::<Vec<_>>();
    let (kinds, service) =
        (each(r#"{ class = "reports" }"#), each("{ service = { exponential = '400ms' } }"));
    let text = format!(
        r#"
        duration = "70s"
        warm_up = "10s"
        classes = {{ gets = {{ p90 = "100ms" }}, reports = {{ p90 = "2s" }} }}
        kinds = {{ get = {{ class = "gets" }}, {} }}
        [stages.application]
        workers = 8
        discipline = "earliest-due"
        service = {{ exponential = "5ms" }}
        admission = "work-limit"
        kinds = {{ {} }}
        [clients.users]
        open = "100/s"
        mix = {{ get = 1 }}
        [clients.analysts]
        open = "56/s"
        mix = {{ {} }}
        "#,
        kinds.join(", "),
        service.join(", "),
        each(&(1.0 / routes as f64).to_string()).join(", "),
    );
    let file = scenario::parse("routes.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let simulation = Simulation::new(&file.scenario).unwrap();
    let shares = SEEDS.map(|seed| {
        let law = Box::new(WorkLimit::new(&file.scenario.classes));
        let report = simulation.start(seed).law("application", law).unwrap().finish();
        report.classes[0].goodput() / 100.0
    });
    shares.iter().sum::<f64>() / SEEDS.len() as f64
}

/// With a row for only half of the routes it is a fifth.
#[test]
fn short_requests_beside_128_routes_have_more_than_half_of_what_they_have_beside_8() {
    let [few, many] = [8, 128].map(gets_in_time_beside);
    assert!(many >= 0.5 * few, "{many:.3} beside 128, {few:.3} beside 8");
}
