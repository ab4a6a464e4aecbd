//! Single decisions of the default law, with the arithmetic shown.

use std::time::Duration;

use tamarisk_control::*;
use tamarisk_laws::*;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn class(name: &str, target: Duration, priority: u8) -> Class {
    Class {
        name: name.into(),
        target: Target::p90(target).expect("targets are not zero"),
        priority: Priority(priority),
    }
}

/// A stage of four workers with a target of 1 s for both classes.
fn classes(priorities: [u8; 2]) -> Classes {
    let [a, b] = priorities;
    let list = vec![class("a", 1000 * MS, a), class("b", 1000 * MS, b)];
    Classes::new(list).expect("the names differ")
}

fn backlog<'a>(queued: &'a [u32; 2], running: &'a [u32; 2]) -> Backlog<'a> {
    Backlog {
        queued,
        running,
        queued_total: queued.iter().sum(),
        running_total: running.iter().sum(),
        workers: Concurrency::new(4),
    }
}

fn arrival(class: usize) -> Arrival {
    Arrival { class: ClassId::new(class), deadline: None, flow: 0, kind: 0 }
}

/// 200 completions of each class, all of 100 ms, on an idle stage.
fn taught(priorities: [u8; 2]) -> PredictGateTrim {
    let mut law = PredictGateTrim::new(&classes(priorities));
    for index in 0..400 {
        let finished = Finished {
            kind: 0,
            class: ClassId::new(index % 2),
            service: 100 * MS,
            response: 100 * MS,
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        law.on_finish(at(0), &finished, &backlog(&[0, 0], &[0, 0]));
    }
    law
}

fn reading(law: &PredictGateTrim, name: &str) -> f64 {
    let mut found = None;
    law.readings(&mut |reading| {
        if reading.name == name && reading.class == Some(ClassId::DEFAULT) {
            found = Some(reading.value);
        }
    });
    found.expect("the law shows it")
}

fn reason(decision: Decision) -> Option<Reason> {
    match decision {
        Decision::Admit => None,
        Decision::Reject(rejection) => Some(rejection.reason),
    }
}

#[test]
fn an_idle_worker_admits_whatever_the_estimates_say() {
    let classes = Classes::single(Target::p90(10 * MS).unwrap());
    let mut law = PredictGateTrim::new(&classes);
    let idle = Backlog {
        queued: &[0],
        running: &[3],
        queued_total: 0,
        running_total: 3,
        workers: Concurrency::new(4),
    };
    for _ in 0..200 {
        let finished = Finished {
            kind: 0,
            class: ClassId::DEFAULT,
            service: Duration::from_secs(60),
            response: Duration::from_secs(60),
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        law.on_finish(at(0), &finished, &idle);
    }
    assert_eq!(law.on_arrival(at(0), &arrival(0), &idle), Decision::Admit);
}

#[test]
fn the_last_event_that_fits_is_admitted_and_the_next_is_predicted_late() {
    // Estimates are 100 ms but for the prior's share; 34 queued and one worker's
    // share of the running are 35 · 100 ÷ 4 = 875 ms, and 100 ms of service fit
    // into 1 s. 36 are 925 ms, and do not.
    let decide =
        |queued| taught([0, 0]).on_arrival(at(0), &arrival(0), &backlog(&[queued, 0], &[4, 0]));
    assert_eq!(decide(34), Decision::Admit);
    assert_eq!(reason(decide(36)), Some(Reason::PredictedLate));
}

#[test]
fn a_rejection_says_when_the_backlog_will_have_cleared() {
    let decision = taught([0, 0]).on_arrival(at(0), &arrival(0), &backlog(&[79, 0], &[4, 0]));
    let Decision::Reject(rejection) = decision else { panic!("admitted") };
    // 80 · 100 ms ÷ 4
    let seconds = rejection.retry_after.unwrap().as_secs_f64();
    assert!((1.9..=2.0).contains(&seconds), "{seconds}");
}

#[test]
fn a_deadline_sooner_than_the_answer_is_predicted_late() {
    let decide = |millis| {
        let arrival =
            Arrival { class: ClassId::DEFAULT, deadline: Some(at(millis)), flow: 0, kind: 0 };
        taught([0, 0]).on_arrival(at(0), &arrival, &backlog(&[7, 0], &[4, 0]))
    };
    // 8 · 100 ÷ 4 + 100 = 300 ms
    assert_eq!(decide(310), Decision::Admit);
    assert_eq!(reason(decide(250)), Some(Reason::PredictedLate));
}

#[test]
fn a_deadline_in_the_past_is_rejected_even_by_an_idle_stage() {
    let arrival = Arrival { class: ClassId::DEFAULT, deadline: Some(at(999)), flow: 0, kind: 0 };
    let decision = taught([0, 0]).on_arrival(at(1000), &arrival, &backlog(&[0, 0], &[0, 0]));
    assert_eq!(reason(decision), Some(Reason::PredictedLate));
}

#[test]
fn a_standing_queue_narrows_the_gate_and_a_short_one_passes_it() {
    let mut law = taught([0, 0]);
    let standing = [12, 0]; // 12 · 100 ÷ 4 = 300 ms, above 0.2 of 1 s
    for tenth in 0..=20 {
        law.on_arrival(at(tenth * 100), &arrival(0), &backlog(&standing, &[4, 0]));
    }
    // Four intervals of half a target: θ = 1/16, but never below 0.1.
    assert_eq!(reading(&law, "gate_ratio"), 0.1);
    let mut decide =
        |queued| law.on_arrival(at(2010), &arrival(0), &backlog(&[queued, 0], &[4, 0]));
    assert_eq!(reason(decide(5)), Some(Reason::StandingQueue));
    assert_eq!(decide(3), Decision::Admit);
}

#[test]
fn an_idle_stage_forgets_a_standing_queue() {
    let mut law = taught([0, 0]);
    for tenth in 0..=20 {
        law.on_arrival(at(tenth * 100), &arrival(0), &backlog(&[12, 0], &[4, 0]));
    }
    law.on_tick(at(60_000), &backlog(&[0, 0], &[0, 0]));
    assert_eq!(reading(&law, "gate_ratio"), 1.0);
}

#[test]
fn a_high_priority_waits_for_nobody_below_it() {
    let low_queue = backlog(&[0, 500], &[4, 0]);
    assert_eq!(taught([0, 1]).on_arrival(at(0), &arrival(0), &low_queue), Decision::Admit);
    assert!(reason(taught([0, 0]).on_arrival(at(0), &arrival(0), &low_queue)).is_some());
}

#[test]
fn a_low_priority_waits_for_everybody() {
    let high_queue = backlog(&[500, 0], &[4, 0]);
    let decision = taught([0, 1]).on_arrival(at(0), &arrival(1), &high_queue);
    assert_eq!(reason(decision), Some(Reason::PredictedLate));
}

#[test]
fn a_high_load_leaves_a_low_priority_little_of_the_stage() {
    let mut law = taught([0, 1]);
    // 36 of 40 events a second are high: 0.9 of the four workers.
    for index in 0..360 {
        let high = arrival(0);
        law.on_arrival(at(index * 1000 / 36), &high, &backlog(&[0, 0], &[3, 0]));
    }
    // Behind four of its own it would wait 5 · 100 ÷ 4 = 125 ms, if it had all of
    // the stage; with a tenth of it more than its second.
    let decision = law.on_arrival(at(10_000), &arrival(1), &backlog(&[0, 4], &[4, 0]));
    assert_eq!(reason(decision), Some(Reason::PredictedLate));
}

#[test]
fn an_event_that_would_come_too_late_is_dropped_at_the_head_of_the_queue() {
    let mut law = taught([0, 0]);
    let mut verdict = |waited, deadline| {
        let waiting =
            Waiting { class: ClassId::DEFAULT, entered: at(0), deadline, flow: 0, kind: 0 };
        law.on_dequeue(at(waited), &waiting, &backlog(&[1, 0], &[3, 0]))
    };
    assert_eq!(verdict(890, None), Dequeue::Run, "890 + 100 ms of service fit into 1 s");
    assert_eq!(verdict(910, None), Dequeue::Drop);
    assert_eq!(verdict(300, Some(at(350))), Dequeue::Drop, "50 ms are left of the deadline");
    assert_eq!(verdict(10, Some(at(10))), Dequeue::Drop, "its deadline has come");
    assert_eq!(verdict(10, Some(at(50))), Dequeue::Run, "it hardly waited: not our doing");
}

#[test]
fn a_class_that_cannot_keep_its_target_is_served_by_the_reserve() {
    let classes = Classes::new(vec![class("page", 1000 * MS, 0), class("huge", 50 * MS, 0)]);
    let mut law = PredictGateTrim::new(&classes.unwrap());
    for _ in 0..200 {
        let finished = Finished {
            kind: 0,
            class: ClassId::new(1),
            service: 100 * MS,
            response: 100 * MS,
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        law.on_finish(at(0), &finished, &backlog(&[0, 0], &[0, 0]));
    }
    // All workers are busy: 25 ms until one is free, half of the target.
    let busy = backlog(&[0, 0], &[0, 4]);
    let admitted = (0..100)
        .filter(|tenth| law.on_arrival(at(tenth * 100), &arrival(1), &busy) == Decision::Admit);
    assert_eq!(admitted.count(), 5, "one at once, and one in 2 s for 9.9 s");
    let waiting =
        Waiting { class: ClassId::new(1), entered: at(0), deadline: None, flow: 0, kind: 0 };
    assert_eq!(law.on_dequeue(at(20), &waiting, &busy), Dequeue::Run);
}

#[test]
fn the_newest_go_first_only_while_the_gate_is_narrow_and_the_oldest_are_old() {
    let mut law = taught([0, 0]);
    assert_eq!(law.order(900 * MS), Order::OldestFirst);
    for tenth in 0..=5 {
        law.on_arrival(at(tenth * 100), &arrival(0), &backlog(&[12, 0], &[4, 0]));
    }
    assert_eq!(law.order(490 * MS), Order::OldestFirst);
    assert_eq!(law.order(510 * MS), Order::NewestFirst);
}

#[test]
fn with_one_slow_worker_a_newcomer_overtakes_a_queue_that_has_grown_old() {
    let mut law = PredictGateTrim::new(&classes([0, 0]));
    let one_worker = |queued: u32| Backlog {
        queued: if queued == 0 { &[0, 0] } else { &[20, 0] },
        running: &[1, 0],
        queued_total: queued,
        running_total: 1,
        workers: Concurrency::new(1),
    };
    for _ in 0..200 {
        let finished = Finished {
            kind: 0,
            class: ClassId::DEFAULT,
            service: 200 * MS,
            response: 200 * MS,
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        law.on_finish(at(0), &finished, &one_worker(0));
    }
    assert_eq!(law.on_arrival(at(0), &arrival(0), &one_worker(0)), Decision::Admit);
    assert_eq!(law.order(100 * MS), Order::OldestFirst);
    // 20 queued are 4 s, and a quarter of the room of 800 ms is 200 ms.
    assert!(matches!(law.on_arrival(at(190), &arrival(0), &one_worker(20)), Decision::Reject(_)));
    assert_eq!(law.on_arrival(at(210), &arrival(0), &one_worker(20)), Decision::Admit);
    assert_eq!(law.order(100 * MS), Order::NewestFirst);
    assert!(matches!(law.on_arrival(at(220), &arrival(0), &one_worker(20)), Decision::Reject(_)));
}

#[test]
fn late_answers_make_predictions_longer() {
    let mut law = taught([0, 0]);
    for _ in 0..100 {
        let finished = Finished {
            kind: 0,
            class: ClassId::DEFAULT,
            service: 100 * MS,
            response: 2000 * MS,
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        law.on_finish(at(100), &finished, &backlog(&[0, 0], &[4, 0]));
    }
    // e = 2 − 1: g = exp(0.3) = 1.35, so that 25 queued are 26 · 100 ÷ 4 · 1.35 =
    // 878 ms, and with 100 ms of service just fit; 28 were fine before.
    assert!((reading(&law, "trim_ratio") - 0.3_f64.exp()).abs() < 1e-9);
    let decision = law.on_arrival(at(100), &arrival(0), &backlog(&[28, 0], &[4, 0]));
    assert_eq!(reason(decision), Some(Reason::PredictedLate));
    let decision = taught([0, 0]).on_arrival(at(100), &arrival(0), &backlog(&[28, 0], &[4, 0]));
    assert_eq!(decision, Decision::Admit);
}

#[test]
fn an_unknown_class_counts_as_the_first() {
    let mut law = taught([0, 1]);
    let decision = law.on_arrival(at(0), &arrival(63), &backlog(&[0, 500], &[4, 0]));
    assert_eq!(decision, Decision::Admit);
}

#[test]
fn constants_that_do_not_go_together_are_rejected() {
    let classes = classes([0, 0]);
    let build = |builder: PredictGateTrimBuilder<'_>| builder.build().map(|_| ());
    assert_eq!(build(PredictGateTrim::builder(&classes)), Ok(()));
    let builder = PredictGateTrim::builder(&classes).shrinkage(0);
    assert_eq!(build(builder), Err(InvalidPredictGateTrim::Shrinkage));
    let prior = Duration::from_secs(90_000);
    let builder = PredictGateTrim::builder(&classes).prior_service(prior);
    assert_eq!(build(builder), Err(InvalidPredictGateTrim::PriorService(prior)));
    let builder = PredictGateTrim::builder(&classes).negligible_wait(Ratio::saturating(0.2));
    let error = build(builder).unwrap_err();
    assert_eq!(error.to_string(), "a negligible wait of 0.2 is not below a standing wait of 0.2");
}
