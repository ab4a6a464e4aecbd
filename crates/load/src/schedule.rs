//! How much load, when: a level that steps, spikes and ramps.
//!
//! A level is a number of users (closed loop) or a rate in requests a second
//! (open loop). The schedule is a row of phases, in each of which the level
//! stays or moves along a straight line; its integral, the number of requests
//! due by an instant, is therefore a row of parabolas with an exact inverse,
//! which is what arrivals need.

mod change;

pub use change::{Change, InvalidChange};

use std::time::Duration;

/// Changes that one schedule may have. Statistics are kept for each phase, so
/// the bound keeps a report and the memory of a run small.
pub const CHANGES_MAX: usize = 64;

/// What a run does after its last change, unless told how long it lasts.
const TAIL: Duration = Duration::from_secs(10);

/// Levels above this are slips of the keyboard, not loads of one machine.
const LEVEL_MAX: f64 = 10_000_000.0;

/// A level over time, from the start of a run to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Contiguous from zero, none empty; at least one.
    phases: Vec<Phase>,
}

/// A part of a schedule in which the level stays, or moves along a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// When it begins, since the start of the run.
    pub start: Duration,
    /// When it ends: the start of the next, or the end of the run.
    pub end: Duration,
    /// The level at its start.
    pub from: f64,
    /// The level just before its end; equals `from` unless the phase is a ramp.
    pub to: f64,
}

/// Why changes do not make a schedule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidSchedule {
    /// A level is negative, not finite, or beyond any machine.
    #[error("a level of {0} is out of range: give a number from 0 to 10,000,000")]
    Level(f64),
    /// There is never any load.
    #[error("the level is 0 all the time: give a level above 0, or a change that raises it")]
    Nothing,
    /// Two changes claim the same time.
    #[error("`{0}` overlaps `{1}`: changes must follow one another")]
    Overlap(Change, Change),
    /// The run ends before a change does.
    #[error("`{change}` ends after the run, which ends at {duration:?}")]
    BeyondEnd {
        /// The change that does not fit.
        change: Change,
        /// The length of the run.
        duration: Duration,
    },
    /// The run has no length.
    #[error("the duration must be longer than 0s")]
    Empty,
    /// More than [`CHANGES_MAX`] changes.
    #[error("too many changes ({0}): a schedule holds at most 64")]
    TooMany(usize),
}

