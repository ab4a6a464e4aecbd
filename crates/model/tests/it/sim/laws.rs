//! Laws at stages: told what the live runtime tells them, and obeyed.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Concurrency, Decision, Dequeue, Finished, Order,
    PlaceLimits, QueueOrder, Ratio, Reason, Rejection, Timestamp, Waiting,
};
use tamarisk_laws::{PredictGateTrim, WorkLimit};
use tamarisk_model::sim::{
    Client, Discipline, Distribution, Load, Outcome, Scenario, Seen, Stage, TraceArrival, Watch,
    What,
};

use super::*;

/// Writes down all that it is told.
struct Scribe {
    written: Arc<Mutex<String>>,
    /// What it answers to `concurrency` before and after 150 ms.
    limits: Option<(u32, u32)>,
    now: Timestamp,
}

impl Scribe {
    fn note(&mut self, now: Timestamp, what: &str, backlog: &Backlog<'_>) {
        self.now = now;
        let Backlog { queued, running, workers, .. } = backlog;
        let at = now.as_nanos() / 1_000_000;
        let line = format!("{at} {what} {queued:?} {running:?} of {workers}");
        writeln!(self.written.lock().unwrap(), "{line}").unwrap();
        assert_eq!(backlog.queued_total, queued.iter().sum::<u32>());
        assert_eq!(backlog.running_total, running.iter().sum::<u32>());
    }
}

