//! In which order a queue is served.

use std::time::Duration;

use super::{Order, Waiting};
use crate::Timestamp;

/// Orders the queue of a stage, as far as the stage's discipline leaves it open.
pub trait QueueOrder {
    /// Which end of the queue to serve. `head_age` is how long the oldest event has waited.
    fn order(&self, _head_age: Duration) -> Order {
        Order::OldestFirst
    }

    /// When a queued event is due, in a stage that serves its queue in order of due times.
    /// By default that is the order of arrival.
    fn due(&self, waiting: &Waiting) -> Timestamp {
        waiting.entered
    }
}
