//! A law that is wrapped in another one decides as it does alone, with all that a law can
//! decide.

use std::time::Duration;

use crate::every_ability::{EveryAbility, answers};
use tamarisk_control::*;
use tamarisk_laws::*;

fn classes() -> Classes {
    Classes::single(Target::p90(Duration::from_millis(200)).expect("200 ms are a target"))
}

fn check(mut wrapped: impl AdmissionLaw) {
    let mut alone = EveryAbility::default();
    assert_eq!(answers(&mut wrapped), answers(&mut alone));
    let mut shown = Vec::new();
    wrapped.readings(&mut |reading| shown.push((reading.name.to_owned(), reading.value)));
    assert!(shown.contains(&("calls_count".to_owned(), alone.calls())));
}

#[test]
fn with_a_dropper_that_drops_nothing() {
    check(WithDropper::new(Box::new(EveryAbility::default()), Box::new(Open)));
}

#[test]
fn composed_with_slow_laws_that_change_nothing() {
    let knobs = Knobs { workers: Concurrency::new(4), batch: BatchSize::ONE, quality: Ratio::ONE };
    check(Composition::new(&classes(), Box::new(EveryAbility::default()), knobs));
}

#[test]
fn beside_independent_slow_laws_that_change_nothing() {
    let knobs = Knobs { workers: Concurrency::new(4), batch: BatchSize::ONE, quality: Ratio::ONE };
    let independent = SlowLaws { quality: Some(Box::new(FullQuality)), ..SlowLaws::default() };
    let laws = StageLaws { independent, ..StageLaws::default() };
    let ruling = laws.with(Box::new(EveryAbility::default()), &classes(), knobs);
    assert_eq!(ruling.slow_names(), [("quality", "full")]);
    let mut alone = EveryAbility::default();
    let mut wrapped = ruling.into_admission();
    assert_eq!(answers(&mut *wrapped), answers(&mut alone));
}

#[test]
fn once_quality_is_spent() {
    let mut law = AdmissionWhenSpent::new(EveryAbility::default());
    law.on_quality(Strain::Spent);
    check(law);
}
