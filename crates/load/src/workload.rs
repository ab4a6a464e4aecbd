//! Who sends requests, and when: the two loops.

use std::time::Duration;

use crate::arrivals::Spacing;
use crate::schedule::Schedule;

/// Who decides when the next request is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Users, each of whom waits for an answer before asking again.
    Closed(ClosedLoop),
    /// A stream of arrivals that does not care how the service is doing.
    Open(OpenLoop),
}

/// Users who ask, wait for the answer, think, and ask again.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedLoop {
    /// How many users, over time.
    pub users: Schedule,
    /// Pause between an answer and the next request.
    pub think: Duration,
    /// Pause after a rejection or a failure instead.
    pub after_reject: Duration,
    /// What a `Retry-After` does to that pause.
    pub retry_after: RetryAfter,
}

/// What a user makes of the `Retry-After` of a rejection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// Nothing, like a user who presses reload.
    #[default]
    Ignore,
    /// Waits for as long as the service asks.
    Honour,
}

/// A stream of requests at a given rate.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// Requests a second, over time.
    pub rate: Schedule,
    /// How they follow one another.
    pub spacing: Spacing,
    /// Connections open at once, at most. A request that finds all of them in
    /// use is not sent, and counted as such. By default as many as the
    /// descriptor limit allows, up to 10,000.
    pub connections_max: Option<usize>,
}

impl Workload {
    /// The number of users, or the rate, over time.
    pub fn schedule(&self) -> &Schedule {
        match self {
            Self::Closed(closed) => &closed.users,
            Self::Open(open) => &open.rate,
        }
    }
}

impl ClosedLoop {
    /// The highest number of users at any time.
    pub(crate) fn users_max(&self) -> usize {
        self.users.level_max().ceil() as usize
    }
}
