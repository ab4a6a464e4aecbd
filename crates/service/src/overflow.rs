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

    /// It in a line beside `other`: its URL or, if both have the same, what else differs.
    pub fn beside(&self, other: Option<&Self>) -> String {
        let Some(other) = other.filter(|other| other.origin == self.origin) else {
            return self.origin.to_string();
        };
        let differs = self.values().into_iter().zip(other.values());
        let differs = differs.filter(|(own, others)| own != others);
        let differs = differs.map(|((key, value), _)| format!("{key} {value}"));
        differs.collect::<Vec<_>>().join(", ")
    }

    /// What a file says of it besides its URL.
    fn values(&self) -> [(&'static str, String); 4] {
        [
            ("host", shown_host(&self.host_header).unwrap_or_default()),
            ("limit", self.limit.to_string()),
            ("connect_time", format!("{:?}", self.connect_time)),
            ("answer_time", format!("{:?}", self.answer_time)),
        ]
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

/// A gate for the overflow of what is behind `gate`. It needs no law: it has no queue, and its
/// workers are its bound.
fn gate_beside(gate: &Gate) -> Result<Gate, BuildError> {
    let beside = StageBuilder::new(overflow_name(gate.name())).classes(gate.classes());
    beside.workers_between(1..=LIMIT_MAX).gate()
}

/// A `host` as a file has it.
pub(crate) fn shown_host(host: &HostHeader) -> Option<String> {
    match host {
        HostHeader::Client => Some("client".to_owned()),
        HostHeader::Upstream => Some("upstream".to_owned()),
        HostHeader::Fixed(host) => host.to_str().ok().map(str::to_owned),
        _ => None,
    }
}

/// What the overflow of the upstream of this name is called. No upstream is: names have no spaces.
fn overflow_name(upstream: &str) -> String {
    format!("{upstream} overflow")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_told_apart_by_their_urls_or_by_what_else_differs() {
        let at = |url: &str| OverflowOptions::new(url.parse().unwrap());
        let (one, two) = (at("http://a:1"), at("http://a:2"));
        assert_eq!(one.beside(None), "http://a:1");
        assert_eq!(two.beside(Some(&one)), "http://a:2");
        let mut other = one.clone();
        other.limit = Concurrency::new(1);
        other.answer_time = Duration::from_millis(300);
        assert_eq!(other.beside(Some(&one)), "limit 1, answer_time 300ms");
        assert_eq!(one.beside(Some(&other)), "limit 64, answer_time 2s");
    }
}