impl Schedule {
    /// The level `base`, with `changes` in any order. Without a `duration` the
    /// run goes on for ten seconds after the last change.
    ///
    /// # Errors
    /// [`InvalidSchedule`] if the changes overlap, do not fit into the
    /// duration, are too many, or a level is out of range.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_load::Schedule;
    ///
    /// let crowd = Schedule::new(3.0, vec!["spike 1000@10s..40s".parse()?], None)?;
    /// assert_eq!(crowd.level_at(Duration::from_secs(20)), 1000.0);
    /// assert_eq!(crowd.duration(), Duration::from_secs(50));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        base: f64,
        mut changes: Vec<Change>,
        duration: Option<Duration>,
    ) -> Result<Self, InvalidSchedule> {
        if changes.len() > CHANGES_MAX {
            return Err(InvalidSchedule::TooMany(changes.len()));
        }
        let levels = changes.iter().map(Change::level).chain([base]);
        if let Some(level) = levels.into_iter().find(|l| !(0.0..=LEVEL_MAX).contains(l)) {
            return Err(InvalidSchedule::Level(level));
        }
        changes.sort_by_key(|change| (change.start(), change.end()));
        for pair in changes.windows(2) {
            if pair[1].start() < pair[0].end() || pair[1].start() == pair[0].start() {
                return Err(InvalidSchedule::Overlap(pair[1], pair[0]));
            }
        }
        let last_end = changes.last().map_or(Duration::ZERO, Change::end);
        let duration = duration.unwrap_or(last_end + TAIL);
        if duration.is_zero() {
            return Err(InvalidSchedule::Empty);
        }
        if let Some(&change) =
            changes.last().filter(|last| last.end() > duration || last.start() >= duration)
        {
            return Err(InvalidSchedule::BeyondEnd { change, duration });
        }
        let schedule = Self { phases: phases(base, &changes, duration) };
        match schedule.level_max() > 0.0 {
            true => Ok(schedule),
            false => Err(InvalidSchedule::Nothing),
        }
    }

    /// When the run ends, since its start.
    pub fn duration(&self) -> Duration {
        self.phases[self.phases.len() - 1].end
    }

    /// The phases in order, contiguous from the start to the end of the run.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The index of the phase that `at` falls into; the last for later instants.
    pub fn phase_at(&self, at: Duration) -> usize {
        self.phases.partition_point(|phase| phase.end <= at).min(self.phases.len() - 1)
    }

    /// The level at an instant; zero once the run is over.
    pub fn level_at(&self, at: Duration) -> f64 {
        if at >= self.duration() { 0.0 } else { self.phases[self.phase_at(at)].level_at(at) }
    }

    /// The highest level of the whole run.
    pub fn level_max(&self) -> f64 {
        self.phases.iter().fold(0.0, |max, phase| max.max(phase.from).max(phase.to))
    }

    /// The first instant, `at` or later, when the level exceeds `threshold`:
    /// when user number `threshold` (from zero) is, or next comes, on stage.
    pub fn next_above(&self, threshold: f64, at: Duration) -> Option<Duration> {
        if at >= self.duration() {
            return None;
        }
        self.phases[self.phase_at(at)..].iter().find_map(|phase| phase.next_above(threshold, at))
    }

    /// The instant by which `count` requests are due, the level taken as a rate:
    /// the inverse of the integral of the level. `None` if the run ends before.
    pub fn when_due(&self, count: f64) -> Option<Duration> {
        let mut before = 0.0;
        for phase in &self.phases {
            let within = phase.due();
            if count < before + within {
                return Some(phase.when_due(count - before));
            }
            before += within;
        }
        None
    }
}

impl Phase {
    /// How long it lasts.
    pub fn duration(&self) -> Duration {
        self.end - self.start
    }

    /// Whether the level moves during the phase.
    pub fn is_ramp(&self) -> bool {
        self.from != self.to
    }

    fn level_at(&self, at: Duration) -> f64 {
        let share = (at - self.start).as_secs_f64() / self.duration().as_secs_f64();
        self.from + (self.to - self.from) * share
    }

    fn next_above(&self, threshold: f64, at: Duration) -> Option<Duration> {
        let at = at.max(self.start);
        if self.level_at(at) > threshold {
            return Some(at);
        }
        if self.to <= threshold {
            return None;
        }
        let share = (threshold - self.from) / (self.to - self.from);
        // The line only touches the threshold there; a nanosecond on it is above.
        let crossing = self.start + self.duration().mul_f64(share) + Duration::from_nanos(1);
        (crossing < self.end).then_some(crossing.max(at))
    }

    /// Requests due in the whole phase: the area under the line.
    fn due(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.duration().as_secs_f64()
    }

    /// The instant when `count` of this phase's requests are due: the root of
    /// `from·t + slope·t²/2 = count`, in the form that also holds for slope 0.
    fn when_due(&self, count: f64) -> Duration {
        let slope = (self.to - self.from) / self.duration().as_secs_f64();
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        let seconds = if count > 0.0 { 2.0 * count / (self.from + root) } else { 0.0 };
        self.start + Duration::from_secs_f64(seconds).min(self.duration())
    }
}

