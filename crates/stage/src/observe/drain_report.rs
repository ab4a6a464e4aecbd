//! What a drain has left.

/// What a drain finished and what it cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// The stage.
    pub stage: String,
    /// Events that completed or failed while it drained.
    pub finished: u64,
    /// Events taken out before they began: too late, or cut.
    pub dropped: u64,
    /// Events ended while they ran: overdue, or cut.
    pub terminated: u64,
    /// Events whose callers left while it drained.
    pub abandoned: u64,
    /// Events that still ran when it closed: they could not be ended.
    pub left: u64,
}

impl DrainReport {
    /// Whether every event came to its own end.
    pub fn is_clean(&self) -> bool {
        self.dropped + self.terminated + self.left == 0
    }
}
