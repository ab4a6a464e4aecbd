//! What a law answers.

use std::time::Duration;

/// The answer to an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Admit it.
    Admit,
    /// Reject it now.
    Reject(Rejection),
}

/// The answer to an event that is next to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dequeue {
    /// Work on it.
    Run,
    /// Drop it: it would come too late.
    Drop,
}

/// Which end of the queue is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// First in, first out.
    OldestFirst,
    /// Last in, first out: under overload the newest still have time left.
    NewestFirst,
}

/// Which rule rejects an event, and when a retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which rule rejects.
    pub reason: Reason,
    /// After how long the same event may be admitted, if that can be predicted.
    pub retry_after: Option<Duration>,
}

impl Rejection {
    /// A rejection that cannot say when to retry.
    pub const fn new(reason: Reason) -> Self {
        Self { reason, retry_after: None }
    }

    /// The same rejection with the time after which to retry.
    #[must_use]
    pub const fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

/// Which rule rejected an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No token is left: the admission rate is used up.
    RateExceeded,
    /// A fixed bound on the queue's length was reached.
    QueueFull,
    /// The event would miss its target or its deadline.
    PredictedLate,
    /// Overloaded: a queue has stood for too long and is being cleared.
    StandingQueue,
    /// The law's limit on events in the stage was reached.
    ConcurrencyLimit,
    /// The load leaves room for higher priorities only.
    PriorityCutoff,
    /// Its client or class has had more than its share of the capacity.
    ShareExceeded,
    /// Rejected at random, as a share of all is before a bound is reached.
    Random,
    /// The stage's own predicate rejected it.
    Predicate,
    /// The stage is draining and takes nothing new.
    Draining,
    /// The stage has been destroyed.
    Closed,
    /// A resource that the stage is bound by is scarce.
    ResourceScarce,
}

impl Reason {
    /// All of them. New ones are added at the end: traces name them by their place.
    pub const ALL: [Self; 12] = [
        Self::RateExceeded,
        Self::QueueFull,
        Self::PredictedLate,
        Self::StandingQueue,
        Self::ConcurrencyLimit,
        Self::PriorityCutoff,
        Self::ShareExceeded,
        Self::Random,
        Self::Predicate,
        Self::Draining,
        Self::Closed,
        Self::ResourceScarce,
    ];

    /// Snake case, for metrics and status pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateExceeded => "rate_exceeded",
            Self::QueueFull => "queue_full",
            Self::PredictedLate => "predicted_late",
            Self::StandingQueue => "standing_queue",
            Self::ConcurrencyLimit => "concurrency_limit",
            Self::PriorityCutoff => "priority_cutoff",
            Self::ShareExceeded => "share_exceeded",
            Self::Random => "random",
            Self::Predicate => "predicate",
            Self::Draining => "draining",
            Self::Closed => "closed",
            Self::ResourceScarce => "resource_scarce",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::RateExceeded => "admission rate exceeded",
            Self::QueueFull => "queue full",
            Self::PredictedLate => "response would be too late",
            Self::StandingQueue => "overloaded",
            Self::ConcurrencyLimit => "concurrency limit reached",
            Self::PriorityCutoff => "overloaded; only higher priorities are admitted",
            Self::ShareExceeded => "client or class exceeded its share",
            Self::Random => "rejected at random to prevent overload",
            Self::Predicate => "rejected by the stage's predicate",
            Self::Draining => "the stage is draining",
            Self::Closed => "the stage is closed",
            Self::ResourceScarce => "memory, descriptors or processor time is scarce",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_listed_in_its_place() {
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
        assert_eq!(Reason::ResourceScarce as usize, Reason::ALL.len() - 1, "the last one");
    }
}
