//! Clients with their names resolved.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Ratio};

use super::request_type::RequestType;
use super::{FLOWS_MAX, class_named, stage_named};
use crate::sim::plan::client::{Client, Heed, Load, Retry, TraceArrival};
use crate::sim::plan::distribution::{Distribution, InvalidDistribution, Sampler, Shares, add_up};
use crate::sim::plan::invalid::ClientProblem;
use crate::sim::plan::profile::{Curve, Profile};
use crate::sim::plan::scenario::Scenario;
use crate::sim::plan::time::nanos;

/// Retries of one request.
const ATTEMPTS_MAX: u32 = 1000;

/// Requests of one page: more are a batch job.
const CALLS_MAX: u32 = 1000;

#[derive(Clone, Debug)]
pub(in crate::sim) struct ClientPlan {
    pub(in crate::sim) entry: u32,
    pub(in crate::sim) mix: Shares<RequestType>,
    pub(in crate::sim) load: LoadPlan,
    pub(in crate::sim) flow_first: u32,
    pub(in crate::sim) flows: u32,
    /// The share of the first flow, if it is not as the others.
    pub(in crate::sim) greedy: Option<f64>,
    pub(in crate::sim) retry: RetryPlan,
    pub(in crate::sim) patience: Option<u64>,
    pub(in crate::sim) leaves: Option<Sampler>,
    /// How many requests come at once, and are of use together.
    pub(in crate::sim) calls: u32,
    pub(in crate::sim) resend: Option<u64>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) enum LoadPlan {
    Open(RenewalProcess),
    Sessions { starts: RenewalProcess, stay: f64, think: Sampler },
    Closed { users: Box<[(u64, u32)]>, think: Sampler },
    Trace(Arc<[TraceArrival]>),
}

