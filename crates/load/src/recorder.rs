//! Keeps the accounts of one thread: by phase of the schedule, and by interval.
//!
//! Pure: told what happened and when, in times since the start of the run. A
//! request's fate and latency count towards the phase in which it was *due*, so
//! that a queue built up in a spike is held against the spike; rates, and the
//! intervals of the time series, count what *ended* meanwhile, as an onlooker would.

use std::sync::Arc;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::tally::{Ended, Flow, Started, Tally};

/// The accounts of one thread.
pub(crate) struct Recorder {
    plan: Arc<Plan>,
    phases: Vec<PhaseTally>,
    current: IntervalTally,
    finished: Vec<IntervalTally>,
}

/// One phase of the schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhaseTally {
    /// The requests that were due in the phase.
    pub(crate) tally: Tally,
    /// The requests that ended in the phase.
    pub(crate) flow: Flow,
    /// Requests completed for each user of a closed loop, by number.
    pub(crate) shares: Vec<u32>,
    /// The same of each class and type of request, where they are told apart; the types of the
    /// first class come first.
    pub(crate) groups: Vec<GroupTally>,
}

/// The requests of one class and type in one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupTally {
    /// Those that were due in the phase.
    pub(crate) tally: Tally,
    /// Those that ended in it.
    pub(crate) flow: Flow,
}

impl PhaseTally {
    /// Takes in what another thread counted in the same phase. Each user lives
    /// on one thread, so at most one of two shares is not zero.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.flow.add(other.flow);
        let users = self.shares.len().max(other.shares.len());
        self.shares.resize(users, 0);
        self.shares.iter_mut().zip(&other.shares).for_each(|(mine, theirs)| *mine += theirs);
        add_each(&mut self.groups, &other.groups, GroupTally::add);
    }
}

impl GroupTally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.flow.add(other.flow);
    }
}

/// Adds what stands at the same position in another list.
fn add_each<T: Clone + Default>(mine: &mut Vec<T>, theirs: &[T], add: fn(&mut T, &T)) {
    mine.resize(mine.len().max(theirs.len()), T::default());
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| add(mine, theirs));
}

/// What happened in one interval of the time series.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalTally {
    pub(crate) index: u32,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
    pub(crate) tally: Tally,
    /// The same of each class of users, where they are told apart.
    pub(crate) classes: Vec<Tally>,
    /// Requests under way at its end.
    pub(crate) in_flight: u64,
}

impl IntervalTally {
    /// Takes in what another thread counted in the same interval.
    pub(crate) fn add(&mut self, other: &Self) {
        self.index = other.index;
        self.start = other.start;
        self.end = self.end.max(other.end);
        self.tally.add(&other.tally);
        add_each(&mut self.classes, &other.classes, Tally::add);
        self.in_flight += other.in_flight;
    }
}

