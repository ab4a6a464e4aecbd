//! Which law moves when, law by law, with laws that do as they are told.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use tamarisk_control::{Reason, Rejection, Target, Together};

use super::*;
use crate::Open;

const SECOND: Duration = Duration::from_secs(1);

/// Rejects as many of ten arrivals as it is told to.
struct FixedShare(Arc<AtomicU32>, u32);

impl AdmissionLaw for FixedShare {
    fn name(&self) -> &'static str {
        "fixed-share"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        self.1 = (self.1 + 1) % 10;
        if self.1 < self.0.load(Ordering::Relaxed) {
            Decision::Reject(Rejection::new(Reason::PredictedLate))
        } else {
            Decision::Admit
        }
    }
}

/// What a stub was asked, and how far it has gone.
#[derive(Default)]
struct Progress {
    level: AtomicI32,
    most: AtomicI32,
    /// Asked, but sees no cause.
    is_unwilling: AtomicU32,
    /// It moves only when it was asked so often since the last shift or move.
    sample_ticks: AtomicU32,
    asked: AtomicU32,
    queue_shown: AtomicU32,
    shifts: AtomicU32,
    told_late: AtomicU32,
}

/// A law of any kind that goes one step when it is asked.
#[derive(Clone)]
struct Stub(Arc<Progress>);

impl Deref for Stub {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.0
    }
}

impl Stub {
    fn up_to(most: i32) -> Self {
        Self(Arc::new(Progress { most: AtomicI32::new(most), ..Progress::default() }))
    }

    fn level(&self) -> i32 {
        self.level.load(Ordering::Relaxed)
    }

    fn ask(&self, leeway: Leeway) {
        if self.is_unwilling.load(Ordering::Relaxed) == 0 {
            let step = if leeway == Leeway::Press { 1 } else { -1 };
            let most = self.most.load(Ordering::Relaxed);
            self.level.store((self.level() + step).clamp(0, most), Ordering::Relaxed);
        }
    }

    fn state(&self) -> Strain {
        match (self.level(), self.most.load(Ordering::Relaxed)) {
            (_, 0) => Strain::Fixed,
            (0, _) => Strain::Eased,
            (level, most) if level < most => Strain::Partial,
            _ => Strain::Spent,
        }
    }
}