/// The phases that sorted, disjoint `changes` make of the level `base`.
fn phases(base: f64, changes: &[Change], duration: Duration) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::with_capacity(2 * changes.len() + 1);
    let mut push = |start: Duration, end: Duration, from: f64, to: f64| {
        if start < end {
            phases.push(Phase { start, end, from, to });
        }
    };
    let mut level = base;
    let mut now = Duration::ZERO;
    for change in changes {
        push(now, change.start(), level, level);
        now = change.end();
        match *change {
            Change::Step { to, .. } => level = to,
            Change::Spike { to, from, until } => push(from, until, to, to),
            Change::Ramp { to, from, until } => {
                push(from, until, level, to);
                level = to;
            }
        }
    }
    push(now, duration, level, level);
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn schedule(base: f64, changes: &[&str], duration: Option<Duration>) -> Schedule {
        let changes = changes.iter().map(|c| c.parse().unwrap()).collect();
        Schedule::new(base, changes, duration).unwrap()
    }

    #[test]
    fn a_spike_rises_at_its_start_and_falls_at_its_end() {
        let crowd = schedule(3.0, &["spike 1000@10s..40s"], None);
        assert_eq!(crowd.level_at(s(9.999)), 3.0);
        assert_eq!(crowd.level_at(s(10.0)), 1000.0);
        assert_eq!(crowd.level_at(s(39.999)), 1000.0);
        assert_eq!(crowd.level_at(s(40.0)), 3.0);
        assert_eq!(crowd.duration(), s(50.0));
        assert_eq!(crowd.level_at(s(50.0)), 0.0);
    }

    #[test]
    fn steps_stay_and_ramps_end_where_they_lead() {
        let day = schedule(10.0, &["ramp 50@30s..40s", "step 20@10s"], Some(s(60.0)));
        assert_eq!(day.level_at(s(5.0)), 10.0);
        assert_eq!(day.level_at(s(10.0)), 20.0);
        assert_eq!(day.level_at(s(35.0)), 35.0);
        assert_eq!(day.level_at(s(59.0)), 50.0);
        assert_eq!(day.level_max(), 50.0);
        assert_eq!(day.phases().len(), 4);
    }

    #[test]
    fn a_change_at_the_very_start_leaves_no_empty_phase() {
        assert_eq!(schedule(1.0, &["spike 9@0s..1s"], Some(s(1.0))).phases().len(), 1);
    }

    #[test]
    fn a_user_comes_on_stage_when_the_level_exceeds_its_number() {
        let crowd = schedule(3.0, &["spike 5@10s..40s"], None);
        assert_eq!(crowd.next_above(2.0, s(0.0)), Some(s(0.0)));
        assert_eq!(crowd.next_above(3.0, s(0.0)), Some(s(10.0)));
        assert_eq!(crowd.next_above(4.0, s(20.0)), Some(s(20.0)));
        assert_eq!(crowd.next_above(4.0, s(40.0)), None);
        assert_eq!(crowd.next_above(5.0, s(0.0)), None);
        assert_eq!(crowd.next_above(0.0, s(50.0)), None);
    }

    #[test]
    fn a_ramp_brings_users_one_after_the_other() {
        let ramp = schedule(0.0, &["ramp 10@0s..10s"], None);
        assert_eq!(ramp.next_above(4.0, s(0.0)), Some(s(4.0) + Duration::from_nanos(1)));
        let descent = schedule(10.0, &["ramp 0@0s..10s"], None);
        assert_eq!(descent.next_above(4.0, s(5.0)), Some(s(5.0)));
        assert_eq!(descent.next_above(4.0, s(6.0)), None);
    }

    #[test]
    fn a_constant_rate_is_due_evenly() {
        let steady = schedule(100.0, &[], Some(s(2.0)));
        assert_eq!(steady.when_due(0.0), Some(s(0.0)));
        assert_eq!(steady.when_due(50.0), Some(s(0.5)));
        assert_eq!(steady.when_due(200.0), None);
    }

    #[test]
    fn nothing_is_due_while_the_rate_is_zero() {
        let pause = schedule(0.0, &["spike 10@5s..6s"], Some(s(10.0)));
        assert_eq!(pause.when_due(0.0), Some(s(5.0)));
        assert_eq!(pause.when_due(9.0), Some(s(5.9)));
        assert_eq!(pause.when_due(10.0), None);
    }

    #[test]
    fn a_ramp_from_zero_is_due_with_the_square_of_time() {
        // 10/s after 10 s: t²/2 requests by t, so 8 by the fourth second.
        let ramp = schedule(0.0, &["ramp 10@0s..10s"], Some(s(10.0)));
        assert_eq!(ramp.when_due(8.0), Some(s(4.0)));
    }

    fn rejected(base: f64, changes: &[&str], duration: Option<Duration>) -> InvalidSchedule {
        let changes = changes.iter().map(|c| c.parse().unwrap()).collect();
        Schedule::new(base, changes, duration).unwrap_err()
    }

    #[test]
    fn what_makes_no_schedule_is_rejected() {
        use InvalidSchedule as E;
        let overlap = rejected(1.0, &["spike 9@1s..5s", "step 4@4s"], None);
        assert_eq!(
            overlap.to_string(),
            "`step 4@4s` overlaps `spike 9@1s..5s`: changes must follow one another"
        );
        assert!(matches!(rejected(1.0, &["step 4@4s", "step 5@4s"], None), E::Overlap(..)));
        assert!(matches!(rejected(1.0, &["step 4@4s"], Some(s(4.0))), E::BeyondEnd { .. }));
        assert!(matches!(rejected(1.0, &["spike 4@1s..9s"], Some(s(4.0))), E::BeyondEnd { .. }));
        assert!(matches!(rejected(-1.0, &[], None), E::Level(_)));
        assert!(matches!(rejected(f64::NAN, &[], None), E::Level(_)));
        assert_eq!(rejected(1.0, &[], Some(s(0.0))), E::Empty);
        assert_eq!(rejected(0.0, &[], None), E::Nothing);
        assert_eq!(rejected(0.0, &["step 0@1s", "spike 0@2s..3s"], None), E::Nothing);
        let many: Vec<String> = (0..65).map(|i| format!("step 1@{i}s")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(rejected(1.0, &many, None), E::TooMany(65));
    }

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        let change = (0u8..3, 0.0..100.0, 1u64..5000, 0u64..5000);
        (0.0..100.0, proptest::collection::vec(change, 0..6)).prop_map(|(base, drawn)| {
            let mut now = Duration::ZERO;
            let changes = drawn
                .into_iter()
                .map(|(kind, to, length, gap)| {
                    let from = now + Duration::from_millis(gap + 1);
                    let until = from + Duration::from_millis(length);
                    now = until;
                    match kind {
                        0 => Change::Step { to, at: from },
                        1 => Change::Spike { to, from, until },
                        _ => Change::Ramp { to, from, until },
                    }
                })
                .collect();
            Schedule::new(base, changes, None).unwrap()
        })
    }

    proptest! {
        #[test]
        fn phases_cover_the_run_without_gap_or_overlap(schedule in any_schedule()) {
            let mut now = Duration::ZERO;
            for phase in schedule.phases() {
                prop_assert_eq!(phase.start, now);
                prop_assert!(phase.end > phase.start);
                now = phase.end;
            }
            prop_assert_eq!(now, schedule.duration());
        }

        #[test]
        fn requests_become_due_in_order(schedule in any_schedule()) {
            let mut last = Duration::ZERO;
            for count in 0..5000 {
                let Some(due) = schedule.when_due(f64::from(count)) else { break };
                prop_assert!(due >= last && due <= schedule.duration());
                last = due;
            }
        }

        #[test]
        fn a_user_is_on_stage_where_the_schedule_says(
            schedule in any_schedule(), threshold in 0u8..100, at_ms in 0u64..40_000,
        ) {
            let (threshold, at) = (f64::from(threshold), Duration::from_millis(at_ms));
            match schedule.next_above(threshold, at) {
                Some(when) => {
                    prop_assert!(when >= at);
                    prop_assert!(schedule.level_at(when) > threshold - 1e-6);
                }
                None => prop_assert!(schedule.level_at(at) <= threshold),
            }
        }
    }
}