impl AdmissionLaw for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.note(now, &format!("arrival {}", arrival.class.index()), backlog);
        if backlog.queued_total < 3 {
            Decision::Admit
        } else {
            Decision::Reject(Rejection::new(Reason::QueueFull))
        }
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let age = now.since(waiting.entered).as_millis();
        self.note(now, &format!("dequeue {} aged {age}", waiting.class.index()), backlog);
        if age > 115 { Dequeue::Drop } else { Dequeue::Run }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let Finished { class, service, response, .. } = finished;
        let times = (service.as_millis(), response.as_millis());
        self.note(now, &format!("finish {} {times:?}", class.index()), backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.note(now, "tick", backlog);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for Scribe {
    fn concurrency(&self) -> Option<Concurrency> {
        let (before, after) = self.limits?;
        let later = self.now >= Timestamp::from_nanos(150_000_000);
        Some(Concurrency::new(if later { after } else { before }))
    }
}

impl QueueOrder for Scribe {
    fn order(&self, head_age: Duration) -> Order {
        let line = format!("order, head aged {}", head_age.as_millis());
        writeln!(self.written.lock().unwrap(), "{line}").unwrap();
        if head_age > 50 * MS { Order::NewestFirst } else { Order::OldestFirst }
    }
}

/// Arrivals of (ms, class, ms of service).
fn trace(arrivals: &[(u32, usize, u32)]) -> Load {
    let arrival = |&(at, class, service): &(u32, usize, u32)| TraceArrival {
        at: at * MS,
        class: ClassId::new(class),
        kind: 0,
        flow: 0,
        service: Some(service * MS),
    };
    Load::Trace(arrivals.iter().map(arrival).collect())
}

/// What a scribe writes at a stage that serves these arrivals.
fn written(
    stage: Stage,
    limits: Option<(u32, u32)>,
    arrivals: &[(u32, usize, u32)],
    until: Duration,
) -> String {
    let scenario = Scenario::new(classes(&["a", "b"]), until).stage(stage).client(Client::new(
        "recorded",
        "work",
        trace(arrivals),
    ));
    let written = Arc::new(Mutex::new(String::new()));
    let law = Scribe { written: Arc::clone(&written), limits, now: Timestamp::ZERO };
    let simulation = Simulation::new(&scenario).unwrap();
    simulation.start(1).law("work", Box::new(law)).unwrap().finish();
    written.lock().unwrap().clone()
}

fn stage(workers: u32) -> Stage {
    Stage::new("work", workers, Distribution::Constant(SECOND))
}

#[test]
fn a_law_is_told_what_a_live_stage_tells_it() {
    // The live gate: at the door the backlog without the newcomer; who finds a place is
    // never asked about; an end with the one that ended no longer counted; then
    // whoever is next, still counted as queued. A tick asks about all who wait.
    let arrivals = [(10, 0, 60), (20, 1, 45), (30, 0, 10), (40, 1, 10), (50, 0, 10), (60, 1, 1)];
    let written = written(stage(1), None, &arrivals, 140 * MS);
    let expected = "\
        0 tick [0, 0] [0, 0] of 1\n\
        10 arrival 0 [0, 0] [0, 0] of 1\n\
        20 arrival 1 [0, 0] [1, 0] of 1\n\
        30 arrival 0 [0, 1] [1, 0] of 1\n\
        40 arrival 1 [1, 1] [1, 0] of 1\n\
        50 arrival 0 [1, 2] [1, 0] of 1\n\
        60 arrival 1 [1, 2] [1, 0] of 1\n\
        70 finish 0 (60, 60) [1, 2] [0, 0] of 1\n\
        70 dequeue 1 aged 50 [1, 2] [0, 0] of 1\n\
        100 tick [1, 1] [0, 1] of 1\n\
        100 dequeue 0 aged 70 [1, 1] [0, 1] of 1\n\
        100 dequeue 1 aged 60 [1, 1] [0, 1] of 1\n\
        115 finish 1 (45, 95) [1, 1] [0, 0] of 1\n\
        115 dequeue 0 aged 85 [1, 1] [0, 0] of 1\n\
        125 finish 0 (10, 95) [0, 1] [0, 0] of 1\n\
        125 dequeue 1 aged 85 [0, 1] [0, 0] of 1\n\
        135 finish 1 (10, 95) [0, 0] [0, 0] of 1\n";
    assert_eq!(written, expected);
}

#[test]
fn the_law_names_the_end_of_the_queue_where_the_discipline_leaves_it_open() {
    // Class 0 goes first, however old the head of class 1; within a class, from the end
    // that the law names. What the law drops is not run, and the next one is asked for.
    let arrivals = [(0, 0, 130), (1, 1, 9), (30, 1, 9), (98, 0, 9)];
    let stage = stage(1).discipline(Discipline::AdaptiveLifo);
    let written = written(stage, None, &arrivals, 190 * MS);
    let expected = "\
        0 tick [0, 0] [0, 0] of 1\n\
        0 arrival 0 [0, 0] [0, 0] of 1\n\
        1 arrival 1 [0, 0] [1, 0] of 1\n\
        30 arrival 1 [0, 1] [1, 0] of 1\n\
        98 arrival 0 [0, 2] [1, 0] of 1\n\
        100 tick [1, 2] [1, 0] of 1\n\
        100 dequeue 0 aged 2 [1, 2] [1, 0] of 1\n\
        100 dequeue 1 aged 99 [1, 2] [1, 0] of 1\n\
        100 dequeue 1 aged 70 [1, 2] [1, 0] of 1\n\
        130 finish 0 (130, 130) [1, 2] [0, 0] of 1\n\
        order, head aged 129\n\
        130 dequeue 0 aged 32 [1, 2] [0, 0] of 1\n\
        139 finish 0 (9, 41) [0, 2] [0, 0] of 1\n\
        order, head aged 138\n\
        139 dequeue 1 aged 109 [0, 2] [0, 0] of 1\n\
        148 finish 1 (9, 118) [0, 1] [0, 0] of 1\n\
        order, head aged 147\n\
        148 dequeue 1 aged 147 [0, 1] [0, 0] of 1\n";
    assert_eq!(written, expected);
}

#[test]
fn a_limit_of_the_law_holds_from_the_end_or_tick_after_which_it_was_named() {
    // One at a time until 150 ms, then two: at the end at 160 ms two begin.
    let arrivals = [(110, 0, 50), (120, 0, 30), (130, 1, 30)];
    let written = written(stage(9), Some((1, 2)), &arrivals, 180 * MS);
    let expected = "\
        0 tick [0, 0] [0, 0] of 1\n\
        100 tick [0, 0] [0, 0] of 1\n\
        110 arrival 0 [0, 0] [0, 0] of 1\n\
        120 arrival 0 [0, 0] [1, 0] of 1\n\
        130 arrival 1 [1, 0] [1, 0] of 1\n\
        160 finish 0 (50, 50) [1, 1] [0, 0] of 1\n\
        160 dequeue 0 aged 40 [1, 1] [0, 0] of 2\n\
        160 dequeue 1 aged 30 [0, 1] [1, 0] of 2\n";
    assert_eq!(written, expected);
}

#[test]
fn whom_a_law_lets_through_beyond_the_workers_waits_for_one_behind_the_stage() {
    // One worker, three at a time by the law: 50 ms, 30 ms and 30 ms one after the other.
    let arrivals = [(110, 0, 50), (120, 0, 30), (130, 1, 30)];
    let written = written(stage(1), Some((3, 3)), &arrivals, 240 * MS);
    let expected = "\
        0 tick [0, 0] [0, 0] of 3\n\
        100 tick [0, 0] [0, 0] of 3\n\
        110 arrival 0 [0, 0] [0, 0] of 3\n\
        120 arrival 0 [0, 0] [1, 0] of 3\n\
        130 arrival 1 [0, 0] [2, 0] of 3\n\
        160 finish 0 (50, 50) [0, 0] [1, 1] of 3\n\
        190 finish 0 (70, 70) [0, 0] [0, 1] of 3\n\
        200 tick [0, 0] [0, 1] of 3\n\
        220 finish 1 (90, 90) [0, 0] [0, 0] of 3\n";
    assert_eq!(written, expected);
}

/// Admits everything, and writes down how busy the processors are and whose requests come.
#[derive(Clone, Default)]
struct Witness {
    busy: Arc<Mutex<Vec<f64>>>,
    flows: Arc<Mutex<Vec<u64>>>,
}

impl AdmissionLaw for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        self.flows.lock().unwrap().push(arrival.flow);
        Decision::Admit
    }

    fn on_cpu(&mut self, _: Timestamp, busy: Ratio) {
        self.busy.lock().unwrap().push(busy.get());
    }
}

