//! Inline stages: a function with accounts.

use std::time::Duration;

use tamarisk_catalogue::ByName;
use tamarisk_control::{ClassId, Classes, Concurrency, Ratio, Reason, Rejection, Target};
use tamarisk_laws::{FixedWorkers, Laws};
use tamarisk_stage::{BuildError, Clock, InlineError, Phase, StageBuilder};
use tokio::time::advance;

use crate::rig::{self, Law};

#[test]
fn a_call_returns_what_the_function_returns() {
    let double = StageBuilder::new("double").inline(|number: u32| number * 2).unwrap();
    assert_eq!(double.call(21), Ok(42));
    let observation = double.observe();
    assert_eq!((observation.runs, observation.total().completed), ("inline", 1));
}

#[test]
fn its_promise_can_be_changed_and_its_law_is_told() {
    let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
    let law = Law::default();
    let stage = StageBuilder::new("double").classes(classes).law(law.clone());
    let stage = stage.inline(|number: u32| number * 2).unwrap();
    let target = Target::p90(Duration::from_millis(70)).unwrap();
    stage.set_targets(&[(ClassId::DEFAULT, target)]);
    assert_eq!(stage.observe().classes[0].target, Duration::from_millis(70));
    assert_eq!(law.script().promised.take(), Some(stage.classes()));
}

#[test]
fn a_panic_is_an_error_and_the_stage_goes_on() {
    let picky = StageBuilder::new("picky").inline(|number: u32| {
        assert_ne!(number, 13, "unlucky");
        number
    });
    let picky = picky.unwrap();
    assert_eq!(picky.call(13), Err(InlineError::Panicked));
    assert_eq!(picky.call(14), Ok(14));
    let accounts = picky.observe().total();
    assert_eq!((accounts.failed, accounts.completed, accounts.inside()), (1, 1, 0));
    assert!(accounts.balance());
}

/// Panics when it is destroyed.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "stepped on a mine");
    }
}

#[test]
fn what_a_panic_carries_may_panic_in_its_turn() {
    let throws = |_: u32| -> u32 { std::panic::resume_unwind(Box::new(Mine)) };
    let stage = StageBuilder::new("mines").inline(throws).unwrap();
    assert_eq!(stage.call(1), Err(InlineError::Panicked));
    assert_eq!(stage.observe().total().failed, 1);
}

#[test]
fn laws_that_have_nothing_to_set_are_told() {
    let error = |builder: StageBuilder| builder.inline(|number: u32| number).err();
    let expected = |rules| Some(BuildError::InlineLaws { stage: "parse".to_owned(), rules });
    let parse = || StageBuilder::new("parse");
    let fixed = FixedWorkers(Concurrency::new(4));
    assert_eq!(error(parse().workers_law(fixed)), expected("workers"));
    assert_eq!(error(parse().degrade_to(Ratio::saturating(0.5))), expected("quality"));
    let named = Laws::new().termination("termination-threshold", &[]).unwrap();
    assert_eq!(error(parse().laws(named)), expected("termination"));
    let shown = error(parse().workers_law(fixed)).unwrap().to_string();
    assert!(shown.contains("a workers law") && shown.contains("remove the law"), "{shown}");
}

#[test]
fn a_law_is_asked_where_one_was_set() {
    let law = Law::default();
    let stage = StageBuilder::new("strict").law(law.clone()).inline(|number: u32| number).unwrap();
    assert_eq!(stage.call(1), Ok(1));
    let no = Rejection::new(Reason::RateExceeded);
    law.script().rejects = Some(no);
    assert_eq!(stage.call(1), Err(InlineError::Rejected(no)));
    assert_eq!(stage.observe().law, "scripted");
    assert_eq!(stage.observe().total().rejected, 1);
}

#[test]
fn a_closed_stage_rejects() {
    let stage = StageBuilder::new("closed").inline(|number: u32| number).unwrap();
    stage.clone().close();
    assert_eq!(stage.call(1), Err(InlineError::Rejected(Rejection::new(Reason::Closed))));
    assert_eq!(stage.observe().phase, Phase::Closed);
}

#[test]
fn an_event_seen_from_inside_is_running() {
    let counted = StageBuilder::new("seen").inline(|inner: &dyn Fn() -> u64| inner()).unwrap();
    let seen = counted.call(&|| counted.observe().total().running);
    assert_eq!(seen, Ok(1));
    let nested = counted.call(&|| counted.call(&|| counted.observe().total().running).unwrap());
    assert_eq!(nested, Ok(2));
}

#[test]
fn threads_that_come_and_go_leave_their_counts() {
    let stage =
        StageBuilder::new("threads").classes(rig::classes(&[0, 0])).inline(|n: u64| n).unwrap();
    for round in 0..4 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let stage = &stage;
                scope.spawn(move || {
                    for number in 0..500 {
                        stage.call_as(ClassId::new(thread % 2), number).unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..200 {
                    let observation = stage.observe();
                    assert!(observation.classes.iter().all(|class| class.accounts.balance()));
                }
            });
        });
        let observation = stage.observe();
        for class in &observation.classes {
            assert_eq!((class.accounts.completed, class.accounts.running), ((round + 1) * 1000, 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn times_of_more_than_ten_seconds_ago_are_not_shown() {
    let timed = || {
        let builder = StageBuilder::new("timed").clock(Clock::runtime());
        let stage = builder.inline(|number: u32| number).unwrap();
        // The first call is timed.
        stage.call(1).unwrap();
        stage
    };
    let seconds = Duration::from_secs;
    for (pauses, shown) in [(&[6][..], true), (&[6, 6], false), (&[60], false)] {
        let stage = timed();
        for &pause in pauses {
            advance(seconds(pause)).await;
            stage.observe();
        }
        let seen = &stage.observe().classes[0];
        assert_eq!(seen.service.is_some(), shown, "after {pauses:?}");
        assert_eq!(seen.response.is_some(), shown, "after {pauses:?}");
        assert_eq!(seen.service_times.count(), 1, "since the start");
    }
}
