//! An incident begins, still holds and has ended: what the lines of a log say of it.
//!
//! A line for each occurrence would flood the log, and so would two lines for each time that it
//! comes and goes. So there is a line when it begins, then at growing intervals with a count, and when
//! it has ended. It has ended after a calm, which doubles each time that it soon begins again.

use std::time::Duration;

use tokio::time::Instant;

/// The calm after which most incidents have ended: what is nearly over may occur once more.
pub const CALM: Duration = Duration::from_secs(10);

/// The longest calm. What begins again later than this after its end is news.
const CALM_MAX: Duration = Duration::from_secs(600);

/// The time from when it begins until it is told that it still holds; it doubles from then on.
const REMINDER_FIRST: Duration = Duration::from_secs(60);

/// The longest interval between two such lines.
const REMINDER_MAX: Duration = Duration::from_secs(3600);

/// What may come and go: an upstream cannot be reached, lines are lost.
#[derive(Debug)]
pub struct Incident {
    calm_min: Duration,
    calm: Duration,
    ended: Option<Instant>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    began: Instant,
    last: Instant,
    count: u64,
    reminder: Instant,
    interval: Duration,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It has begun.
    Begins {
        /// Occurrences so far.
        count: u64,
    },
    /// It still holds.
    Holds {
        /// Occurrences since it began.
        count: u64,
        /// The time since it began.
        after: Duration,
    },
    /// It has ended.
    Ends {
        /// Occurrences from its beginning to its end.
        count: u64,
        /// The time since it began.
        after: Duration,
        /// The time from the first occurrence to the last.
        lasted: Duration,
    },
}

impl Incident {
    /// One that has ended, at first, after `calm` without an occurrence.
    pub const fn ending_after(calm: Duration) -> Self {
        Self { calm_min: calm, calm, ended: None, current: None }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.current.is_some()
    }

    /// What is to be told after `new` occurrences since the last look, or none.
    pub fn look(&mut self, now: Instant, new: u64) -> Option<Change> {
        let Some(current) = &mut self.current else {
            return (new > 0).then(|| self.begin(now, new));
        };
        if new == 0 {
            let has_ended = now.duration_since(current.last) >= self.calm;
            return has_ended.then(|| self.end(now)).flatten();
        }
        (current.last, current.count) = (now, current.count + new);
        if now < current.reminder {
            return None;
        }
        current.interval = (2 * current.interval).min(REMINDER_MAX);
        current.reminder = now + current.interval;
        Some(Change::Holds { count: current.count, after: now.duration_since(current.began) })
    }

    fn begin(&mut self, now: Instant, count: u64) -> Change {
        let is_soon = self.ended.is_some_and(|ended| now.duration_since(ended) < CALM_MAX);
        self.calm = if is_soon { (2 * self.calm).clamp(CALM, CALM_MAX) } else { self.calm_min };
        let (reminder, interval) = (now + REMINDER_FIRST, REMINDER_FIRST);
        self.current = Some(Current { began: now, last: now, count, reminder, interval });
        Change::Begins { count }
    }

    fn end(&mut self, now: Instant) -> Option<Change> {
        let Current { began, last, count, .. } = self.current.take()?;
        self.ended = Some(now);
        let (after, lasted) = (now.duration_since(began), last.duration_since(began));
        Some(Change::Ends { count, after, lasted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_told_when_it_begins_at_growing_intervals_and_when_it_has_ended() {
        let (mut incident, start) = (Incident::ending_after(CALM), Instant::now());
        let mut look = |second, new| incident.look(start + seconds(second), new);
        assert_eq!(look(0, 0), None);
        assert_eq!(look(1, 5), Some(Change::Begins { count: 5 }));
        assert_eq!(look(2, 2), None);
        // A short calm is no end.
        assert_eq!(look(11, 0), None);
        let mut told = Vec::new();
        for second in 12..8000 {
            match look(second, 1) {
                Some(Change::Holds { count, after }) => {
                    assert_eq!(count, 7 + (second - 11), "{second}");
                    assert_eq!(after, seconds(second - 1), "{second}");
                    told.push(second - 1);
                }
                other => assert_eq!(other, None, "{second}"),
            }
        }
        assert_eq!(told, [60, 180, 420, 900, 1860, 3780, 7380]);
        assert_eq!(look(8008, 0), None);
        let (count, after, lasted) = (7 + 7988, seconds(8008), seconds(7998));
        assert_eq!(look(8009, 0), Some(Change::Ends { count, after, lasted }));
        assert_eq!(look(8010, 0), None);
    }

    #[test]
    fn what_comes_and_goes_is_not_told_each_time() {
        for period in [2_u64, 15, 30, 100, 300] {
            let (mut incident, start) = (Incident::ending_after(Duration::ZERO), Instant::now());
            let (mut hours, mut occurred) = ([0; 24], 0);
            for second in 0..86_400_u64 {
                let new = u64::from(second.is_multiple_of(period));
                occurred += new;
                let change = incident.look(start + seconds(second), new);
                hours[second as usize / 3600] += usize::from(change.is_some());
                if let Some(Change::Begins { count } | Change::Holds { count, .. }) = change {
                    assert!((1..=occurred).contains(&count), "{second}");
                }
            }
            assert!(hours[0] <= 20, "every {period} s: {hours:?}");
            assert!(hours[1..].iter().all(|lines| *lines <= 2), "every {period} s: {hours:?}");
        }
    }

    #[test]
    fn what_begins_again_after_a_long_time_ends_as_it_did_at_first() {
        let (mut incident, start) = (Incident::ending_after(Duration::ZERO), Instant::now());
        for second in [0_u64, 1000, 2000] {
            let mut look = |later, new| incident.look(start + seconds(second + later), new);
            assert_eq!(look(0, 1), Some(Change::Begins { count: 1 }));
            assert!(matches!(look(1, 0), Some(Change::Ends { count: 1, .. })));
        }
        let mut look = |second, new| incident.look(start + seconds(second), new);
        assert!(matches!(look(2100, 1), Some(Change::Begins { .. })));
        assert_eq!(look(2101, 0), None);
        assert!(matches!(look(2110, 0), Some(Change::Ends { .. })));
    }
}
