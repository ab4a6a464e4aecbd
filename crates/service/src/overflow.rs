//! The overflow of an upstream: its options, and starting it.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::Concurrency;
use tamarisk_proxy::{HostHeader, Origin, Upstream};
use tamarisk_stage::{BuildError, Gate, StageBuilder};

/// As many as other stages have workers at most.
pub(crate) const LIMIT_MAX: u32 = 32_768;

/// A service that gets what the stage of another one rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverflowOptions {
    /// Where it listens.
    pub origin: Origin,
    /// Which `Host` it is told.
    pub host_header: HostHeader,
    /// The most requests in flight to it.
    pub limit: Concurrency,
    /// The longest wait for a connection.
    pub connect_time: Duration,
    /// The longest wait for the head of an answer.
    pub answer_time: Duration,
}

impl OverflowOptions {
    /// At most 64 requests in flight; 1 s to connect, 2 s to answer. Who is rejected in the end
    /// has waited for no longer than that.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            host_header: HostHeader::default(),
            // Less than a web server has connections, and enough for thousands of short answers a second.
            limit: Concurrency::new(64),
            connect_time: Duration::from_secs(1),
            answer_time: Duration::from_secs(2),
        }
    }

    /// Makes it the overflow of `upstream`. One that was there leaves its accounts to it, and requests
    /// under way go on.
    pub(crate) fn install(&self, upstream: &Upstream) -> Result<(), BuildError> {
        let gate = match upstream.overflow() {
            Some(overflow) => overflow.gate().clone(),
            None => gate_beside(upstream.gate())?,
        };
        gate.set_workers(self.limit);
        let overflow = Upstream::new(&self.origin, gate)
            .takes_overflow()
            .host_header(self.host_header.clone())
            .connect_time(self.connect_time)
            .answer_time(self.answer_time);
        upstream.set_overflow(Some(Arc::new(overflow)));
        Ok(())
    }
}

/// A gate for the overflow of what is behind `gate`. It needs no law: nobody waits at it, and its
/// workers are its bound.
fn gate_beside(gate: &Gate) -> Result<Gate, BuildError> {
    let beside = StageBuilder::new(overflow_name(gate.name())).classes(gate.classes());
    beside.workers_between(1..=LIMIT_MAX).gate()
}

/// What the overflow of the upstream of this name is called. No upstream is: names have no spaces.
fn overflow_name(upstream: &str) -> String {
    format!("{upstream} overflow")
}
