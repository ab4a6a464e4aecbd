//! Targets that change while a law runs, told of single events.

use std::time::Duration;

use tamarisk_catalogue::papers::*;
use tamarisk_catalogue::rivals::*;
use tamarisk_control::*;
use tamarisk_laws::*;

fn promised(millis: u64) -> Classes {
    Classes::single(Target::p90(Duration::from_millis(millis)).unwrap())
}

/// The admission rate after two hundred answers of 300 ms.
fn rate_after_slow_answers(law: &mut dyn AdmissionLaw) -> f64 {
    let backlog = Backlog {
        queued: &[0],
        running: &[1],
        queued_total: 0,
        running_total: 1,
        workers: Concurrency::ONE,
    };
    let answered = Finished {
        kind: 0,
        class: ClassId::DEFAULT,
        service: Duration::from_millis(20),
        response: Duration::from_millis(300),
        ending: Ending::Completed,
        together: Together::ALONE,
    };
    for _ in 0..200 {
        law.on_finish(Timestamp::ZERO, &answered, &backlog);
    }
    let mut rate = f64::NAN;
    law.readings(&mut |reading| {
        if reading.name == "rate_per_second" {
            rate = reading.value;
        }
    });
    rate
}

#[test]
fn the_papers_controllers_lower_their_rate_by_the_new_target() {
    for (name, decrease) in
        [("response-time", 1.2), ("response-time-halving", 2.0), ("multiclass", 1.2)]
    {
        let mut law = tamarisk_catalogue::admission(name).unwrap().law(&promised(1000));
        // err = −0.7; −(−0.7 + 0.1) · 2.0 = 1.2, twice.
        assert!((rate_after_slow_answers(&mut *law) - 102.4).abs() < 1e-9, "{name}");
        law.set_targets(&promised(150));
        // adj_d, twice.
        let lowered = 102.4 / decrease / decrease;
        assert!((rate_after_slow_answers(&mut *law) - lowered).abs() < 1e-6, "{name}");
    }
}

#[test]
fn pi_shedding_drops_what_has_waited_out_the_new_target() {
    let mut law = PiShedding::new(&promised(1000));
    let waiting = Waiting {
        class: ClassId::DEFAULT,
        entered: Timestamp::ZERO,
        deadline: None,
        flow: 0,
        kind: 0,
    };
    let backlog = Backlog {
        queued: &[9],
        running: &[1],
        queued_total: 9,
        running_total: 1,
        workers: Concurrency::ONE,
    };
    let now = Timestamp::from_nanos(300_000_000);
    assert_eq!(law.on_sweep(now, &waiting, &backlog), Dequeue::Run);
    law.set_targets(&promised(150));
    assert_eq!(law.on_sweep(now, &waiting, &backlog), Dequeue::Drop);
}

#[test]
fn degradation_and_termination_follow_the_target() {
    let mut limits = TerminationThreshold::new(&promised(1000));
    assert_eq!(limits.limit(ClassId::DEFAULT), Some(Duration::from_secs(10)));
    limits.set_targets(&promised(150));
    assert_eq!(limits.limit(ClassId::DEFAULT), Some(Duration::from_millis(1500)));

    let mut quality = Degradation::new(&promised(1000), Ratio::saturating(0.2));
    quality.set_targets(&promised(150));
    let answered = Finished {
        kind: 0,
        class: ClassId::DEFAULT,
        service: Duration::from_millis(20),
        response: Duration::from_millis(300),
        ending: Ending::Completed,
        together: Together::ALONE,
    };
    let backlog = Backlog {
        queued: &[0],
        running: &[0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };
    let activity = Activity { backlog, offered: 0, lost: 0, completed: 0, workers_idle: 0 };
    quality.on_tick(Timestamp::ZERO, &activity, Leeway::Either);
    (0..100).for_each(|_| quality.on_finish(Timestamp::ZERO, &answered));
    let later = Timestamp::from_nanos(1_000_000_000);
    let lowered = quality.on_tick(later, &activity, Leeway::Either).get();
    assert!((lowered - 1.0 / 1.2).abs() < 1e-9, "{lowered}");
}
