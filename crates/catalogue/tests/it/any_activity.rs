//! Any sequence of ticks and finished events, sensible or absurd, against every slow
//! law: counts may jump, stand still or go back, and so may the clock. After each
//! step every reading is finite and what the laws promise holds.

use std::time::Duration;

use proptest::prelude::*;
use tamarisk_catalogue::papers::*;
use tamarisk_control::*;
use tamarisk_laws::*;

const LEAST: f64 = 0.25;
const WORKERS: (u32, u32) = (2, 40);
const BATCH_MOST: u32 = 300;

#[derive(Clone, Debug)]
enum Operation {
    PassNanos(u64),
    StepBackNanos(u64),
    Arrive {
        class: u8,
    },
    Dequeue {
        class: u8,
        age_ns: u64,
    },
    Finish {
        class: u8,
        response_ns: u64,
        ending: Ending,
    },
    Tick {
        activity: Counts,
        leeway: Leeway,
    },
    Shift(Counts),
    /// The target of the first class, in milliseconds.
    SetTarget(u64),
}

/// Counts as a confused stage might tell them.
#[derive(Clone, Debug)]
struct Counts {
    offered: u64,
    lost: u64,
    completed: u64,
    idle: u32,
    queued: u32,
    running: u32,
}

impl Counts {
    fn backlog<'a>(&self, queued: &'a [u32], running: &'a [u32], workers: u32) -> Backlog<'a> {
        Backlog {
            queued,
            running,
            queued_total: self.queued,
            running_total: self.running,
            workers: Concurrency::new(workers),
        }
    }