impl WorkersLaw for Stub {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn on_tick(&mut self, _: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> Concurrency {
        self.queue_shown.store(activity.backlog.queued_total, Ordering::Relaxed);
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if asked >= self.sample_ticks.load(Ordering::Relaxed) {
            self.asked.store(0, Ordering::Relaxed);
            self.ask(leeway);
        }
        Concurrency::new(4 + self.level() as u32)
    }

    fn on_shift(&mut self, _: Timestamp, _: &Activity<'_>) {
        self.shifts.fetch_add(1, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
    }

    fn interval(&self) -> Duration {
        SECOND * self.sample_ticks.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn strain(&self) -> Strain {
        self.state()
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

impl QualityLaw for Stub {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished) {
        if finished.response > SECOND {
            self.told_late.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, leeway: Leeway) -> Ratio {
        self.ask(leeway);
        Ratio::saturating(1.0 - 0.1 * f64::from(self.level()))
    }

    fn strain(&self) -> Strain {
        self.state()
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

impl TerminationLaw for Stub {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, leeway: Leeway) {
        self.ask(leeway);
    }

    fn limit(&self, _: ClassId) -> Option<Duration> {
        Some(SECOND * (10 - self.level() as u32))
    }

    fn strain(&self) -> Strain {
        self.state()
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

/// A composition of stubs, whose clock is in whole seconds.
struct Case {
    law: Composition,
    rejected_of_ten: Arc<AtomicU32>,
    workers: Stub,
    quality: Stub,
    termination: Stub,
    second: u32,
}

impl Case {
    /// With so many steps for workers, quality and termination.
    fn new(steps: [i32; 3]) -> Self {
        let classes = Classes::single(Target::p90(SECOND).unwrap());
        let rejected_of_ten = Arc::new(AtomicU32::new(0));
        let [workers, quality, termination] = steps.map(Stub::up_to);
        let knobs =
            Knobs { workers: Concurrency::new(4), batch: BatchSize::ONE, quality: Ratio::ONE };
        let admission = Box::new(FixedShare(rejected_of_ten.clone(), 0));
        let law = Composition::new(&classes, admission, knobs)
            .workers(Box::new(workers.clone()))
            .quality(Box::new(quality.clone()))
            .termination(Box::new(termination.clone()));
        let mut case = Self { law, rejected_of_ten, workers, quality, termination, second: 0 };
        case.tick(0);
        case
    }

    /// So many seconds pass, of whose arrivals the admission law rejects so many in ten.
    fn pass(&mut self, seconds: u32, rejected_of_ten: u32) -> [i32; 3] {
        self.rejected_of_ten.store(rejected_of_ten, Ordering::Relaxed);
        (0..seconds).for_each(|_| self.tick(0));
        self.levels()
    }

    fn tick(&mut self, idle: u32) {
        let backlog = Backlog {
            queued: &[3],
            running: &[4],
            queued_total: 3,
            running_total: 4,
            workers: Concurrency::new(4),
        };
        let now = Timestamp::ZERO + SECOND * self.second;
        self.second += 1;
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
        (0..100).for_each(|_| _ = self.law.on_arrival(now, &arrival, &backlog));
        let activity = Activity { backlog, offered: 0, lost: 0, completed: 0, workers_idle: idle };
        self.law.govern(now, &activity);
    }

    fn levels(&self) -> [i32; 3] {
        [self.workers.level(), self.quality.level(), self.termination.level()]
    }
}

#[test]
fn under_overload_each_acts_only_when_those_before_it_are_spent() {
    let mut case = Case::new([2, 2, 1]);
    let levels: Vec<_> = (0..6).map(|_| case.pass(1, 5)).collect();
    let expected = [[1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [2, 2, 1], [2, 2, 1]];
    assert_eq!(levels, expected);
}

#[test]
fn in_calm_the_last_goes_back_first_and_each_only_after_its_patience() {
    let mut case = Case::new([2, 2, 1]);
    case.pass(5, 5);
    assert_eq!(case.pass(31, 0), [2, 2, 1]);
    assert_eq!(case.pass(1, 0), [2, 2, 0]);
    assert_eq!(case.pass(7, 0), [2, 2, 0]);
    assert_eq!(case.pass(1, 0), [2, 1, 0]);
    // The second easing of quality waits for one period less.
    assert_eq!(case.pass(8, 0), [2, 0, 0]);
    assert_eq!(case.pass(8, 0), [1, 0, 0]);
}

#[test]
fn what_was_eased_too_soon_is_taken_back_first_and_waits_twice_as_long() {
    let mut case = Case::new([2, 2, 0]);
    case.pass(4, 5);
    assert_eq!(case.pass(8, 0), [2, 1, 0]);
    // More workers could be had now, but it was quality that brought this about.
    case.workers.most.store(9, Ordering::Relaxed);
    assert_eq!(case.pass(1, 5), [2, 2, 0]);
    assert_eq!(case.pass(1, 5), [3, 2, 0]);
    assert_eq!(case.pass(15, 0), [3, 2, 0]);
    assert_eq!(case.pass(1, 0), [3, 1, 0]);
}

#[test]
fn a_stage_that_is_half_idle_gives_back_without_waiting() {
    let mut case = Case::new([2, 2, 1]);
    case.pass(5, 5);
    case.pass(0, 0);
    (0..3).for_each(|_| case.tick(5));
    assert_eq!(case.levels(), [2, 0, 0]);
}

#[test]
fn while_the_door_rejects_workers_are_shown_an_endless_queue_and_quality_late_answers() {
    let mut case = Case::new([9, 2, 1]);
    case.pass(1, 1);
    assert_eq!(case.workers.queue_shown.load(Ordering::Relaxed), u32::MAX);
    // 10 of 100 rejected, each as (1 − 0.9) ÷ 0.01 late ones.
    assert_eq!(case.quality.told_late.load(Ordering::Relaxed), 100);
    (0..2).for_each(|_| {
        case.pass(0, 0);
        case.tick(5);
    });
    assert_eq!(case.workers.queue_shown.load(Ordering::Relaxed), 3);
}

#[test]
fn a_law_that_sees_no_cause_is_passed_over() {
    let mut case = Case::new([1, 2, 1]);
    case.quality.is_unwilling.store(1, Ordering::Relaxed);
    assert_eq!(case.pass(13, 5), [1, 0, 0]);
    assert_eq!(case.pass(2, 5), [1, 0, 1]);
}

#[test]
fn a_law_that_samples_rarely_is_passed_over_only_after_its_sample() {
    let mut case = Case::new([2, 2, 0]);
    case.workers.sample_ticks.store(20, Ordering::Relaxed);
    assert_eq!(case.pass(19, 5), [0, 0, 0]);
    assert_eq!(case.pass(1, 5), [1, 0, 0]);
    assert_eq!(case.pass(20, 5), [2, 0, 0]);
    assert_eq!(case.pass(1, 5), [2, 1, 0]);
}

#[test]
fn whoever_is_asked_again_has_its_time_again() {
    let mut case = Case::new([2, 0, 0]);
    case.workers.is_unwilling.store(1, Ordering::Relaxed);
    assert_eq!(case.pass(13 + 30, 5), [0, 0, 0]);
    case.workers.is_unwilling.store(0, Ordering::Relaxed);
    case.workers.sample_ticks.store(5, Ordering::Relaxed);
    assert_eq!(case.pass(5, 5), [1, 0, 0]);
}

#[test]
fn when_nobody_can_press_all_look_again_more_and_more_rarely() {
    let mut case = Case::new([1, 1, 1]);
    let shifts = |case: &Case| case.workers.shifts.load(Ordering::Relaxed);
    case.pass(3 + 29, 5);
    assert_eq!(shifts(&case), 1, "when its turn came");
    case.pass(1, 5);
    assert_eq!(shifts(&case), 2);
    case.pass(59, 5);
    assert_eq!(shifts(&case), 2);
    case.pass(1, 5);
    assert_eq!(shifts(&case), 3);
}

#[test]
fn a_fast_loop_that_rejects_nothing_leaves_the_stage_as_it_was_built() {
    let classes = Classes::single(Target::p90(SECOND).unwrap());
    let workers = Stub::up_to(9);
    let knobs = Knobs { workers: Concurrency::new(4), batch: BatchSize::ONE, quality: Ratio::ONE };
    let law = Composition::new(&classes, Box::new(Open), knobs);
    let mut case = Case::new([0, 0, 0]);
    case.law = law.workers(Box::new(workers.clone()));
    case.pass(100, 0);
    assert_eq!((case.law.knobs, workers.level()), (knobs, 0));
}

#[test]
fn nothing_happens_within_a_period_or_without_arrivals() {
    let mut case = Case::new([9, 2, 1]);
    let backlog = Backlog {
        queued: &[0],
        running: &[0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };
    let activity = Activity { backlog, offered: 9, lost: 9, completed: 0, workers_idle: 0 };
    (0..100).for_each(|_| _ = case.law.govern(Timestamp::ZERO, &activity));
    (0..100).for_each(|_| _ = case.law.govern(Timestamp::MAX, &activity));
    assert_eq!(case.levels(), [0, 0, 0]);
}

/// How far the workers law has gone after two periods, in each of which the stage loses 10 of 100 and
/// so many run to an early end, while so many are queued.
fn level_after_losses(queued: u32, terminated: u32) -> i32 {
    let mut case = Case::new([9, 0, 0]);
    let backlog = Backlog {
        queued: &[queued],
        running: &[4],
        queued_total: queued,
        running_total: 4,
        workers: Concurrency::new(4),
    };
    let ended = Finished {
        class: ClassId::DEFAULT,
        service: SECOND,
        response: SECOND,
        ending: Ending::Terminated,
        kind: 0,
        together: Together::ALONE,
    };
    for second in 1..=2 {
        let now = Timestamp::ZERO + SECOND * second;
        (0..terminated).for_each(|_| case.law.on_finish(now, &ended, &backlog));
        let periods = u64::from(second);
        let (offered, lost) = (100 * periods, 10 * periods);
        case.law.govern(now, &Activity { backlog, offered, lost, completed: 0, workers_idle: 0 });
    }
    case.workers.level()
}

#[test]
fn what_the_stage_itself_rejects_counts_as_what_the_law_rejects() {
    assert_eq!(level_after_losses(8, 0), 2);
    assert_eq!(level_after_losses(0, 0), 0, "nothing waits: a predicate rejects");
    assert_eq!(level_after_losses(8, 10), 0, "those that a law ended had their worker");
}
