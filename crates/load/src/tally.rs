//! Counts and latencies of a set of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::outcome::{ErrorKind, Outcome};

/// A distribution of durations from 1 µs up, to three significant digits.
/// Grows with the longest duration: 16 KiB for 2 ms, 130 KiB for a minute.
#[derive(Clone, Debug)]
pub(crate) struct Durations(Histogram<u64>);

/// What became of a set of requests. Tallies add up: those of threads to those
/// of a phase, those of phases to that of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that were due.
    pub(crate) offered: u64,
    /// Answered in full, with a status below 400.
    pub(crate) completed: u64,
    /// Completed within the target.
    pub(crate) good: u64,
    /// Answered with 503 or 429.
    pub(crate) rejected: u64,
    /// All others that ended, by kind.
    pub(crate) errors: BTreeMap<ErrorKind, u64>,
    /// Bytes of the bodies of answers.
    pub(crate) bytes: u64,
    /// From the instant when the request was due to the end of its complete answer.
    pub(crate) latency: Durations,
    /// The same, of answers that were rejections.
    pub(crate) rejection: Durations,
    /// From sending the request to the end of its complete answer.
    pub(crate) response: Durations,
    /// Time to establish connections.
    pub(crate) connect: Durations,
    /// How late the generator itself was: from the instant when a request was
    /// due to the instant when work on it began.
    pub(crate) lag: Durations,
}

/// How many requests ended in a stretch of time, whenever they were due: what an
/// onlooker counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) completed: u64,
    pub(crate) good: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
}

/// A request that begins, in times since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// Which user asks, in a closed loop.
    pub(crate) user: Option<usize>,
    /// Of which class and type of request it is, where they are told apart.
    pub(crate) group: Option<usize>,
    /// When it was due.
    pub(crate) due: Duration,
    /// When work on it begins.
    pub(crate) at: Duration,
    /// How late the generator itself is.
    pub(crate) lag: Duration,
}

/// A request that has ended, in times since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Which user asked, in a closed loop.
    pub(crate) user: Option<usize>,
    /// Of which class and type of request it was, where they are told apart.
    pub(crate) group: Option<usize>,
    /// When it was due.
    pub(crate) due: Duration,
    /// When it was put on the wire, if it got that far.
    pub(crate) sent: Option<Duration>,
    /// When its outcome was known.
    pub(crate) at: Duration,
    pub(crate) outcome: Outcome,
    pub(crate) bytes: u64,
}

impl Tally {
    /// All requests that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Requests that were due and have not ended.
    pub(crate) fn unfinished(&self) -> u64 {
        self.offered - self.completed - self.rejected - self.failed()
    }

    /// Takes the counts and durations of `other` in.
    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.completed += other.completed;
        self.good += other.good;
        self.rejected += other.rejected;
        for (&kind, count) in &other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        self.bytes += other.bytes;
        self.latency.add(&other.latency);
        self.rejection.add(&other.rejection);
        self.response.add(&other.response);
        self.connect.add(&other.connect);
        self.lag.add(&other.lag);
    }

    pub(crate) fn on_start(&mut self, started: &Started) {
        self.offered += 1;
        self.lag.record(started.lag);
    }

    pub(crate) fn on_end(&mut self, ended: &Ended, target: Option<Duration>) {
        let latency = ended.latency();
        self.bytes += ended.bytes;
        match ended.outcome {
            Outcome::Completed => {
                self.completed += 1;
                self.good += u64::from(ended.is_good(target));
                self.latency.record(latency);
                if let Some(sent) = ended.sent {
                    self.response.record(ended.at.saturating_sub(sent));
                }
            }
            Outcome::Rejected { .. } => {
                self.rejected += 1;
                self.rejection.record(latency);
            }
            Outcome::Failed(kind) => *self.errors.entry(kind).or_default() += 1,
        }
    }
}

impl Flow {
    pub(crate) fn add(&mut self, other: Self) {
        self.completed += other.completed;
        self.good += other.good;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }

