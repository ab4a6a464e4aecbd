//! Any sequence of observations, sensible or absurd, against every law.
//!
//! A simple model keeps the accounts that a stage would keep; the clock may stand
//! still, jump a day or step back, service may take no time or an hour, classes
//! may be ones that the stage does not have. After each step: every reading is
//! finite and in its range, and what the laws promise holds.

use std::time::Duration;

use proptest::prelude::*;
use tamarisk_catalogue::papers::*;
use tamarisk_catalogue::rivals::*;
use tamarisk_control::*;
use tamarisk_laws::*;

type MakeLaw = fn(&Classes) -> Box<dyn AdmissionLaw>;

/// The laws from practice, with their published constants.
const PRACTICE: [MakeLaw; 11] = [
    |_| Box::new(Codel::new()),
    |_| Box::new(ServiceCodel::new()),
    |_| Box::new(AdaptiveLifo::new()),
    |_| Box::new(Red::new()),
    |_| Box::new(Vegas::new()),
    |_| Box::new(Gradient2::new()),
    |_| Box::new(MinRttGradient::new()),
    |classes| Box::new(PiShedding::new(classes)),
    |classes| Box::new(Dagor::new(classes)),
    |_| Box::new(CpuShedding::new()),
    |classes| Box::new(Bouncer::new(classes)),
];

/// What can happen to a stage.
#[derive(Clone, Debug)]
enum Operation {
    PassNanos(u64),
    StepBackNanos(u64),
    Arrive {
        class: u8,
        kind: u64,
        deadline_ms: Option<u32>,
        flow: u64,
    },
    /// The oldest or newest event of the queue is next to run.
    Dequeue {
        age_ns: u64,
        kind: u64,
        deadline_ms: Option<u32>,
    },
    /// The place of an event changes, which may be none that the law has been told of.
    Move {
        class: u8,
        kind: u64,
        change: Change,
        time_ns: u64,
    },
    Finish {
        class: u8,
        kind: u64,
        service_ns: u64,
        waited_ns: u64,
        ending: Ending,
    },
    Tick,
    Cpu(f64),
    SetWorkers(u32),
    /// In milliseconds, of each class; and the percentile of all.
    SetTargets([u64; 3], f64),
    /// Accounts as a confused stage might tell them.
    Pretend {
        queued: u32,
        running: u32,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let any_nanos = prop_oneof![
        3 => 0..100_000_000_u64,
        1 => Just(0),
        1 => 0..=86_400_000_000_000_u64,
        1 => Just(u64::MAX),
    ];
    let ending = prop_oneof![
        4 => Just(Ending::Completed),
        1 => Just(Ending::Failed),
        1 => Just(Ending::Terminated),
        1 => Just(Ending::Untimed),
        1 => Just(Ending::Abandoned),
    ];
    let deadline = prop::option::weighted(0.3, 0..5000_u32);
    let class = prop_oneof![8 => 0..3_u8, 1 => 0..64_u8];
    // Most laws have one kind of work; there may be more than a law remembers.
    let kind = prop_oneof![4 => Just(0), 4 => 1..4_u64, 1 => any::<u64>()];
    prop_oneof![
        4 => (0..50_000_000_u64).prop_map(Operation::PassNanos),
        1 => any_nanos.clone().prop_map(Operation::PassNanos),
        1 => any_nanos.clone().prop_map(Operation::StepBackNanos),
        8 => (class.clone(), kind.clone(), deadline.clone(), 0..100_u64).prop_map(
            |(class, kind, deadline_ms, flow)| {
                Operation::Arrive { class, kind, deadline_ms, flow }
            }
        ),
        4 => (any_nanos.clone(), kind.clone(), deadline).prop_map(
            |(age_ns, kind, deadline_ms)| Operation::Dequeue { age_ns, kind, deadline_ms }
        ),
        3 => (class.clone(), kind.clone(), prop::sample::select(&Change::ALL[..]), any_nanos.clone())
            .prop_map(|(class, kind, change, time_ns)| {
                Operation::Move { class, kind, change, time_ns }
            }),
        8 => (class, kind, any_nanos.clone(), any_nanos, ending).prop_map(
            |(class, kind, service_ns, waited_ns, ending)| {
                Operation::Finish { class, kind, service_ns, waited_ns, ending }
            }
        ),
        2 => Just(Operation::Tick),
        1 => (-1.0..2.0_f64).prop_map(Operation::Cpu),
        1 => (1..1000_u32).prop_map(Operation::SetWorkers),
        1 => ([5..=1000_u64, 5..=1000_u64, 5..=1000_u64], 0.1..0.999_f64)
            .prop_map(|(millis, percentile)| Operation::SetTargets(millis, percentile)),
        1 => (any::<u32>(), any::<u32>())
            .prop_map(|(queued, running)| Operation::Pretend { queued, running }),
    ]
}

/// The accounts of a stage with three classes.
#[derive(Default)]
struct Model {
    now_ns: u64,
    queued: [u32; 3],
    running: [u32; 3],
    workers: u32,
    /// Some event has had its first data before its end.
    has_streams: bool,
}

impl Model {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now_ns)
    }

    fn workers(&self) -> Concurrency {
        Concurrency::new(self.workers)
    }

    fn backlog(&self, workers: Concurrency) -> Backlog<'_> {
        let total = |counts: &[u32; 3]| counts.iter().fold(0_u32, |sum, &n| sum.saturating_add(n));
        Backlog {
            queued: &self.queued,
            running: &self.running,
            queued_total: total(&self.queued),
            running_total: total(&self.running),
            workers,
        }
    }

    /// The place of an event of this class changes.
    fn change(&mut self, class: usize, change: Change) {
        let (queued, running) = (&mut self.queued[class], &mut self.running[class]);
        match change {
            Change::Dropped | Change::Abandoned => *queued = queued.saturating_sub(1),
            Change::Parked | Change::Suspended | Change::StreamSuspended => {
                *running = running.saturating_sub(1);
            }
            Change::Resumed => *running = running.saturating_add(1),
            Change::StreamResumed => {
                *running = running.saturating_add(1);
                self.has_streams = true;
            }
            Change::FirstData => self.has_streams = true,
            Change::ParkedEnded | Change::Progressed => {}
        }
    }

    fn deadline(&self, after_ms: Option<u32>) -> Option<Timestamp> {
        after_ms.map(|ms| self.now() + Duration::from_millis(ms.into()))
    }
}

