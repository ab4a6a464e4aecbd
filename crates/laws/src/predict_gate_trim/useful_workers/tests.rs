use tamarisk_control::{Classes, Ending, Target};

use super::*;

const WORKERS: u32 = 64;

/// A stage whose workers take `service(n)` seconds for an event while n of them work.
struct Stage {
    useful: UsefulWorkers,
    model: ServiceModel,
    now: f64,
    service: fn(u32) -> f64,
}

impl Stage {
    fn new(service: fn(u32) -> f64) -> Self {
        let classes = Classes::single(Target::p90(Duration::from_millis(500)).unwrap());
        Self {
            useful: UsefulWorkers::new(1, 0.5),
            model: ServiceModel::new(&classes, Duration::from_millis(20), 5.0),
            now: 0.0,
            service,
        }
    }

    fn places(&self) -> u32 {
        self.useful.limit().map_or(WORKERS, Concurrency::get)
    }

    /// `events` are done while others wait, or one after the other if none do.
    fn work(&mut self, events: u32, waiting: u32) {
        for _ in 0..events {
            let running = if waiting > 0 { self.places() } else { 1 };
            let service = (self.service)(running);
            self.now += service / f64::from(running);
            let now = Timestamp::from_nanos((self.now * 1e9) as u64);
            let took = Duration::from_secs_f64(service);
            self.model.record(now, ClassId::DEFAULT, took, Ending::Completed);
            let backlog = Backlog {
                queued: &[waiting],
                running: &[running - 1],
                queued_total: waiting,
                running_total: running - 1,
                workers: Concurrency::new(self.places()),
            };
            self.useful.on_completion(now, ClassId::DEFAULT, took, &backlog, &self.model);
        }
    }
}

/// Eight connections of 20 ms: who is too many waits for one.
fn crowded(running: u32) -> f64 {
    0.02 * f64::from(running.max(8)) / 8.0
}

#[test]
fn workers_that_crowd_something_are_sent_away_and_come_back_when_work_runs_short() {
    let mut stage = Stage::new(crowded);
    stage.work(500, 0);
    assert_eq!(stage.places(), WORKERS, "without an overload");
    stage.work(20_000, 100);
    assert!((8..=24).contains(&stage.places()), "{} of {WORKERS} work", stage.places());
    stage.work(1000, 0);
    assert_eq!(stage.places(), WORKERS);
}

#[test]
fn workers_that_crowd_nothing_all_work() {
    let mut stage = Stage::new(|_| 0.02);
    stage.work(500, 0);
    for _ in 0..20_000 {
        stage.work(1, 100);
        assert_eq!(stage.places(), WORKERS);
    }
}

#[test]
fn workers_whose_service_has_become_longer_are_tried_and_kept() {
    let mut stage = Stage::new(|_| 0.02);
    stage.work(500, 0);
    stage.service = |_| 0.3;
    let mut fewer = 0;
    for _ in 0..40_000 {
        stage.work(1, 100);
        fewer += u32::from(stage.places() < WORKERS);
    }
    assert!((1..2000).contains(&fewer), "{fewer} of 40 000 events were of a trial");
}

#[test]
fn a_bottleneck_that_has_widened_is_found_out() {
    let mut stage = Stage::new(crowded);
    stage.work(500, 0);
    stage.work(20_000, 100);
    let before = stage.places();
    stage.service = |running| 0.02 * f64::from(running.max(40)) / 40.0;
    stage.work(100_000, 100);
    assert!(stage.places() >= 40, "from {before} to {} of {WORKERS}", stage.places());
}
