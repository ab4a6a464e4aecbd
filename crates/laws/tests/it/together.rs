//! The default law judges many events at the cost of one as it would judge each.
//!
//! Two copies of it rule the same stage: one is told of each event, the other of
//! as many together as it says it can judge. They never disagree.

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tamarisk_control::*;
use tamarisk_laws::*;

#[test]
fn many_at_once_are_judged_like_each() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        Twins::new(seed).run(4000, &mut seen);
    }
    let Seen { admitted, asked_of_each, run, looked_at_each } = seen;
    for (count, what) in [
        (admitted, "admitted together"),
        (asked_of_each, "not admitted together"),
        (run, "run together"),
        (looked_at_each, "not run together"),
    ] {
        assert!(count > 200, "{count} were {what}");
    }
}

#[derive(Default)]
struct Seen {
    admitted: u32,
    asked_of_each: u32,
    run: u32,
    looked_at_each: u32,
}

struct Twins {
    random: StdRng,
    now: Timestamp,
    each: PredictGateTrim,
    together: PredictGateTrim,
    queue: VecDeque<Waiting>,
    queued: [u32; 2],
    running: [u32; 2],
    workers: u32,
}

impl Twins {
    /// Every other seed has both classes on one level, every third gives them weights.
    fn new(seed: u64) -> Self {
        let class = |name: &str, millis, priority| Class {
            name: name.into(),
            target: Target::p90(Duration::from_millis(millis)).unwrap(),
            priority: Priority(priority),
        };
        let classes =
            Classes::new(vec![class("a", 200, 0), class("b", 500, (seed % 2) as u8)]).unwrap();
        let classes = match seed % 3 {
            0 => classes.weighted(ClassId::new(0), Weight::new(3).unwrap()),
            _ => classes,
        };
        let law = PredictGateTrim::new(&classes);
        Self {
            random: StdRng::seed_from_u64(seed),
            now: Timestamp::ZERO,
            together: law.clone(),
            each: law,
            queue: VecDeque::new(),
            queued: [0; 2],
            running: [0; 2],
            workers: 4,
        }
    }

    fn run(mut self, steps: usize, seen: &mut Seen) {
        for _ in 0..steps {
            match self.random.random_range(0..10) {
                0..3 => {
                    // Now and then so long that what waits is too old.
                    let most = if self.random.random_bool(0.1) { 400_000 } else { 9000 };
                    self.now = self.now + Duration::from_micros(self.random.random_range(0..most));
                }
                3..5 => self.arrive(seen),
                5..7 => self.dequeue(seen),
                7..9 => self.finish(),
                _ => {
                    let backlog = backlog(&self.queued, &self.running, self.workers);
                    self.each.on_tick(self.now, &backlog);
                    self.together.on_tick(self.now, &backlog);
                }
            }
        }
    }

    fn arrive(&mut self, seen: &mut Seen) {
        let class = self.random.random_range(0..2);
        let deadline = match self.random.random_range(0..4) {
            0 => Some(self.now + Duration::from_millis(self.random.random_range(0..600))),
            _ => None,
        };
        let flow = u64::from(self.random.random_range(0..5_u32) == 0);
        let arrival = Arrival { class: ClassId::new(class), deadline, flow, kind: 0 };
        let count = self.random.random_range(1..12);
        let all = {
            let backlog = backlog(&self.queued, &self.running, self.workers);
            self.together.admits_all(self.now, &arrival, count, &backlog)
        };
        *if all { &mut seen.admitted } else { &mut seen.asked_of_each } += 1;
        for event in 0..count {
            let backlog = backlog(&self.queued, &self.running, self.workers);
            let decision = self.each.on_arrival(self.now, &arrival, &backlog);
            if all {
                assert_eq!(decision, Decision::Admit, "event {event} of {count}: {arrival:?}");
            } else {
                let other = self.together.on_arrival(self.now, &arrival, &backlog);
                assert_eq!(decision, other, "event {event} of {count}: {arrival:?}");
            }
            if decision == Decision::Admit {
                self.queued[class] += 1;
                let waiting =
                    Waiting { class: arrival.class, entered: self.now, deadline, flow: 0, kind: 0 };
                self.queue.push_back(waiting);
            }
        }
    }

    /// Up to so many of the class that is at the head, as a batch takes them.
    fn dequeue(&mut self, seen: &mut Seen) {
        let Some(&(mut first)) = self.queue.front() else { return };
        let most = self.random.random_range(1..12);
        let alike = self.queue.iter().take(most).take_while(|waiting| waiting.class == first.class);
        let alike: Vec<_> = alike.copied().collect();
        for waiting in &alike {
            first.entered = first.entered.min(waiting.entered);
            let deadlines = [first.deadline, waiting.deadline];
            first.deadline = deadlines.into_iter().flatten().min();
        }
        let all = {
            let backlog = backlog(&self.queued, &self.running, self.workers);
            self.together.runs_all(self.now, &first, alike.len() as u32, &backlog)
        };
        *if all { &mut seen.run } else { &mut seen.looked_at_each } += 1;
        for waiting in alike {
            self.queue.pop_front();
            let class = waiting.class.index();
            let backlog = backlog(&self.queued, &self.running, self.workers);
            let decision = self.each.on_dequeue(self.now, &waiting, &backlog);
            if all {
                assert_eq!(decision, Dequeue::Run, "{waiting:?} behind {first:?}");
            } else {
                let other = self.together.on_dequeue(self.now, &waiting, &backlog);
                assert_eq!(decision, other, "{waiting:?}");
            }
            self.queued[class] -= 1;
            self.running[class] += u32::from(decision == Dequeue::Run);
        }
    }

    fn finish(&mut self) {
        let class = self.random.random_range(0..2);
        let count = self.running[class].min(self.random.random_range(1..12));
        if count == 0 {
            return;
        }
        self.running[class] -= count;
        let service = Duration::from_micros(self.random.random_range(100..30_000));
        let response = service + Duration::from_micros(self.random.random_range(0..300_000));
        let finished = Finished {
            class: ClassId::new(class),
            service,
            response,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        let backlog = backlog(&self.queued, &self.running, self.workers);
        (0..count).for_each(|_| self.each.on_finish(self.now, &finished, &backlog));
        self.together.on_finish_all(self.now, &finished, count, &backlog);
    }
}

fn backlog<'a>(queued: &'a [u32; 2], running: &'a [u32; 2], workers: u32) -> Backlog<'a> {
    Backlog {
        queued,
        running,
        queued_total: queued.iter().sum(),
        running_total: running.iter().sum(),
        workers: Concurrency::new(workers),
    }
}