fn classes() -> Classes {
    let class = |name: &str, target_ms, priority| Class {
        name: name.into(),
        target: Target::p90(Duration::from_millis(target_ms)).expect("targets are not zero"),
        priority: Priority(priority),
    };
    let list = vec![class("gold", 200, 0), class("tin", 1000, 1), class("dust", 5, 1)];
    let classes = Classes::new(list).expect("the names differ");
    classes.weighted(ClassId::new(1), Weight::ONE)
}

fn known(class: u8) -> usize {
    if class < 3 { class.into() } else { 0 }
}

fn apply(law: &mut dyn AdmissionLaw, model: &mut Model, operation: &Operation) {
    match *operation {
        Operation::PassNanos(nanos) => model.now_ns = model.now_ns.saturating_add(nanos),
        Operation::StepBackNanos(nanos) => model.now_ns = model.now_ns.saturating_sub(nanos),
        Operation::SetWorkers(workers) => model.workers = workers,
        Operation::SetTargets(millis, percentile) => {
            let mut promised = classes();
            for (class, millis) in millis.into_iter().enumerate() {
                let time = Duration::from_millis(millis);
                let target = Target::percentile(Ratio::saturating(percentile), time);
                promised.set_target(ClassId::new(class), target.expect("it is a target"));
            }
            law.set_targets(&promised);
        }
        Operation::Pretend { queued, running } => {
            model.queued[1] = queued;
            model.running[0] = running;
        }
        Operation::Cpu(busy) => law.on_cpu(model.now(), Ratio::saturating(busy)),
        Operation::Tick => law.on_tick(model.now(), &model.backlog(law.places(model.workers()))),
        Operation::Arrive { class, kind, deadline_ms, flow } => {
            let arrival = Arrival {
                kind,
                class: ClassId::new(class.into()),
                deadline: model.deadline(deadline_ms),
                flow,
            };
            let backlog = model.backlog(law.places(model.workers()));
            let idle = backlog.has_idle_worker();
            let limits = law.place_limits();
            let may_start =
                limits.is_none_or(|limits| limits.may_start(arrival.class, kind, &backlog));
            let decision = law.on_arrival(model.now(), &arrival, &backlog);
            let late = arrival.deadline.is_some_and(|deadline| deadline <= model.now());
            // Streams may be kept to fewer places, and wait for one though a worker is idle.
            let starts = !model.has_streams || may_start;
            if idle && starts && !late && !REJECT_AT_IDLE.contains(&law.name()) {
                assert_eq!(decision, Decision::Admit, "an idle stage rejected");
            }
            if decision == Decision::Admit {
                let counts = if idle { &mut model.running } else { &mut model.queued };
                counts[known(class)] = counts[known(class)].saturating_add(1);
            }
        }
        Operation::Dequeue { age_ns, kind, deadline_ms } => {
            let Some(class) = (0..3).find(|&class| model.queued[class] > 0) else { return };
            let entered = Timestamp::from_nanos(model.now_ns.saturating_sub(age_ns));
            let deadline = deadline_ms.map(|ms| entered + Duration::from_millis(ms.into()));
            let waiting = Waiting { class: ClassId::new(class), entered, deadline, flow: 0, kind };
            law.order(Duration::from_nanos(age_ns));
            let backlog = model.backlog(law.places(model.workers()));
            law.on_sweep(model.now(), &waiting, &backlog);
            let verdict = law.on_dequeue(model.now(), &waiting, &backlog);
            if age_ns == 0 && deadline.is_none() {
                assert_eq!(verdict, Dequeue::Run, "what has not waited was dropped");
            }
            model.queued[class] -= 1;
            if verdict == Dequeue::Run {
                model.running[class] = model.running[class].saturating_add(1);
            }
        }
        Operation::Move { class, kind, change, time_ns } => {
            model.change(known(class), change);
            let class = ClassId::new(class.into());
            let moved = Moved { class, flow: 0, kind, change, time: Duration::from_nanos(time_ns) };
            law.on_move(model.now(), &moved, &model.backlog(law.places(model.workers())));
        }
        Operation::Finish { class, kind, service_ns, waited_ns, ending } => {
            let index = known(class);
            model.running[index] = model.running[index].saturating_sub(1);
            let finished = Finished {
                kind,
                class: ClassId::new(class.into()),
                service: Duration::from_nanos(service_ns),
                response: Duration::from_nanos(service_ns.saturating_add(waited_ns)),
                ending,
                together: Together::ALONE,
            };
            law.on_finish(model.now(), &finished, &model.backlog(law.places(model.workers())));
        }
    }
}

