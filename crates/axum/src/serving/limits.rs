//! Limits on connections, and timeouts for slow clients.

use std::time::Duration;

use tamarisk_http_gate::{HEAD_TIME, PatienceLimits, open_files_max};

/// Limits on connections, and timeouts for slow clients: the defaults of `tamarisk-server`.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// How many connections may be open at once.
    pub(crate) connections_max: usize,
    /// The longest time until a connection's first byte, and from a head's first byte to its last.
    pub(crate) head_time: Duration,
    /// The longest time between requests.
    pub(crate) idle_time: Duration,
    /// How long the client is waited for while no byte of a request's body, or of an answer, moves.
    pub(crate) patience: PatienceLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A handler may need a descriptor of its own for each connection.
            connections_max: open_files_max().saturating_sub(64) / 2,
            head_time: HEAD_TIME,
            // nginx's default; browsers close theirs earlier.
            idle_time: Duration::from_secs(75),
            patience: PatienceLimits::default(),
        }
    }
}
