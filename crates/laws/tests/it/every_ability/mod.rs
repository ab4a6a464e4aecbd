//! A law that decides all that a law can decide.

use std::time::Duration;

use tamarisk_control::*;

/// A law whose answers depend on every call before.
#[derive(Default)]
pub(crate) struct EveryAbility {
    calls: u32,
}

impl EveryAbility {
    /// How often it was called.
    pub(crate) fn calls(&self) -> f64 {
        f64::from(self.calls)
    }

    fn call(&mut self) -> u32 {
        self.calls += 1;
        self.calls
    }

    /// Whether the answers to so many calls are positive; if so, they have been made.
    fn call_all(&mut self, count: u32, is_positive: impl Fn(u32) -> bool) -> bool {
        let all = (1..=count).all(|call| is_positive(self.calls + call));
        self.calls += if all { count } else { 0 };
        all
    }
}

const fn admits(call: u32) -> bool {
    !call.is_multiple_of(7)
}

const fn runs(call: u32) -> bool {
    !call.is_multiple_of(5)
}

fn dequeue(runs: bool) -> Dequeue {
    if runs { Dequeue::Run } else { Dequeue::Drop }
}

impl AdmissionLaw for EveryAbility {
    fn name(&self) -> &'static str {
        "every-ability"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        if admits(self.call()) {
            Decision::Admit
        } else {
            Decision::Reject(Rejection::new(Reason::Random))
        }
    }

    fn on_dequeue(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
        dequeue(runs(self.call()))
    }

    fn on_sweep(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
        dequeue(!runs(self.call()))
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished, _: &Backlog<'_>) {
        self.call();
    }

    fn on_move(&mut self, _: Timestamp, _: &Moved, _: &Backlog<'_>) {
        self.call();
    }

    fn on_tick(&mut self, _: Timestamp, _: &Backlog<'_>) {
        self.call();
    }

    fn on_cpu(&mut self, _: Timestamp, _: Ratio) {
        self.call();
    }

    fn set_targets(&mut self, _: &Classes) {
        self.call();
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "calls_count", class: None, value: self.calls() });
    }

    fn batch_decisions(&mut self) -> Option<&mut dyn BatchDecisions> {
        Some(self)
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl BatchDecisions for EveryAbility {
    fn admits_all(&mut self, _: Timestamp, _: &Arrival, count: u32, _: &Backlog<'_>) -> bool {
        self.call_all(count, admits)
    }

    fn runs_all(&mut self, _: Timestamp, _: &Waiting, count: u32, _: &Backlog<'_>) -> bool {
        self.call_all(count, runs)
    }

    fn on_finish_all(&mut self, _: Timestamp, _: &Finished, count: u32, _: &Backlog<'_>) {
        self.calls += count;
    }
}

impl PlaceLimits for EveryAbility {
    fn concurrency(&self) -> Option<Concurrency> {
        self.calls.is_multiple_of(3).then(|| Concurrency::new(self.calls + 1))
    }

    fn useful_workers(&self) -> Option<Concurrency> {
        (!self.calls.is_multiple_of(4)).then(|| Concurrency::new(self.calls / 2 + 1))
    }

    fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        Some(Duration::from_nanos(u64::from(self.calls) + kind + class.index() as u64))
    }

    fn may_start(&self, _: ClassId, kind: u64, _: &Backlog<'_>) -> bool {
        !(u64::from(self.calls) + kind).is_multiple_of(3)
    }
}

impl QueueOrder for EveryAbility {
    fn order(&self, _: Duration) -> Order {
        if self.calls.is_multiple_of(2) { Order::NewestFirst } else { Order::OldestFirst }
    }

    fn due(&self, waiting: &Waiting) -> Timestamp {
        waiting.entered + Duration::from_nanos(self.calls.into())
    }
}

/// What `law` answers when everything that can happen happens many times, told as a stage
/// tells it.
pub(crate) fn answers(law: &mut dyn AdmissionLaw) -> Vec<String> {
    let (now, class, kind) = (Timestamp::from_nanos(1_000_000), ClassId::DEFAULT, 7);
    let second = Duration::from_secs(1);
    let backlog = Backlog {
        queued: &[2],
        running: &[1],
        queued_total: 2,
        running_total: 1,
        workers: Concurrency::ONE,
    };
    let arrival = Arrival { class, deadline: None, flow: 0, kind };
    let waiting = Waiting { class, entered: Timestamp::ZERO, deadline: None, flow: 0, kind };
    let ending = Ending::Completed;
    let finished = Finished {
        class,
        service: second,
        response: second,
        ending,
        kind,
        together: Together::ALONE,
    };
    let target = Target::p90(second).expect("a second is a target");

    let mut answers = vec![law.name().to_owned()];
    for round in 0..1000_usize {
        let count = 2 + round as u32 % 2;
        let answer = match round % 11 {
            0 => format!("{:?}", law.on_arrival(now, &arrival, &backlog)),
            1 => format!("{:?}", law.on_dequeue(now, &waiting, &backlog)),
            2 => format!("{:?}", law.on_sweep(now, &waiting, &backlog)),
            3 => format!("{:?}", law.on_finish(now, &finished, &backlog)),
            4 => {
                let change = Change::ALL[round % Change::ALL.len()];
                law.on_move(now, &Moved { class, flow: 0, kind, change, time: second }, &backlog);
                String::new()
            }
            5 => format!("{:?}", law.on_tick(now, &backlog)),
            6 => format!("{:?}", law.on_cpu(now, Ratio::ONE)),
            7 => format!("{:?}", law.set_targets(&Classes::single(target))),
            8 if law.admits_all(now, &arrival, count, &backlog) => {
                format!("{:?}", vec![Decision::Admit; count as usize])
            }
            8 => {
                let each = (0..count).map(|_| law.on_arrival(now, &arrival, &backlog));
                format!("{:?}", each.collect::<Vec<_>>())
            }
            9 if law.runs_all(now, &waiting, count, &backlog) => {
                format!("{:?}", vec![Dequeue::Run; count as usize])
            }
            9 => {
                let each = (0..count).map(|_| law.on_dequeue(now, &waiting, &backlog));
                format!("{:?}", each.collect::<Vec<_>>())
            }
            _ => format!("{:?}", law.on_finish_all(now, &finished, count, &backlog)),
        };
        answers.push(format!(
            "{answer} {:?}",
            (
                law.places(Concurrency::new(9)),
                law.limit(),
                law.park_after(class, kind),
                law.may_start(class, kind, &backlog),
                law.order(second),
                law.due(&waiting),
            )
        ));
    }
    answers
}
