use tamarisk_control::{Classes, Concurrency, Ending, Target};

use super::*;

const WORKERS: u32 = 8;

/// A stage that is always full, whose events took 20 ms so far.
struct Stage {
    stall: Stall,
    model: ServiceModel,
    nanos: u64,
}

impl Stage {
    fn new() -> Self {
        let mut stage = Self::unknown();
        (0..SAMPLES_KEPT).for_each(|_| stage.learn(20));
        stage
    }

    fn unknown() -> Self {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        let model = ServiceModel::new(&classes, Duration::from_millis(20), 5.0);
        Self { stall: Stall::new(1), model, nanos: 0 }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos)
    }

    fn learn(&mut self, service_ms: u64) {
        let (now, service) = (self.now(), Duration::from_millis(service_ms));
        self.model.record(now, ClassId::DEFAULT, service, Ending::Completed);
    }

    fn finish(&mut self, backlog: &Backlog<'_>) {
        self.stall.on_finish(self.now(), ClassId::DEFAULT, backlog, &self.model);
    }

    /// `bursts` times `size` events end together, every `apart_ms`; the next ones wait.
    fn end(&mut self, bursts: u32, size: u32, apart_ms: u64) -> f64 {
        for _ in 0..bursts {
            self.nanos += apart_ms * 1_000_000;
            self.tick();
            (0..size).for_each(|_| self.finish(&full()));
        }
        self.stall.speed()
    }

    fn tick(&mut self) {
        self.stall.on_tick(self.now(), &full(), &self.model);
    }

    fn idle(&mut self, busy: u32) {
        self.finish(&backlog(&[0], &[busy]));
    }
}

fn backlog<'a>(queued: &'a [u32; 1], running: &'a [u32; 1]) -> Backlog<'a> {
    Backlog {
        queued,
        running,
        queued_total: queued[0],
        running_total: running[0],
        workers: Concurrency::new(WORKERS),
    }
}

fn full() -> Backlog<'static> {
    backlog(&[9], &[WORKERS])
}

fn close(speed: f64, expected: f64) -> bool {
    (speed - expected).abs() < 0.01
}

#[test]
fn it_is_noticed_while_all_that_is_known_is_quick() {
    let mut stage = Stage::new();
    // Eight workers, 20 ms each: one every 2.5 ms. Now one every 12.5 ms.
    let speed = stage.end(10, 1, 12);
    assert!(close(speed, 2.5 / 12.0), "{speed}");
    let service = stage.stall.service_min(0.020);
    assert!(close(service, 1.3 * 0.020 * 12.0 / 2.5), "{service}");
}

#[test]
fn half_of_what_is_expected_is_no_stall() {
    assert_eq!(Stage::new().end(200, 1, 5), 1.0);
}

#[test]
fn batches_that_end_together_are_none() {
    assert_eq!(Stage::new().end(50, WORKERS, 20), 1.0);
}

#[test]
fn that_nothing_comes_out_is_noticed_at_a_tick() {
    let mut stage = Stage::new();
    stage.end(1, 1, 1);
    stage.nanos += 1_000_000_000;
    stage.tick();
    // One event of 20 ms, of eight seconds of work.
    assert!(close(stage.stall.speed(), SPEED_MIN), "{}", stage.stall.speed());
}

#[test]
fn while_a_worker_is_idle_nothing_is_known() {
    let mut stage = Stage::new();
    for _ in 0..100 {
        stage.end(2, 1, 12);
        stage.idle(WORKERS - 1);
    }
    assert_eq!(stage.stall.speed(), 1.0);
}

#[test]
fn it_is_over_when_measured_times_have_caught_up() {
    let mut stage = Stage::new();
    stage.end(10, 1, 12);
    let mut events = 0;
    while stage.stall.speed() < 1.0 {
        stage.learn(96);
        stage.end(1, 1, 12);
        events += 1;
    }
    // 0.8 of 96 ms is the mean of 200 of which three quarters take 96 ms, the rest 20.
    assert!((140..=160).contains(&events), "after {events} events");
}

#[test]
fn it_is_over_when_as_much_comes_out_as_should() {
    let mut stage = Stage::new();
    stage.end(10, 1, 12);
    assert!(stage.end(10, 1, 12) < 1.0);
    assert_eq!(stage.end(20, WORKERS, 10), 1.0);
}

#[test]
fn it_is_over_when_half_of_the_workers_idle() {
    let mut stage = Stage::new();
    stage.end(10, 1, 12);
    stage.idle(WORKERS / 2);
    assert!(stage.stall.speed() < 1.0);
    stage.idle(WORKERS / 2 - 1);
    assert_eq!(stage.stall.speed(), 1.0);
}

#[test]
fn that_of_a_single_worker_is_over_when_it_idles() {
    let single =
        |queued, running| Backlog { workers: Concurrency::new(1), ..backlog(queued, running) };
    let mut stage = Stage::new();
    stage.finish(&single(&[9], &[1]));
    stage.nanos += 2_000_000_000;
    stage.stall.on_tick(stage.now(), &single(&[9], &[1]), &stage.model);
    assert!(stage.stall.speed() < 1.0);
    stage.finish(&single(&[0], &[1]));
    assert!(stage.stall.speed() < 1.0);
    stage.finish(&single(&[0], &[0]));
    assert_eq!(stage.stall.speed(), 1.0);
}

#[test]
fn unconfirmed_it_is_over_after_as_many_events_as_are_remembered() {
    let mut stage = Stage::new();
    stage.end(10, 1, 12);
    for _ in 1..SAMPLES_KEPT {
        stage.idle(WORKERS - 1);
    }
    assert!(stage.stall.speed() < 1.0);
    stage.idle(WORKERS - 1);
    assert_eq!(stage.stall.speed(), 1.0);
}

#[test]
fn of_a_class_that_is_not_known_it_says_nothing() {
    assert_eq!(Stage::unknown().end(100, 1, 100), 1.0);
}

#[test]
fn time_standing_still_is_no_stall() {
    assert_eq!(Stage::new().end(1000, 1, 0), 1.0);
}

#[test]
fn a_law_that_was_told_nothing_for_seconds_knows_of_none() {
    for ticks_first in [true, false] {
        let mut stage = Stage::new();
        stage.end(1, 1, 0);
        stage.nanos += 2_000_000_001;
        if ticks_first {
            stage.tick();
        }
        stage.finish(&full());
        assert_eq!(stage.stall.speed(), 1.0);
    }
}