/// A renewal process on a clock that runs as fast as the rate says.
#[derive(Clone, Debug)]
pub(in crate::sim) struct RenewalProcess {
    pub(in crate::sim) rate: Curve,
    pub(in crate::sim) gaps: Sampler,
    /// One over the mean of the gaps.
    pub(in crate::sim) per_gap: f64,
    /// How many times as long as drawn gaps are at a rate that never changes.
    pub(in crate::sim) steady: Option<f64>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct RetryPlan {
    pub(in crate::sim) attempts_max: u32,
    pub(in crate::sim) pause: Sampler,
    pub(in crate::sim) growth: f64,
    pub(in crate::sim) pause_max: u64,
    pub(in crate::sim) heed: Heed,
}

impl ClientPlan {
    pub(super) fn new(
        client: &Client,
        scenario: &Scenario,
        request_types: &[RequestType],
        flow_first: u32,
    ) -> Result<Self, ClientProblem> {
        let entry = stage_named(&client.entry, scenario)
            .ok_or_else(|| ClientProblem::UnknownStage(client.entry.clone()))?;
        let load = LoadPlan::new(client, scenario.classes.len(), request_types)?;
        let flows = match &load {
            LoadPlan::Closed { users, .. } => {
                users.iter().map(|step| step.1).max().unwrap_or_default().max(1)
            }
            _ => client.flows,
        };
        if flows == 0 || flows > FLOWS_MAX {
            return Err(ClientProblem::Flows(flows));
        }
        if client.patience.is_some_and(|patience| patience.is_zero()) {
            return Err(ClientProblem::NoPatience);
        }
        let leaves = client.leaves.as_ref().map(Distribution::sampler).transpose();
        let leaves = leaves.map_err(ClientProblem::Leaves)?;
        let waits = matches!(load, LoadPlan::Sessions { .. } | LoadPlan::Closed { .. });
        if waits && leaves.is_some() {
            return Err(ClientProblem::Unleaving);
        }
        if client.resend.is_some_and(|after| after.is_zero())
            || client.resend.is_some() && !matches!(load, LoadPlan::Closed { .. })
        {
            return Err(ClientProblem::Resend);
        }
        if client.greedy.is_some() && (flows < 2 || !matches!(load, LoadPlan::Open(_))) {
            return Err(ClientProblem::Greedy);
        }
        let is_open = matches!(load, LoadPlan::Open(_));
        if client.calls == 0 || client.calls > CALLS_MAX || (client.calls > 1 && !is_open) {
            return Err(ClientProblem::Calls(client.calls));
        }
        Ok(Self {
            entry,
            mix: plan_mix(client, scenario, request_types)?,
            load,
            flow_first,
            flows,
            retry: RetryPlan::new(&client.retry)?,
            patience: client.patience.map(nanos),
            leaves,
            resend: client.resend.map(nanos),
            greedy: client.greedy.map(Ratio::get),
            calls: client.calls,
        })
    }
}

fn plan_mix(
    client: &Client,
    scenario: &Scenario,
    request_types: &[RequestType],
) -> Result<Shares<RequestType>, ClientProblem> {
    if client.mix.is_empty() {
        return Ok(Shares::new([(1.0, request_types[0])]));
    }
    let mut shares = Vec::new();
    for (name, share) in &client.mix {
        let kind = scenario.kinds.iter().position(|kind| kind.name == *name);
        let index = match kind {
            Some(kind) => Some(scenario.classes.len() + kind),
            None => class_named(name, &scenario.classes).map(ClassId::index),
        };
        let index = index.ok_or_else(|| ClientProblem::UnknownClass(name.clone()))?;
        shares.push((*share, request_types[index]));
    }
    let probabilities: Vec<f64> = shares.iter().map(|share| share.0).collect();
    add_up(&probabilities).map_err(ClientProblem::Shares)?;
    Ok(Shares::new(shares))
}

impl LoadPlan {
    fn new(
        client: &Client,
        classes: usize,
        request_types: &[RequestType],
    ) -> Result<Self, ClientProblem> {
        let sampler = |think: &Distribution| think.sampler().map_err(ClientProblem::Think);
        Ok(match &client.load {
            Load::Open { rate, gaps } => Self::Open(RenewalProcess::new(rate, gaps)?),
            Load::Sessions { rate, gaps, stay, think } => {
                if stay.get() >= 1.0 {
                    return Err(ClientProblem::NeverLeaves);
                }
                let starts = RenewalProcess::new(rate, gaps)?;
                Self::Sessions { starts, stay: stay.get(), think: sampler(think)? }
            }
            Load::Closed { users, think } => {
                let ordered = users.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if users.is_empty() || !ordered {
                    return Err(ClientProblem::Users);
                }
                let users = users.iter().map(|&(at, count)| (nanos(at), count)).collect();
                Self::Closed { users, think: sampler(think)? }
            }
            Load::Trace(arrivals) => {
                for (index, arrival) in arrivals.iter().enumerate() {
                    let ordered = index == 0 || arrivals[index - 1].at <= arrival.at;
                    let place = RequestType::place(arrival.class, arrival.kind, classes);
                    let known = request_types.get(place as usize);
                    let known = known.is_some_and(|known| known.class == arrival.class);
                    if !ordered || !known || arrival.flow >= client.flows {
                        return Err(ClientProblem::Trace(index));
                    }
                }
                Self::Trace(Arc::clone(arrivals))
            }
        })
    }
}

impl RenewalProcess {
    fn new(rate: &Profile, gaps: &Distribution) -> Result<Self, ClientProblem> {
        let curve = rate.curve().map_err(ClientProblem::Rate)?;
        let mean = gaps.mean().map_err(ClientProblem::Gaps)?;
        if mean.is_zero() {
            return Err(ClientProblem::NoGap);
        }
        let sampler = gaps.sampler().map_err(ClientProblem::Gaps)?;
        let per_gap = 1.0 / mean.as_nanos() as f64;
        let steady = curve.constant().map(|rate| per_gap * 1e9 / rate);
        Ok(Self { rate: curve, gaps: sampler, per_gap, steady })
    }
}

impl RetryPlan {
    fn new(retry: &Retry) -> Result<Self, ClientProblem> {
        if retry.attempts_max > ATTEMPTS_MAX {
            return Err(ClientProblem::Attempts(retry.attempts_max));
        }
        if !retry.growth.is_finite() || retry.growth < 1.0 {
            return Err(ClientProblem::Growth(retry.growth));
        }
        const DAY: Duration = Duration::from_secs(24 * 3600);
        if retry.pause_max > DAY {
            return Err(ClientProblem::Pause(InvalidDistribution::TooLong(retry.pause_max)));
        }
        Ok(Self {
            attempts_max: retry.attempts_max,
            pause: retry.pause.sampler().map_err(ClientProblem::Pause)?,
            growth: retry.growth,
            pause_max: nanos(retry.pause_max),
            heed: retry.heed,
        })
    }
}
