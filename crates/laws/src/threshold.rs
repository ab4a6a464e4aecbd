//! Drop-tail: a fixed bound on the queue length.
//!
//! **Intuition.** A waiting room with so many chairs; who finds none goes home.
//!
//! **Why it is not enough.** A length is not a time. A hundred chairs are a
//! moment with fast service and an hour with slow service, and a room that is
//! always full makes everybody wait for its whole length: throughput is kept, and
//! response times are what the length makes of them. The number that suits
//! depends on the service, and stops to suit when the service changes.
//!
//! **Mechanism.** An arrival that no worker is free for is rejected if `limit`
//! events are queued. [Welsh03 §3.2] names it as an alternative to the token bucket.

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Decision, Reading, Reason, Rejection, Timestamp,
};

use crate::constants::constants;

constants! {
    /// Of [`Threshold`].
    pub(crate) struct ThresholdConstants {
        /// events in the queue at most
        queued_count: u32 = 100.0 in 0.0..=1e6,
    }
}

/// Admits while fewer than a fixed number are queued.
#[derive(Clone, Debug)]
pub struct Threshold {
    limit: u32,
}

impl Threshold {
    /// At most `limit` events in the queue; with zero, only what a worker is
    /// free for is admitted.
    pub const fn new(limit: u32) -> Self {
        Self { limit }
    }
}

impl AdmissionLaw for Threshold {
    fn name(&self) -> &'static str {
        "threshold"
    }

    #[inline]
    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        if backlog.has_idle_worker() || backlog.queued_total < self.limit {
            Decision::Admit
        } else {
            Decision::Reject(Rejection::new(Reason::QueueFull))
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "queue_limit_count", class: None, value: f64::from(self.limit) });
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{ClassId, Concurrency};

    use super::*;

    fn decide(limit: u32, queued: u32, running: u32) -> Decision {
        let backlog = Backlog {
            queued: &[queued],
            running: &[running],
            queued_total: queued,
            running_total: running,
            workers: Concurrency::new(2),
        };
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
        Threshold::new(limit).on_arrival(Timestamp::ZERO, &arrival, &backlog)
    }

    #[test]
    fn the_last_chair_is_taken_and_the_next_event_is_rejected() {
        assert_eq!(decide(3, 2, 2), Decision::Admit);
        assert_eq!(decide(3, 3, 2), Decision::Reject(Rejection::new(Reason::QueueFull)));
    }

    #[test]
    fn without_a_queue_only_a_free_worker_admits() {
        assert_eq!(decide(0, 0, 1), Decision::Admit);
        assert_eq!(decide(0, 0, 2), Decision::Reject(Rejection::new(Reason::QueueFull)));
    }
}
