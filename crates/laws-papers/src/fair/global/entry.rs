//! Admission to the graph, by the number of events inside.

use std::time::Duration;

use tamarisk_control::{Decision, Reason, Rejection, Timestamp};

/// A rejection sends nobody away for longer.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

/// What the whole can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// T, events a second.
    pub(super) throughput: f64,
    /// N*.
    pub(super) population: f64,
    /// What it does, smoothed, while it is crowded.
    pub(super) crowded: Option<f64>,
}

/// Who is inside, between two ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    since: Timestamp,
    inside: f64,
    admitted: f64,
    seen: Seen,
}

/// What the entry has seen since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Who asked to enter, the rejected included.
    pub(super) asked: f64,
    ticks: f64,
    /// How many were inside at each tick, all together.
    inside: f64,
}

impl Seen {
    /// How many were inside, on average.
    pub(super) fn population(&self) -> f64 {
        if self.ticks > 0.0 { self.inside / self.ticks } else { 0.0 }
    }
}

impl Entry {
    pub(super) fn ask(&mut self, now: Timestamp, limit: Option<Limit>) -> Decision {
        self.seen.asked += 1.0;
        if let Some(Limit { throughput, population, .. }) = limit {
            let excess = self.inside(now, throughput) + 1.0 - population;
            if excess > 0.0 {
                let wait = Duration::try_from_secs_f64(excess / throughput);
                let wait = wait.map_or(RETRY_MAX, |wait| wait.min(RETRY_MAX));
                return Decision::Reject(Rejection::new(Reason::RateExceeded).retry_after(wait));
            }
        }
        self.admitted += 1.0;
        Decision::Admit
    }

    pub(super) fn tick(&mut self, now: Timestamp, inside: u64) {
        let inside = inside as f64;
        let Seen { asked, ticks, inside: before } = self.seen;
        let seen = Seen { asked, ticks: ticks + 1.0, inside: before + inside };
        *self = Self { since: now, inside, admitted: 0.0, seen };
    }

    /// What was seen since this was asked last.
    pub(super) fn take_seen(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    /// How many are inside at `now`, as far as that can be told since the last tick.
    fn inside(&self, now: Timestamp, throughput: f64) -> f64 {
        let left = throughput * now.since(self.since).as_secs_f64();
        (self.inside + self.admitted - left).max(0.0)
    }
}
