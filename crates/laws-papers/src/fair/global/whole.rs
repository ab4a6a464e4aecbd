//! The way of a request through the whole graph: visits by flows, and response times of all its
//! stages together.

use std::time::Duration;

use tamarisk_control::global::{GraphSample, STAGES_MAX};

use super::shares::{Flows, StageShares};
use crate::fair::ResponseSample;

/// Tells `shares` of the flows of `sample`: whether they tell how often each stage is visited.
pub(in crate::fair) fn observe_flows(shares: &mut StageShares, sample: &GraphSample<'_>) -> bool {
    let (mut entered, mut processed) = ([0.0; STAGES_MAX], [0.0; STAGES_MAX]);
    let count = sample.stages.len().min(STAGES_MAX);
    for (index, stage) in sample.stages.iter().enumerate().take(count) {
        entered[index] = stage.entered as f64;
        processed[index] = stage.processed as f64;
    }
    let (entered, processed) = (&entered[..count], &processed[..count]);
    shares.observe(&Flows { entered, processed, edges: sample.edges }).is_ok()
}

/// R̃ and R% of a request that visits each stage so often, the stages being independent:
/// `Σ v_j·R̃_j` and that plus `√(Σ v_j·(R%_j − R̃_j)²)`.
pub(in crate::fair) fn response(
    visits: impl Iterator<Item = f64>,
    sample: &GraphSample<'_>,
) -> Option<ResponseSample> {
    let (mut mean, mut excess_squared) = (0.0, 0.0);
    for (visits, stage) in visits.zip(sample.stages) {
        let response = stage.response.unwrap_or_default();
        let stage_mean = response.mean.as_secs_f64();
        mean += visits * stage_mean;
        excess_squared += visits * (response.percentile.as_secs_f64() - stage_mean).powi(2);
    }
    let time = |seconds| Duration::try_from_secs_f64(seconds).ok();
    let percentile = time(mean + excess_squared.sqrt())?;
    time(mean).filter(|mean| !mean.is_zero()).map(|mean| ResponseSample { mean, percentile })
}
