//! `model --split`: the effect of splitting a stage.

use anyhow::Context;
use serde::Serialize;
use tamarisk_control::Concurrency;
use tamarisk_model::network::{Effect, Machines, Network, Pattern};
use tamarisk_model::scenario::File;
use tamarisk_model::sim::{Distribution, Stage};
use tamarisk_plot::format;

use super::times::Times;
use crate::arguments::misunderstood;

#[derive(Serialize)]
pub(super) struct SplitAnswer {
    stage: String,
    into: Vec<String>,
    /// Of all of them.
    workers: u32,
    bottleneck: String,
    greatest_stable_rate: f64,
    /// `None` if the split is unstable.
    end_to_end: Option<Times>,
    added_seconds: Option<f64>,
}

impl SplitAnswer {
    pub(super) fn text(&self) -> String {
        let after = match (self.end_to_end, self.added_seconds) {
            (Some(times), Some(added)) => format!(
                "the mean response time becomes {} ({}{}), its p90 {}",
                format::seconds(times.mean),
                if added < 0.0 { "−" } else { "+" },
                format::seconds(added.abs()),
                format::seconds(times.p90),
            ),
            _ => "the queue grows without bound".to_owned(),
        };
        format!(
            "With {} split into {}, of {} workers together, {after}; \
             the bottleneck is then {}, stable below {}/s.",
            self.stage,
            self.into.join(" and "),
            self.workers,
            self.bottleneck,
            format::rate(self.greatest_stable_rate),
        )
    }
}

/// A stage for each step of `stage`, or two halves of it if it has one only.
pub(super) fn split(file: &File, network: &Network, stage: &str) -> anyhow::Result<SplitAnswer> {
    let stages = &file.scenario.stages;
    let index = stages.iter().position(|known| known.name == stage).ok_or_else(|| {
        let names: Vec<_> = stages.iter().map(|known| &*known.name).collect();
        misunderstood(format!("unknown stage {stage:?}; known stages: {}", names.join(", ")))
    })?;
    let tamarisk_model::network::Workers::Bounded(workers) = network.stages()[index].workers else {
        return Err(misunderstood(format!(
            "cannot split {stage:?}: its number of workers is unlimited"
        )));
    };
    let steps = step_seconds(&stages[index]);
    let pattern = match steps.len() {
        1 => Pattern::Replicate {
            stage: stage.to_owned(),
            copies: Concurrency::new(2),
            workers: Concurrency::new(workers.get().div_ceil(2)),
            machines: Machines::Own,
        },
        _ => Pattern::Pipeline { stage: stage.to_owned(), workers: spread(workers, &steps) },
    };
    let effect = network.effect(&pattern).with_context(|| format!("cannot split {stage:?}"))?;
    let added_seconds = effect.added_seconds();
    let Effect { before, after } = effect;
    let names = after.network.stages().iter().map(|stage| stage.name.clone());
    Ok(SplitAnswer {
        stage: stage.to_owned(),
        into: names.filter(|name| stages.iter().all(|stage| stage.name != *name)).collect(),
        workers: after.workers() - (before.workers() - workers.get()),
        bottleneck: after.limit.stage.clone(),
        greatest_stable_rate: after.limit.arrivals.get(),
        end_to_end: after.solution.as_ref().ok().map(|solution| Times::of(&solution.response)),
        added_seconds,
    })
}

/// How long each exponential step of a stage takes; one step if it is not made of them.
fn step_seconds(stage: &Stage) -> Vec<f64> {
    let mut steps = Vec::new();
    for step in &stage.service {
        match &step.work {
            Distribution::Exponential(mean) => steps.push(mean.as_secs_f64()),
            Distribution::Erlang { stages, mean } => {
                let step = mean.as_secs_f64() / f64::from(*stages);
                steps.extend(std::iter::repeat_n(step, *stages as usize));
            }
            _ => return vec![1.0],
        }
    }
    steps
}

/// The workers of a stage spread over its steps by their work, at least one for each.
fn spread(workers: Concurrency, steps: &[f64]) -> Vec<Concurrency> {
    let whole: f64 = steps.iter().sum();
    let spare = f64::from(workers.get().saturating_sub(steps.len() as u32));
    let mut counts: Vec<_> = steps.iter().map(|step| 1 + (spare * step / whole) as u32).collect();
    let given: u32 = counts.iter().sum();
    for _ in given..workers.get() {
        let load = |index: &usize| steps[*index] / f64::from(counts[*index]);
        let busiest = (0..counts.len()).max_by(|a, b| load(a).total_cmp(&load(b)));
        counts[busiest.expect("a stage has a step")] += 1;
    }
    counts.into_iter().map(Concurrency::new).collect()
}
