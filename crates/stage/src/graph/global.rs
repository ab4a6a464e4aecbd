//! A law over the whole graph: the governor that samples the stages and applies its targets.
//!
//! Sinks ask it about each event that comes from outside ([`SharedGlobalLaw`]). The graph's own
//! governor gives it the time, gathers what has happened at the stages and on the edges,
//! and gives the stages the targets that the law finds ([`GlobalGovernor`]).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::global::{GraphSample, Share, StageSample, Times};
use tamarisk_control::{ClassId, Concurrency, Ratio, Reading, Target, Timestamp};

use super::node::{Counts, ErasedNode, NodeId};
use super::topology::{Edge, Topology};
use crate::core::Governed;
use crate::observe::{ClassObservation, EdgeCounters, LawReading, Percentiles, StageObservation};
use crate::sink::SharedGlobalLaw;

/// What a global law has found.
#[derive(Clone, Debug)]
pub struct GlobalObservation {
    /// Its name.
    pub law: &'static str,
    /// Its estimates.
    pub readings: Vec<LawReading>,
    /// What falls to each stage, in the order in which they were declared; `None` as long
    /// as that is not known. The targets of a stage stand in its own observation.
    pub shares: Vec<Option<Share>>,
}

impl GlobalObservation {
    pub(super) fn of(global_law: &SharedGlobalLaw, stages: usize) -> Self {
        let law = global_law.law();
        let mut readings = Vec::new();
        law.readings(&mut |reading: Reading<'_>| {
            let (name, value) = (reading.name.to_owned(), reading.value);
            readings.push(LawReading { name, class: None, value });
        });
        let shares = (0..stages).map(|stage| law.share(stage)).collect();
        Self { law: law.name(), readings, shares }
    }
}

/// The graph as its governor sees it.
pub(super) struct GlobalGovernor {
    global_law: Arc<SharedGlobalLaw>,
    topology: Arc<Mutex<Topology>>,
    /// What had happened when the last sample ended.
    last: Mutex<Option<Totals>>,
}

/// What has happened since the graph was made.
struct Totals {
    at: Timestamp,
    stages: Vec<(NodeId, Counts)>,
    edges: Vec<EdgeTotals>,
}

/// What has crossed an edge.
struct EdgeTotals {
    from: usize,
    to: usize,
    /// The stage at `to`.
    receiver: NodeId,
    counters: Arc<EdgeCounters>,
    taken: u64,
    rejected: u64,
}

impl GlobalGovernor {
    pub(super) fn new(global_law: Arc<SharedGlobalLaw>, topology: Arc<Mutex<Topology>>) -> Self {
        Self { global_law, topology, last: Mutex::new(None) }
    }

    fn end_sample(&self, now: Timestamp, before: &Totals) -> Totals {
        // Stages are asked without the graph's lock, which handlers may want.
        let Topology { nodes, edges } = self.topology.lock().clone();
        let observed: Vec<_> = nodes.iter().map(|node| node.observe()).collect();
        let totals = Totals::of(now, &nodes, &observed, &edges);
        let stages: Vec<_> = nodes
            .iter()
            .zip(&observed)
            .map(|(node, stage)| totals.sample(before, &**node, stage))
            .collect();
        let edges = totals.flows(before);
        let lasted = now.since(before.at);

        let mut law = self.global_law.law();
        if totals.are_of_other_stages(before) {
            law.stages_changed();
        }
        law.on_sample(&GraphSample { lasted, stages: &stages, edges: &edges });
        let wanted: Vec<_> = observed
            .iter()
            .enumerate()
            .map(|(index, stage)| {
                (changes(stage, |class| law.target(index, class)), law.throughput(index))
            })
            .collect();
        drop(law);
        for (node, (targets, throughput)) in nodes.iter().zip(wanted) {
            if !targets.is_empty() {
                node.set_targets(&targets);
            }
            if let Some(throughput) = throughput {
                node.set_throughput(throughput);
            }
        }
        totals
    }
}

impl Governed for GlobalGovernor {
    fn tick(&self, _cpu: Option<Ratio>) {
        let nodes = self.topology.lock().nodes.clone();
        let Some(now) = nodes.first().map(|node| node.now()) else { return };
        let inside = nodes.iter().map(|node| node.inside()).sum();
        let period = {
            let mut law = self.global_law.law();
            law.on_tick(now, inside);
            law.period()
        };
        let mut last = self.last.lock();
        let before = last.get_or_insert_with(|| Totals::none(now));
        if now.since(before.at) >= period {
            *before = self.end_sample(now, before);
        }
    }
}

impl Totals {
    fn none(at: Timestamp) -> Self {
        Self { at, stages: Vec::new(), edges: Vec::new() }
    }