/// Laws that do not look whether a worker is idle: their rejections follow a rate, a
/// level, a CPU, or a prediction.
const REJECT_AT_IDLE: [&str; 7] = [
    "rate-limit",
    "response-time",
    "multiclass",
    "pi-shedding",
    "dagor",
    "cpu-shedding",
    "bouncer",
];

fn check_invariants(law: &dyn AdmissionLaw) {
    law.readings(&mut |Reading { name, class, value }| {
        let range = match name {
            "gate_ratio" => 0.1..=1.0,
            "class_share_ratio" => 0.0..=1.0,
            "client_share_ratio" => 1.0 / 512.0..=1.0,
            "trim_ratio" => 0.5..=4.0,
            "limit_count" => 1.0..=32_768.0,
            "saturated_ratio" => 0.0..=1.0,
            "rate_per_second" => 0.05..=5000.0,
            "tokens_count" => 0.0..=3.0,
            "admission_rate_per_second" => 0.05..=1e6,
            "mean_per_percentile_ratio" => 0.01..=1.0,
            "model_a_ratio" => 0.5..=1.05,
            "model_b_ratio" => 0.25..=2.0,
            "drop_threshold_seconds" => 2e-4..=0.8,
            _ if name.ends_with("_ratio") => 0.0..=1.0,
            _ => 0.0..=f64::MAX,
        };
        assert!(range.contains(&value), "{name} of {class:?} is {value}");
    });
    if let Some(limit) = law.concurrency() {
        assert!(limit.get() <= 32_768);
    }
}