    fn with(&self, see: impl FnOnce(&Activity<'_>)) {
        let (queued, running) = ([self.queued, 0], [self.running, 0]);
        let backlog = self.backlog(&queued, &running, 4);
        let &Self { offered, lost, completed, idle, .. } = self;
        see(&Activity { backlog, offered, lost, completed, workers_idle: idle });
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let nanos = prop_oneof![
        4 => 0..2_000_000_000_u64,
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => 0..=86_400_000_000_000_u64,
    ];
    let count = prop_oneof![6 => 0..10_000_u64, 1 => any::<u64>(), 1 => Just(0)];
    let some = prop_oneof![6 => 0..500_u32, 1 => any::<u32>(), 2 => Just(0)];
    let counts = (count.clone(), count.clone(), count, some.clone(), some.clone(), some).prop_map(
        |(offered, lost, completed, idle, queued, running)| Counts {
            offered,
            lost,
            completed,
            idle,
            queued,
            running,
        },
    );
    let ending = prop_oneof![
        4 => Just(Ending::Completed),
        1 => Just(Ending::Failed),
        1 => Just(Ending::Terminated),
        1 => Just(Ending::Untimed),
        1 => Just(Ending::Abandoned),
    ];
    let leeway =
        prop_oneof![2 => Just(Leeway::Either), 1 => Just(Leeway::Press), 1 => Just(Leeway::Ease)];
    let class = prop_oneof![8 => 0..2_u8, 1 => 0..64_u8];
    prop_oneof![
        6 => nanos.clone().prop_map(Operation::PassNanos),
        1 => nanos.clone().prop_map(Operation::StepBackNanos),
        4 => class.clone().prop_map(|class| Operation::Arrive { class }),
        2 => (class.clone(), nanos.clone())
            .prop_map(|(class, age_ns)| Operation::Dequeue { class, age_ns }),
        4 => (class, nanos, ending).prop_map(|(class, response_ns, ending)| {
            Operation::Finish { class, response_ns, ending }
        }),
        8 => (counts.clone(), leeway)
            .prop_map(|(activity, leeway)| Operation::Tick { activity, leeway }),
        1 => counts.prop_map(Operation::Shift),
        1 => (1..=2000_u64).prop_map(Operation::SetTarget),
    ]
}

fn classes() -> Classes {
    let class = |name: &str, millis, priority| Class {
        name: name.into(),
        target: Target::p90(Duration::from_millis(millis)).unwrap(),
        priority: Priority(priority),
    };
    Classes::new(vec![class("gold", 200, 0), class("dust", 5, 1)]).unwrap()
}

fn promise(classes: &mut Classes, millis: u64) {
    let target = Target::p90(Duration::from_millis(millis)).unwrap();
    classes.set_target(ClassId::DEFAULT, target);
}

fn pool() -> PoolSizing {
    PoolSizing::new(Concurrency::new(WORKERS.0)..=Concurrency::new(WORKERS.1), 7)
}

/// The departure-rate controllers, each by the percentile and for a throughput that is stated.
fn departure_rates(classes: &Classes) -> Vec<DepartureRate> {
    let range = || Concurrency::new(WORKERS.0)..=Concurrency::new(WORKERS.1);
    let law = |control| DepartureRate::new(classes, control, range()).unwrap();
    let by_percentile = DepartureControl::ALL.map(law);
    let stated = DepartureControl::ALL.map(|control| {
        let mut law = law(control);
        law.set_throughput(PerSecond::new(300.0).unwrap());
        law
    });
    by_percentile.into_iter().chain(stated).collect()
}

fn workers_of(law: &DepartureRate) -> f64 {
    let mut workers = 0.0;
    law.readings(&mut |reading| {
        if reading.name == "workers_count" {
            workers = reading.value;
        }
    });
    workers
}

fn batching() -> ThroughputBatching {
    ThroughputBatching::new(BatchSize::new(BATCH_MOST))
}

fn degradation(classes: &Classes) -> Degradation {
    Degradation::new(classes, Ratio::saturating(LEAST))
}

fn check_reading(reading: Reading<'_>) {
    let range = match reading.name {
        "quality_ratio" => LEAST..=1.0,
        "workers_count" | "workers_best_count" => f64::from(WORKERS.0)..=f64::from(WORKERS.1),
        "batch_events_count" => 1.0..=f64::from(BATCH_MOST),
        "run_limit_seconds" => 0.001..=20.0,
        "patience_periods_count" => 1.0..=256.0,
        _ => 0.0..=f64::MAX,
    };
    assert!(range.contains(&reading.value), "{reading:?}");
}

fn check_limits(classes: &Classes, limit: impl Fn(ClassId) -> Option<Duration>) {
    let at = |index| limit(ClassId::new(index)).unwrap();
    for (id, class) in classes.iter() {
        let target = class.target.response_time();
        assert!((target..=10 * target).contains(&at(id.index())), "{id:?}");
    }
    assert_eq!(at(63), at(0), "a class that is not known is the first one");
}

fn check_knobs(knobs: Knobs) {
    assert!((WORKERS.0..=WORKERS.1).contains(&knobs.workers.get()), "{knobs:?}");
    assert!((1..=BATCH_MOST).contains(&knobs.batch.get()), "{knobs:?}");
    assert!((LEAST..=1.0).contains(&knobs.quality.get()), "{knobs:?}");
}

fn clock(now: &mut u64, operation: &Operation) {
    match operation {
        Operation::PassNanos(nanos) => *now = now.saturating_add(*nanos),
        Operation::StepBackNanos(nanos) => *now = now.saturating_sub(*nanos),
        _ => {}
    }
}

fn finished(class: u8, response_ns: u64, ending: Ending) -> Finished {
    let response = Duration::from_nanos(response_ns);
    Finished {
        class: ClassId::new(class.into()),
        service: response / 2,
        response,
        ending,
        kind: 0,
        together: Together::ALONE,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn each_law_stays_within_its_bounds(operations in prop::collection::vec(operation(), 1..400)) {
        let mut classes = classes();
        let (mut workers, mut batch) = (pool(), batching());
        let mut departures = departure_rates(&classes);
        let mut quality = degradation(&classes);
        let mut termination = TerminationThreshold::new(&classes);
        let mut clock_ns = 0;
        let mut before = Ratio::ONE;
        for operation in &operations {
            clock(&mut clock_ns, operation);
            let now = Timestamp::from_nanos(clock_ns);
            match operation {
                &Operation::Finish { class, response_ns, ending } => {
                    let finished = finished(class, response_ns, ending);
                    quality.on_finish(now, &finished);
                    departures.iter_mut().for_each(|law| law.on_finish(now, &finished));
                }
                Operation::Tick { activity, leeway } => activity.with(|activity| {
                    for law in &mut departures {
                        let before = workers_of(law);
                        let after = f64::from(law.on_tick(now, activity, *leeway).get());
                        match leeway {
                            Leeway::Press => assert!(after >= before, "{law:?}"),
                            Leeway::Ease => assert!(after <= before, "{law:?}"),
                            Leeway::Either => {}
                        }
                    }
                    let workers = workers.on_tick(now, activity, *leeway);
                    let batch = batch.on_tick(now, activity);
                    let quality = quality.on_tick(now, activity, *leeway);
                    termination.on_tick(now, activity, *leeway);
                    check_knobs(Knobs { workers, batch, quality });
                    match leeway {
                        Leeway::Press => assert!(quality <= before),
                        Leeway::Ease => assert!(quality >= before),
                        Leeway::Either => {}
                    }
                    before = quality;
                }),
                Operation::Shift(activity) => activity.with(|activity| {
                    workers.on_shift(now, activity);
                    departures.iter_mut().for_each(|law| law.on_shift(now, activity));
                    batch.on_shift(now, activity);
                }),
                &Operation::SetTarget(millis) => {
                    promise(&mut classes, millis);
                    quality.set_targets(&classes);
                    departures.iter_mut().for_each(|law| law.set_targets(&classes));
                    termination.set_targets(&classes);
                }
                _ => {}
            }
            workers.readings(&mut |reading| check_reading(reading));
            departures.iter().for_each(|law| law.readings(&mut |reading| check_reading(reading)));
            batch.readings(&mut |reading| check_reading(reading));
            quality.readings(&mut |reading| check_reading(reading));
            termination.readings(&mut |reading| check_reading(reading));
            check_limits(&classes, |class| termination.limit(class));
        }
    }

    #[test]
    fn together_they_stay_within_their_bounds(is_composed in any::<bool>(), operations in prop::collection::vec(operation(), 1..400)) {
        let mut classes = classes();
        let knobs = Knobs {
            workers: Concurrency::new(WORKERS.0),
            batch: BatchSize::ONE,
            quality: Ratio::ONE,
        };
        let slow = SlowLaws {
            workers: Some(Box::new(pool())),
            batch: Some(Box::new(batching())),
            quality: Some(Box::new(degradation(&classes))),
            termination: Some(Box::new(TerminationThreshold::new(&classes))),
        };
        let coordination = Coordination::ALL[usize::from(is_composed)];
        let laws = StageLaws::coordinated(slow, coordination);
        let mut law = laws.with(Box::new(PredictGateTrim::new(&classes)), &classes, knobs);
        let crowded = Backlog {
            queued: &[500, 500],
            running: &[2, 0],
            queued_total: 1000,
            running_total: 2,
            workers: Concurrency::new(2),
        };
        let mut clock_ns = 0;
        for operation in &operations {
            clock(&mut clock_ns, operation);
            let now = Timestamp::from_nanos(clock_ns);
            match operation {
                &Operation::Arrive { class } => {
                    let arrival = Arrival { class: ClassId::new(class.into()), deadline: None, flow: 0, kind: 0 };
                    law.admission_mut().on_arrival(now, &arrival, &crowded);
                }
                &Operation::Dequeue { class, age_ns } => {
                    let entered = Timestamp::from_nanos(clock_ns.saturating_sub(age_ns));
                    let class = ClassId::new(class.into());
                    law.admission_mut().on_dequeue(now, &Waiting { class, entered, deadline: None, flow: 0, kind: 0 }, &crowded);
                }
                &Operation::Finish { class, response_ns, ending } => {
                    law.admission_mut().on_finish(now, &finished(class, response_ns, ending), &crowded);
                }
                Operation::Tick { activity, .. } => activity.with(|activity| {
                    law.admission_mut().on_tick(now, &activity.backlog);
                    check_knobs(law.govern(now, activity).unwrap());
                }),
                &Operation::SetTarget(millis) => {
                    promise(&mut classes, millis);
                    law.admission_mut().set_targets(&classes);
                }
                _ => {}
            }
            check_limits(&classes, |class| law.limit(class));
            law.admission().readings(&mut |reading| match reading.name {
                // The fast loop's own, checked with it.
                "gate_ratio" | "trim_ratio" => {}
                _ => check_reading(reading),
            });
        }
    }

    #[test]
    fn an_elastic_pool_of_any_range_stays_in_it(
        least in any::<u32>(),
        most in any::<u32>(),
        trust in 1.0..1e6_f64,
        steps in prop::collection::vec((any::<u32>(), any::<u8>(), 0..10_000_000_000_u64), 1..200),
    ) {
        let range = Concurrency::new(least)..=Concurrency::new(most);
        let (least, most) = (range.start().get(), range.end().get().max(range.start().get()));
        let mut law = ElasticPool::new(range, trust, Duration::from_millis(200));
        let (mut now, mut workers) = (Timestamp::ZERO, least);
        for (wanted, class, nanos) in steps {
            now = now + Duration::from_nanos(nanos);
            law.on_finish(now, &finished(class % 2, nanos, Ending::Completed));
            let there = Concurrency::new(workers);
            let grown = law.on_shortage(now, Concurrency::new(wanted), there).get();
            prop_assert!((workers..=most).contains(&grown), "{grown} of {least} to {most}");
            prop_assert!(law.reach(there).get() >= workers);
            let backlog = Backlog {
                queued: &[wanted],
                running: &[1],
                queued_total: wanted,
                running_total: 1,
                workers: Concurrency::new(grown),
            };
            let activity =
                Activity { backlog, offered: 0, lost: 0, completed: 0, workers_idle: wanted % 7 };
            workers = law.on_tick(now, &activity, Leeway::Either).get();
            prop_assert!((least..=most).contains(&workers), "{workers} of {least} to {most}");
            law.readings(&mut |reading| assert!(reading.value >= 0.0, "{reading:?}"));
        }
    }

    #[test]
    fn a_pool_of_any_range_stays_in_it(
        least in any::<u32>(),
        most in any::<u32>(),
        queued in any::<u32>(),
        completed in prop::collection::vec(any::<u64>(), 1..50),
    ) {
        let range = Concurrency::new(least)..=Concurrency::new(most);
        let (least, most) = (range.start().get(), range.end().get().max(range.start().get()));
        let mut law = PoolSizing::new(range, 1);
        for (second, completed) in completed.into_iter().enumerate() {
            let now = Timestamp::ZERO + Duration::from_secs(second as u64);
            let backlog = Backlog {
                queued: &[queued],
                running: &[1],
                queued_total: queued,
                running_total: 1,
                workers: Concurrency::ONE,
            };
            let activity =
                Activity { backlog, offered: 0, lost: 0, completed, workers_idle: queued };
            let size = law.on_tick(now, &activity, Leeway::Either).get();
            prop_assert!((least..=most).contains(&size));
        }
    }
}
