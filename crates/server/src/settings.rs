//! What the connections of a core have in common, and how each of them counts and ends.

use std::sync::Arc;
use std::time::Duration;

use super::{Drain, Server};
use crate::guard::Limits;
use crate::idle_queue::IdleQueue;
use crate::rejected::Counts;
use crate::rejection_backoff::RejectionBackoff;
use crate::send_memory::ServerMemory;
use crate::tls::Handshakes;

/// How the connections of a core are served.
pub(crate) struct ConnectionSettings {
    pub(crate) tls: Option<Handshakes>,
    pub(crate) limits: Limits,
    pub(crate) idle_time: Duration,
    pub(crate) backoff: RejectionBackoff,
    pub(crate) rejected: Arc<Counts>,
    pub(crate) memory: ServerMemory,
    pub(crate) idle: IdleQueue,
    pub(crate) drain: Drain,
    /// Whether connections may wait without a task.
    pub(crate) may_idle: bool,
}

impl ConnectionSettings {
    /// Those of `server`, where connections are served to their ends.
    pub(crate) fn of(server: &Server, backoff: RejectionBackoff, drain: Drain) -> Self {
        let Server { tls, limits, idle_time, rejected, memory, .. } = server.clone();
        let idle = IdleQueue::default();
        Self { tls, limits, idle_time, backoff, rejected, memory, idle, drain, may_idle: false }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was done, or broke.
    ByItself,
    /// It was still busy when the time to drain was over.
    CutOff,
}