fn witnessed(scenario: &Scenario) -> Witness {
    let witness = Witness::default();
    let law = Box::new(witness.clone());
    Simulation::new(scenario).unwrap().start(1).law("work", law).unwrap().finish();
    witness
}

#[test]
fn laws_are_told_how_busy_the_workers_are() {
    // Two workers: one works from 110 to 210 ms, the other from 150 to 200 ms.
    let arrivals = [(110, 0, 100), (150, 0, 50)];
    let scenario = Scenario::new(classes(&["a"]), 350 * MS).stage(stage(2)).client(Client::new(
        "recorded",
        "work",
        trace(&arrivals),
    ));
    assert_eq!(*witnessed(&scenario).busy.lock().unwrap(), [0.0, 0.0, 0.7, 0.05]);
}

#[test]
fn laws_are_told_of_clients_where_the_scenario_tells_them_apart() {
    let flows = |count| {
        let scenario = Scenario::new(classes(&["a"]), SECOND)
            .stage(stage(100))
            .client(Client::poisson("one", "work", 50.0))
            .client(Client::poisson("others", "work", 50.0).flows(count));
        let mut flows = witnessed(&scenario).flows.lock().unwrap().clone();
        flows.sort_unstable();
        flows.dedup();
        flows
    };
    // Zero is who is not known.
    assert_eq!(flows(1), [0]);
    assert_eq!(flows(3), [1, 2, 3, 4]);
}

/// What each request was like, by number: when it came, its class, how long it was served.
#[derive(Default)]
struct Requests(Vec<(u64, ClassId, Option<u64>, u64)>);

impl Watch for Requests {
    fn see(&mut self, seen: &Seen) {
        let at = seen.at.as_nanos();
        match seen.what {
            What::Offered => self.0.push((at, seen.class, None, 0)),
            What::Started => self.0[seen.number as usize - 1].3 = at,
            What::Ended(Outcome::Completed) => {
                let request = &mut self.0[seen.number as usize - 1];
                request.2 = Some(at - request.3);
            }
            _ => {}
        }
    }
}

#[test]
fn a_request_is_the_same_request_under_every_law() {
    let scenario = Scenario::new(classes(&["a", "b"]), 5 * SECOND)
        .stage(Stage::new("work", 2, exponential(10 * MS)))
        .client(Client::poisson("clients", "work", 600.0).class("a", 0.5).class("b", 0.5));
    let simulation = Simulation::new(&scenario).unwrap();
    let mut open = Requests::default();
    simulation.start(3).watch(&mut open).finish();
    let mut controlled = Requests::default();
    let law = Box::new(PredictGateTrim::new(&scenario.classes));
    simulation.start(3).law("work", law).unwrap().watch(&mut controlled).finish();

    assert_eq!(open.0.len(), controlled.0.len());
    let (mut served_by_both, mut served_by_one) = (0, 0);
    for (one, other) in open.0.iter().zip(&controlled.0) {
        assert_eq!((one.0, one.1), (other.0, other.1));
        match (one.2, other.2) {
            (Some(one), Some(other)) => {
                assert_eq!(one, other);
                served_by_both += 1;
            }
            (Some(_), None) | (None, Some(_)) => served_by_one += 1,
            (None, None) => {}
        }
    }
    assert!(served_by_both > 100 && served_by_one > 100, "{served_by_both} {served_by_one}");
}

#[test]
fn the_default_law_keeps_goodput_and_target_at_ten_times_the_capacity() {
    let scenario = Scenario::new(one_class(), 30 * SECOND)
        .warm_up(5 * SECOND)
        .stage(Stage::new("work", 8, exponential(10 * MS)).discipline(Discipline::AdaptiveLifo))
        .client(Client::poisson("crowd", "work", 8000.0));
    let simulation = Simulation::new(&scenario).unwrap();
    let law = Box::new(PredictGateTrim::new(&scenario.classes));
    let report = simulation.start(1).law("work", law).unwrap().finish();
    let class = &report.classes[0];
    assert!(class.goodput() > 0.95 * 800.0, "{}", class.goodput());
    assert_eq!(class.seconds_over, 0);
    assert_eq!(report.stages[0].classes[0].rejected_idle, 0);
    let open = simulation.run(1);
    assert_eq!(open.classes[0].seconds_over, 30);
    assert_eq!(open.classes[0].in_time, 0);
    assert!(open.classes[0].late_seconds > 1e4);
}

#[test]
fn a_chance_order_of_the_first_answers_does_not_make_an_idle_upstream_full() {
    let text = include_str!("../../../../../scenarios/tight.toml").replace("\"60s\"", "\"5s\"");
    let scenario = tamarisk_model::scenario::parse("tight.toml", &text).unwrap().scenario;
    let simulation = Simulation::new(&scenario).unwrap();
    // With this seed the first twelve end as if one by one.
    let law = Box::new(WorkLimit::new(&scenario.classes));
    let report = simulation.start(44).law("application", law).unwrap().finish();
    assert!(report.classes[0].rejected_share() < 0.003, "{}", report.classes[0].rejected_share());
}
