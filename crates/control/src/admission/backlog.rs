//! What is in a stage.

use crate::Concurrency;

/// What is in the stage at this instant, counted by the stage itself.
#[derive(Clone, Copy, Debug)]
pub struct Backlog<'a> {
    /// Events in the queue, for each class.
    pub queued: &'a [u32],
    /// Events being worked on, for each class.
    pub running: &'a [u32],
    /// Events in the queue, of all classes.
    pub queued_total: u32,
    /// Events being worked on, of all classes.
    pub running_total: u32,
    /// How many can be worked on at once.
    pub workers: Concurrency,
}

impl Backlog<'_> {
    /// Whether an event that arrives now would be worked on at once.
    #[inline]
    pub fn has_idle_worker(&self) -> bool {
        self.queued_total == 0 && self.running_total < self.workers.get()
    }
}