impl Recorder {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let groups = vec![GroupTally::default(); plan.groups().len()];
        let phases = plan.workload().schedule().phases().len();
        let phases = vec![PhaseTally { groups, ..PhaseTally::default() }; phases];
        let end = plan.settings().interval;
        let classes = plan.groups().no_tallies();
        let first = IntervalTally { end, classes, ..IntervalTally::default() };
        Self { plan, phases, current: first, finished: vec![] }
    }

    /// Work on a request begins.
    pub(crate) fn on_start(&mut self, started: &Started) {
        self.advance(started.at);
        let phase = self.phase(started.due);
        let phase = &mut self.phases[phase];
        if let Some(user) = started.user.filter(|user| *user >= phase.shares.len()) {
            phase.shares.resize(user + 1, 0);
        }
        phase.tally.on_start(started);
        self.current.tally.on_start(started);
        if let Some(group) = started.group {
            phase.groups[group].tally.on_start(started);
            self.current.classes[self.plan.groups().class_of(group)].on_start(started);
        }
        self.current.in_flight += 1;
    }

    /// A connection for a request that was due at `due` was established at `at`.
    pub(crate) fn on_connected(&mut self, due: Duration, at: Duration, took: Duration) {
        self.advance(at);
        let phase = self.phase(due);
        self.phases[phase].tally.connect.record(took);
        self.current.tally.connect.record(took);
    }

    /// A request that was started has ended.
    pub(crate) fn on_end(&mut self, ended: &Ended) {
        self.advance(ended.at);
        let target = self.plan.target_of(ended.group);
        if ended.at < self.plan.workload().schedule().duration() {
            let phase = self.phase(ended.at);
            let phase = &mut self.phases[phase];
            phase.flow.on_end(ended, target);
            if let Some(group) = ended.group {
                phase.groups[group].flow.on_end(ended, target);
            }
        }
        let phase = self.phase(ended.due);
        let phase = &mut self.phases[phase];
        phase.tally.on_end(ended, target);
        self.current.tally.on_end(ended, target);
        if let Some(group) = ended.group {
            phase.groups[group].tally.on_end(ended, target);
            let class = self.plan.groups().class_of(group);
            self.current.classes[class].on_end(ended, target);
        }
        self.current.in_flight -= 1;
        if let (Some(user), Outcome::Completed) = (ended.user, ended.outcome) {
            phase.shares[user] += 1;
        }
    }

    /// Requests under way.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> u64 {
        self.current.in_flight
    }

    /// The intervals that have ended by `now`, oldest first, each once.
    pub(crate) fn take_finished(&mut self, now: Duration) -> Vec<IntervalTally> {
        self.advance(now);
        std::mem::take(&mut self.finished)
    }

    /// Closes the accounts at `now` and hands them over: the intervals not yet
    /// taken, the last of them cut short, and the phases.
    pub(crate) fn finish(&mut self, now: Duration) -> (Vec<IntervalTally>, Vec<PhaseTally>) {
        let mut finished = self.take_finished(now);
        let last = IntervalTally { end: now, ..std::mem::take(&mut self.current) };
        if last.start < now {
            finished.push(last);
        }
        (finished, std::mem::take(&mut self.phases))
    }

    fn phase(&self, due: Duration) -> usize {
        self.plan.workload().schedule().phase_at(due)
    }

    fn advance(&mut self, now: Duration) {
        while now >= self.current.end {
            let next = IntervalTally {
                index: self.current.index + 1,
                start: self.current.end,
                end: self.current.end + self.plan.settings().interval,
                tally: Tally::default(),
                classes: self.plan.groups().no_tallies(),
                in_flight: self.current.in_flight,
            };
            self.finished.push(std::mem::replace(&mut self.current, next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClosedLoop, Report, RetryAfter, Schedule, Spread, Workload};

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Three users, a thousand between the first and the second second.
    fn recorder() -> Recorder {
        let spike = vec!["spike 1000@1s..2s".parse().unwrap()];
        let workload = Workload::Closed(ClosedLoop {
            users: Schedule::new(3.0, spike, Some(s(3.0))).unwrap(),
            think: Duration::ZERO,
            after_reject: Duration::ZERO,
            retry_after: RetryAfter::Ignore,
            spread: Spread::default(),
            resend: None,
        });
        let plan = Plan::builder(workload, vec!["http://h/".parse().unwrap()]);
        Recorder::new(Arc::new(plan.target(s(0.2)).build().unwrap()))
    }

    fn started(user: usize, due: f64, at: f64) -> Started {
        let (due, at) = (s(due), s(at));
        Started { user: Some(user), group: None, due, at, lag: at - due }
    }

    fn completed(user: usize, due: f64, at: f64) -> Ended {
        let (due, at) = (s(due), s(at));
        let outcome = Outcome::Completed;
        Ended { user: Some(user), group: None, due, sent: Some(due), at, outcome, bytes: 0 }
    }

    #[test]
    fn a_request_counts_towards_the_phase_it_was_due_in_and_the_interval_it_ended_in() {
        let mut recorder = recorder();
        recorder.on_start(&started(4, 1.9, 1.95));
        recorder.on_end(&completed(4, 1.9, 2.5));
        let (intervals, phases) = recorder.finish(s(3.0));
        assert_eq!(intervals.iter().map(|i| i.tally.offered).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(intervals.iter().map(|i| i.tally.completed).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(phases.iter().map(|p| p.tally.completed).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(phases.iter().map(|p| p.flow.completed).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(phases[1].tally.good, 0, "600 ms is beyond the target");
        assert_eq!(phases[1].tally.lag.max().as_millis(), 50);
        assert_eq!(phases[1].shares, [0, 0, 0, 0, 1]);
    }

    #[test]
    fn what_ends_after_the_schedule_is_in_no_rate() {
        let mut recorder = recorder();
        recorder.on_start(&started(0, 2.9, 2.9));
        recorder.on_end(&completed(0, 2.9, 3.1));
        let (_, phases) = recorder.finish(s(4.0));
        assert_eq!((phases[2].tally.completed, phases[2].flow.completed), (1, 0));
    }

    #[test]
    fn a_user_who_is_never_answered_has_a_share_of_nothing() {
        let mut recorder = recorder();
        recorder.on_start(&started(0, 0.1, 0.1));
        recorder.on_start(&started(1, 0.1, 0.1));
        recorder.on_end(&completed(0, 0.1, 0.2));
        assert_eq!(recorder.finish(s(1.0)).1[0].shares, [1, 0]);
    }

    #[test]
    fn users_who_never_come_to_send_a_request_are_not_served_fairly() {
        let mut recorder = recorder();
        recorder.on_start(&started(0, 0.1, 0.1));
        recorder.on_end(&completed(0, 0.1, 0.2));
        let plan = Arc::clone(&recorder.plan);
        let (_, phases) = recorder.finish(s(1.0));
        let report = Report::new(&plan, &phases, vec![], s(1.0), true);
        // One of three.
        assert_eq!(report.phases[0].fairness, Some(1.0 / 3.0));
    }

    #[test]
    fn requests_under_way_are_carried_from_interval_to_interval() {
        let mut recorder = recorder();
        recorder.on_start(&started(0, 0.1, 0.1));
        recorder.on_start(&started(1, 0.2, 0.2));
        recorder.on_end(&completed(0, 0.1, 2.1));
        assert_eq!(recorder.in_flight(), 1);
        let finished = recorder.take_finished(s(2.1));
        assert_eq!(finished.iter().map(|i| i.in_flight).collect::<Vec<_>>(), [2, 2]);
        assert!(recorder.take_finished(s(2.2)).is_empty(), "each interval is given once");
    }

    #[test]
    fn the_last_interval_ends_with_the_run() {
        let (intervals, _) = recorder().finish(s(1.25));
        let spans: Vec<_> = intervals.iter().map(|i| (i.start, i.end)).collect();
        assert_eq!(spans, [(s(0.0), s(1.0)), (s(1.0), s(1.25))]);
    }
}
