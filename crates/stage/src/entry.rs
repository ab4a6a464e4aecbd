//! What a sender states of an event: class, deadline, cost, flow and kind.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use tamarisk_control::{ClassId, Timestamp};

/// Class, deadline, cost, flow and kind of an event; all optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub(crate) requested: Option<Timestamp>,
    pub(crate) class: ClassId,
    pub(crate) due: Deadline,
    pub(crate) cost: u32,
    pub(crate) flow: u64,
    pub(crate) kind: u64,
}

/// When an answer stops being of use, as its sender states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Deadline {
    #[default]
    Never,
    At(Timestamp),
    Within(Duration),
    /// At the instant or after the time, whichever is earlier.
    Earlier(Timestamp, Duration),
}

impl Deadline {
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Never => Timestamp::MAX,
            Self::At(instant) => instant,
            Self::Within(timeout) => now + timeout,
            Self::Earlier(instant, timeout) => instant.min(now + timeout),
        }
    }

    fn at_most(self, timeout: Duration) -> Self {
        match self {
            Self::Never => Self::Within(timeout),
            Self::At(instant) => Self::Earlier(instant, timeout),
            Self::Within(before) => Self::Within(before.min(timeout)),
            Self::Earlier(instant, before) => Self::Earlier(instant, before.min(timeout)),
        }
    }
}

impl Entry {
    /// The default class, no deadline, cost 1, flow 0, kind 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The class: it has the target and the priority.
    #[must_use]
    pub fn class(mut self, class: ClassId) -> Self {
        self.class = class;
        self
    }

    /// When its request entered the service, on the stage's clock: the start of the response
    /// times of stages that are [measured from](crate::StageBuilder::measured_from) there. By
    /// default when the event enters the stage; what a handler sends on by its
    /// [`Context`](crate::Context) has it from its own event.
    #[must_use]
    pub fn requested(mut self, at: Timestamp) -> Self {
        self.requested = Some(at);
        self
    }

    /// The instant, on the stage's clock, after which the event is of no use.
    #[must_use]
    pub fn deadline(mut self, deadline: Timestamp) -> Self {
        self.due = Deadline::At(deadline);
        self
    }

    /// The same as a time from now.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.due = Deadline::Within(timeout);
        self
    }

    /// The same, but an earlier deadline or timeout that is set already stays: for a timeout that
    /// a client asks for, which must not extend the operator's.
    #[must_use]
    pub fn timeout_at_most(mut self, timeout: Duration) -> Self {
        self.due = self.due.at_most(timeout);
        self
    }

    /// How much work it is, in any unit: what shortest-first sorts by and what
    /// a flow is charged in a fair queue. Zero counts as one.
    #[must_use]
    pub fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Whom it belongs to (a client, a session, an account): fair queues share
    /// by it, and partitioned stages keep the order of events of one key.
    #[must_use]
    pub fn flow(mut self, key: impl Hash) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        key.hash(&mut hasher);
        self.flow = hasher.finish();
        self
    }

    /// The same where none is stated yet: for what knows the address of a client, below what knows
    /// its account.
    #[must_use]
    pub fn flow_or(self, key: impl Hash) -> Self {
        if self.flow == 0 { self.flow(key) } else { self }
    }

    /// What kind of work it is: events of one kind take about as long, and laws learn how
    /// long that is. 0 is not known.
    #[must_use]
    pub fn kind(mut self, kind: u64) -> Self {
        self.kind = kind;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_at_most_shortens_and_never_extends() {
        let now = Timestamp::from_nanos(1_000);
        let nanos = Duration::from_nanos;
        let check = |entry: Entry, expected| {
            assert_eq!(entry.due.resolve(now), Timestamp::from_nanos(expected), "{entry:?}");
        };
        let (none, at) = (Entry::new(), Entry::new().deadline(Timestamp::from_nanos(1_050)));
        let within = none.timeout(nanos(50));
        check(none.timeout_at_most(nanos(70)), 1_070);
        check(within.timeout_at_most(nanos(70)), 1_050);
        check(within.timeout_at_most(nanos(20)), 1_020);
        check(at.timeout_at_most(nanos(70)), 1_050);
        check(at.timeout_at_most(nanos(20)), 1_020);
        check(at.timeout_at_most(nanos(20)).timeout_at_most(nanos(30)), 1_020);
        check(at.timeout_at_most(Duration::MAX), 1_050);
        check(at.timeout_at_most(Duration::ZERO), 1_000);
        // A timeout that is set replaces what was there.
        check(at.timeout_at_most(nanos(20)).timeout(nanos(70)), 1_070);
    }
}
