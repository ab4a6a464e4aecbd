//! What an operator is told of the stages while they run.

mod out_of_reach;
mod overload;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tamarisk_proxy::Upstream;
use tamarisk_stage::StageObservation;
use tokio::time::Instant;

use self::out_of_reach::OutOfReach;
pub(crate) use self::overload::EVERY;
use self::overload::{Failures, Overload};

/// What has been seen of all stages.
#[derive(Default)]
pub(crate) struct Watch {
    stages: HashMap<String, Seen>,
    out_of_reach: OutOfReach,
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
            if let Some(message) = seen.overload.look(now, stage) {
                message.log(&stage.name);
            }
            if let Some(message) = seen.failures.look(now, stage) {
                message.log(&stage.name);
            }
        }
        for message in self.out_of_reach.look(now, stages, |name| slowest(upstreams, name)) {
            tracing::warn!("{message}");
        }
    }
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