    pub(crate) fn on_end(&mut self, ended: &Ended, target: Option<Duration>) {
        match ended.outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Rejected { .. } => self.rejected += 1,
            Outcome::Failed(_) => self.failed += 1,
        }
        self.good += u64::from(ended.is_good(target));
    }
}

impl Ended {
    fn latency(&self) -> Duration {
        self.at.saturating_sub(self.due)
    }

    fn is_good(&self, target: Option<Duration>) -> bool {
        self.outcome == Outcome::Completed && target.is_none_or(|target| self.latency() <= target)
    }
}

impl Durations {
    /// How many were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Their mean.
    pub(crate) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.0.mean() * 1e-6)
    }

    /// The least duration that a share of at least `q` of all does not exceed,
    /// `q` in `0.0..=1.0`; zero if none was recorded.
    pub(crate) fn quantile(&self, q: f64) -> Duration {
        // The histogram answers with the end of a bucket, which may lie beyond
        // the longest duration that was seen.
        Duration::from_micros(self.0.value_at_quantile(q).min(self.0.max()))
    }

    /// The longest, to the histogram's precision.
    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    pub(crate) fn record(&mut self, duration: Duration) {
        /// Keeps the histogram small whatever a clock may do.
        const LONGEST: Duration = Duration::from_secs(24 * 3600);
        let micros = duration.min(LONGEST).as_micros() as u64;
        self.0.record(micros).expect("an auto-resizing histogram takes any value up to a day");
    }

    fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("an auto-resizing histogram takes in any other");
    }
}

impl Default for Durations {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three significant digits are in range"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ended(outcome: Outcome, latency: Duration) -> Ended {
        Ended {
            user: None,
            group: None,
            due: ms(5),
            sent: Some(ms(5)),
            at: ms(5) + latency,
            outcome,
            bytes: 3,
        }
    }

    #[test]
    fn quantiles_are_exact_to_three_digits() {
        let mut durations = Durations::default();
        (1..=1000).for_each(|n| durations.record(ms(n)));
        for (q, expected) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99), (0.999, 0.999)] {
            let found = durations.quantile(q).as_secs_f64();
            assert!((found / expected - 1.0).abs() < 1e-3, "{q}: {found}");
        }
        assert_eq!(durations.count(), 1000);
        assert!((durations.mean().as_secs_f64() / 0.5005 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn no_durations_have_quantiles_of_zero() {
        assert_eq!(Durations::default().quantile(0.9), Duration::ZERO);
        assert_eq!(Durations::default().mean(), Duration::ZERO);
    }

    #[test]
    fn absurd_durations_are_cut_to_a_day() {
        let mut durations = Durations::default();
        durations.record(Duration::MAX);
        assert!(durations.max() <= Duration::from_secs(25 * 3600));
    }

    #[test]
    fn an_answer_at_the_target_is_good_and_one_beyond_is_not() {
        let mut tally = Tally::default();
        tally.on_end(&ended(Outcome::Completed, ms(200)), Some(ms(200)));
        tally.on_end(&ended(Outcome::Completed, ms(201)), Some(ms(200)));
        assert_eq!((tally.completed, tally.good), (2, 1));
        tally.on_end(&ended(Outcome::Completed, ms(9999)), None);
        assert_eq!((tally.completed, tally.good), (3, 2));
    }

    #[test]
    fn every_request_offered_is_accounted_for_once() {
        let mut tally = Tally { offered: 4, ..Tally::default() };
        tally.on_end(&ended(Outcome::Completed, ms(1)), None);
        tally.on_end(&ended(Outcome::Rejected { retry_after: None }, ms(1)), None);
        tally.on_end(&ended(Outcome::Failed(ErrorKind::TimedOut), ms(1)), None);
        assert_eq!(tally.unfinished(), 1);
        let mut twice = tally.clone();
        twice.add(&tally);
        assert_eq!((twice.offered, twice.unfinished(), twice.bytes), (8, 2, 18));
        assert_eq!(twice.errors[&ErrorKind::TimedOut], 2);
        assert_eq!((twice.latency.count(), twice.rejection.count()), (2, 2));
    }
}