    fn of(
        at: Timestamp,
        nodes: &[Arc<dyn ErasedNode>],
        observed: &[StageObservation],
        edges: &[Edge],
    ) -> Self {
        let edge = |edge: &Edge| {
            let counters = Arc::clone(&edge.counters);
            let ((taken, rejected), receiver) = (counters.counts(), nodes[edge.to].id());
            EdgeTotals { from: edge.from, to: edge.to, receiver, counters, taken, rejected }
        };
        let stages = nodes.iter().zip(observed);
        Self {
            at,
            stages: stages.map(|(node, stage)| (node.id(), Counts::of(stage))).collect(),
            edges: edges.iter().map(edge).collect(),
        }
    }

    /// Whether positions mean other stages than before, but for new ones at the end.
    fn are_of_other_stages(&self, before: &Self) -> bool {
        let ids = |totals: &Self| totals.stages.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        !ids(self).starts_with(&ids(before))
    }

    fn sample(
        &self,
        before: &Self,
        node: &dyn ErasedNode,
        stage: &StageObservation,
    ) -> StageSample {
        let known = before.stages.iter().find(|(id, _)| *id == node.id());
        let past = known.map_or_else(|| node.joined(), |(_, counts)| *counts);
        let now = Counts::of(stage);
        // An edge counts a moment after its stage has.
        let entered =
            (now.admitted - past.admitted).saturating_sub(self.sent_within(before, node.id()));
        StageSample {
            entered,
            processed: now.ended - past.ended,
            workers: Concurrency::new(stage.workers),
            service: times(stage, |class| class.service),
            response: times(stage, |class| class.response),
        }
    }

    /// How many events a stage has taken from others since `before`, those included whose edge is
    /// gone.
    fn sent_within(&self, before: &Self, receiver: NodeId) -> u64 {
        let taken_before =
            |counters| before.edge(counters).map_or(0, |edge: &EdgeTotals| edge.taken);
        let now = self.edges.iter().filter(|edge| edge.receiver == receiver);
        let now = now.map(|edge| edge.taken.saturating_sub(taken_before(&edge.counters)));
        let gone = before
            .edges
            .iter()
            .filter(|edge| edge.receiver == receiver && self.edge(&edge.counters).is_none());
        let gone = gone.map(|edge| edge.counters.counts().0.saturating_sub(edge.taken));
        now.chain(gone).sum()
    }

    fn edge(&self, counters: &Arc<EdgeCounters>) -> Option<&EdgeTotals> {
        self.edges.iter().find(|edge| Arc::ptr_eq(&edge.counters, counters))
    }

    /// What was sent on each edge since `before`.
    fn flows(&self, before: &Self) -> Vec<(usize, usize, f64)> {
        let flow = |edge: &EdgeTotals| {
            let past = before.edge(&edge.counters).map_or(0, |past| past.taken + past.rejected);
            let sent = (edge.taken + edge.rejected).saturating_sub(past);
            (edge.from, edge.to, sent as f64)
        };
        self.edges.iter().map(flow).collect()
    }
}

/// The targets of a stage that are to be others.
fn changes(
    stage: &StageObservation,
    wanted: impl Fn(ClassId) -> Option<Target>,
) -> Vec<(ClassId, Target)> {
    let classes = stage.classes.iter().enumerate();
    let change = |(index, class): (usize, &ClassObservation)| {
        let id = ClassId::new(index);
        let target = wanted(id)?;
        let is_new = target.response_time() != class.target || target.at() != class.percentile;
        is_new.then_some((id, target))
    };
    classes.filter_map(change).collect()
}

/// The times of all classes together, each percentile by how many it speaks of.
fn times(
    stage: &StageObservation,
    of: impl Fn(&ClassObservation) -> Option<Percentiles>,
) -> Option<Times> {
    let seen = || stage.classes.iter().filter_map(|class| Some((class, of(class)?)));
    let count: u64 = seen().map(|(_, times)| times.count).sum();
    let count = u32::try_from(count).ok().filter(|&count| count > 0)?;
    let weighted = |time: fn(&ClassObservation, &Percentiles) -> Duration| {
        let all = seen().map(|(class, times)| {
            time(class, &times).saturating_mul(u32::try_from(times.count).unwrap_or(u32::MAX))
        });
        all.fold(Duration::ZERO, Duration::saturating_add) / count
    };
    let percentile = |class: &ClassObservation, times: &Percentiles| match class.percentile.get() {
        at if at <= 0.5 => times.p50,
        at if at <= 0.9 => times.p90,
        _ => times.p99,
    };
    Some(Times { mean: weighted(|_, times| times.mean), percentile: weighted(percentile) })
}