fn check(make: fn(&Classes) -> Box<dyn AdmissionLaw>, operations: &[Operation]) {
    let mut law = make(&classes());
    let mut model = Model { workers: 4, ..Model::default() };
    for operation in operations {
        apply(&mut *law, &mut model, operation);
        check_invariants(&*law);
    }
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn predict_gate_trim_stays_in_its_ranges(operations in operations()) {
        check(|classes| Box::new(PredictGateTrim::new(classes)), &operations);
    }

    #[test]
    fn work_limit_stays_in_its_ranges(operations in operations()) {
        check(|classes| Box::new(WorkLimit::new(classes)), &operations);
    }

    #[test]
    fn response_time_stays_in_its_ranges(operations in operations()) {
        check(|classes| Box::new(ResponseTime::new(classes)), &operations);
    }

    #[test]
    fn multiclass_stays_in_its_ranges(operations in operations()) {
        check(|classes| Box::new(Multiclass::new(classes)), &operations);
    }

    #[test]
    fn rate_limit_stays_in_its_ranges(operations in operations()) {
        let make: fn(&Classes) -> Box<dyn AdmissionLaw> = |_| {
            let allowance = Allowance { rate: PerSecond::new(100.0).unwrap(), burst: 3 };
            Box::new(RateLimit::total(allowance).unwrap())
        };
        check(make, &operations);
    }

    #[test]
    fn the_simplest_laws_answer_anything(operations in operations()) {
        check(|_| Box::new(Threshold::new(10)), &operations);
        check(|classes| Box::new(PlainQueue::new(classes)), &operations);
        check(|_| Box::new(Open), &operations);
    }

    #[test]
    fn laws_from_practice_stay_in_their_ranges(operations in operations()) {
        for make in PRACTICE {
            check(make, &operations);
        }
    }

    #[test]
    fn a_token_bucket_passes_no_more_than_its_rate_allows(
        rate in 0.0..1e6_f64,
        depth in 1.0..100.0_f64,
        steps in prop::collection::vec(0..10_000_000_u64, 1..500),
    ) {
        let mut bucket = TokenBucket::new(PerSecond::new(rate).unwrap(), depth);
        let mut now = 0;
        let mut passed = 0.0;
        for step in steps {
            now += step;
            match bucket.take(Timestamp::from_nanos(now)) {
                Ok(()) => passed += 1.0,
                Err(wait) => prop_assert!(wait <= Duration::from_secs(3600)),
            }
            let allowed = depth + rate * (now as f64 / 1e9);
            prop_assert!(passed <= allowed + 1e-6, "{passed} of {allowed}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_laws_of_control_theory_stay_in_their_ranges(operations in operations()) {
        check(|classes| Box::new(fair::SelfTuning::new(classes, fair::Form::P)), &operations);
        check(|classes| Box::new(fair::SelfTuning::new(classes, fair::Form::Pi)), &operations);
        check(|classes| Box::new(fair::SelfTuning::new(classes, fair::Form::Pd)), &operations);
        check(
            |classes| Box::new(fair::SelfTuning::new(classes, fair::Form::PPrecompensated)),
            &operations,
        );
    }

    #[test]
    fn the_dropper_stays_in_its_ranges(operations in operations()) {
        check(|classes| Box::new(fair::SelectiveDropper::new(classes)), &operations);
    }
}
