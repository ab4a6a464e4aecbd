//! Watches the stages and logs overloads, failures and lost upstreams.

mod episode;
mod out_of_reach;
mod overload;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tamarisk_control::Reason;
use tamarisk_observe::incident::{CALM, Change, Incident};
use tamarisk_proxy::Upstream;
use tamarisk_server::Rejected;
use tamarisk_stage::StageObservation;
use tokio::time::Instant;

pub(crate) use self::episode::EVERY;
use self::out_of_reach::OutOfReach;
use self::overload::{Failures, Named, Overload};
use super::counted;

/// What has been seen of all stages.
#[derive(Default)]
pub(crate) struct Watch {
    stages: HashMap<String, Seen>,
    out_of_reach: OutOfReach,
    lines: Losses,
    connections: Losses,
}

/// What is lost: lines of the access log, connections.
struct Losses {
    /// How many there were at the last look.
    total: u64,
    incident: Incident,
}

impl Default for Losses {
    fn default() -> Self {
        Self { total: 0, incident: Incident::ending_after(CALM) }
    }
}

impl Losses {
    fn look(&mut self, now: Instant, total: u64) -> Option<Change> {
        // Another log counts from zero.
        let new = total.saturating_sub(std::mem::replace(&mut self.total, total));
        self.incident.look(now, new)
    }
}

#[derive(Default)]
struct Seen {
    overload: Overload,
    failures: Failures,
}

impl Watch {
    /// Logs what has begun and ended since the last look.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        stages: &[StageObservation],
        upstreams: &[Arc<Upstream>],
    ) {
        let names: HashSet<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        self.stages.retain(|name, _| names.contains(name.as_str()));
        for stage in stages {
            let seen = self.stages.entry(stage.name.clone()).or_default();
            let without_overdue = without_overdue(stage, upstreams);
            let named = named(stage, upstreams);
            let overload = seen.overload.look(now, &without_overdue, &named);
            let failures = seen.failures.look(now, stage, &named);
            overload.iter().chain(&failures).for_each(|message| message.log(&stage.name));
        }
        for message in self.out_of_reach.look(now, stages, |name| slowest(upstreams, name)) {
            tracing::warn!("{message}");
        }
    }

    /// Logs when lines of the access log (`lines` in total so far) begin to be lost and
    /// when that has ended, and the same of connections that are turned away.
    pub(crate) fn look_at_losses(&mut self, now: Instant, lines: u64, rejected: Rejected) {
        match self.lines.look(now, lines) {
            Some(Change::Begins { count }) => tracing::warn!(
                count,
                "Access log: {} lost; the disk is full or cannot follow.",
                counted(count as usize, "line")
            ),
            Some(Change::Holds { count, after }) => tracing::warn!(
                count,
                "Access log: lines are still lost; {} in {:.0} s.",
                counted(count as usize, "line"),
                after.as_secs_f64()
            ),
            Some(Change::Ends { count, lasted, .. }) => tracing::info!(
                count,
                "Access log: no more lines are lost; {} lost in {:.0} s.",
                counted(count as usize, "line"),
                (lasted + EVERY).as_secs_f64()
            ),
            _ => {}
        }
        match self.connections.look(now, rejected.turned_away) {
            Some(Change::Begins { count }) => tracing::warn!(
                count,
                "Connections are turned away: {count} so far; the limit of connections or of open \
                 files is reached."
            ),
            Some(Change::Holds { count, after }) => tracing::warn!(
                count,
                "Connections are still turned away; {count} in {:.0} s.",
                after.as_secs_f64()
            ),
            Some(Change::Ends { count, lasted, .. }) => tracing::info!(
                count,
                "Connections are no longer turned away; {count} were in {:.0} s.",
                (lasted + EVERY).as_secs_f64()
            ),
            _ => {}
        }
    }
}

/// How lines speak of `stage`. What it rejects gets a 503, unless it is for handshakes, or has an
/// overflow.
fn named(stage: &StageObservation, upstreams: &[Arc<Upstream>]) -> Named {
    let of_upstream = upstreams.iter().find(|upstream| upstream.gate().name() == stage.name);
    match of_upstream {
        Some(upstream) if upstream.overflow().is_none() => {
            Named { name: upstream.shown().to_owned(), rejected: "got 503" }
        }
        Some(upstream) => Named { name: upstream.shown().to_owned(), rejected: "were rejected" },
        None => Named { name: format!("{:?}", stage.name), rejected: "were rejected" },
    }
}

/// What would be seen of `stage` without the requests that left no time for an answer: that they
/// are rejected is no overload.
fn without_overdue(stage: &StageObservation, upstreams: &[Arc<Upstream>]) -> StageObservation {
    let mut stage = stage.clone();
    let upstream = upstreams.iter().find(|upstream| upstream.gate().name() == stage.name);
    let overdue = upstream.map(|upstream| upstream.came_overdue()).unwrap_or_default();
    for (class, overdue) in stage.classes.iter_mut().zip(&overdue) {
        let accounts = &mut class.accounts;
        // Such a request is counted here before it is rejected.
        accounts.offered = accounts.offered.saturating_sub(*overdue);
        accounts.rejected = accounts.rejected.saturating_sub(*overdue);
    }
    if let Some(late) = stage.rejections.get_mut(&Reason::PredictedLate) {
        *late = late.saturating_sub(overdue.iter().sum());
    }
    stage
}

/// The kinds of requests to an upstream that take longest beside their target, at best.
fn slowest(upstreams: &[Arc<Upstream>], name: &str) -> Vec<String> {
    /// More are no help in a line.
    const SHOWN: usize = 3;
    let Some(upstream) = upstreams.iter().find(|upstream| upstream.gate().name() == name) else {
        return Vec::new();
    };
    let classes = upstream.gate().classes();
    let late = upstream.kind_times().into_iter().filter_map(|kind| {
        let target = classes.at(kind.class).target.response_time();
        (kind.least > target).then_some((kind.least, kind.example))
    });
    let mut late: Vec<_> = late.collect();
    late.sort_unstable_by(|a, b| b.cmp(a));
    let shown = late.into_iter().take(SHOWN);
    shown.map(|(least, example)| format!("{example:?} ({:.2} s)", least.as_secs_f64())).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    use tamarisk_control::Target;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_request_that_leaves_no_time_is_no_overload() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let target = Target::p90(Duration::from_secs(10)).unwrap();
        let options = tamarisk_protect::Options::single(listen, origin, target);
        let running = tamarisk_protect::start(options).await.unwrap();
        let mut overload = Overload::default();
        let mut look = || {
            let seen = running.observe();
            let stage = without_overdue(&seen[0], running.upstreams());
            let named = named(&stage, running.upstreams());
            (seen[0].total().rejected, overload.look(Instant::now(), &stage, &named))
        };
        assert_eq!(look(), (0, None));
        let mut client = TcpStream::connect(running.local_addr()).await.unwrap();
        let request =
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout: 0\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(look(), (1, None));
        running.shutdown(Duration::ZERO).await;
    }
}
