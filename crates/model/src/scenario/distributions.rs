//! Times that are always the same, or drawn.

use std::time::Duration;

use tamarisk_settings::{Fault, Section, Value, values};

use super::files::Files;
use crate::sim::{Distribution, InvalidDistribution};

/// Each names a distribution; the value is its mean, or what else stands there.
const KINDS: [&str; 9] = [
    "constant",
    "exponential",
    "erlang",
    "hyper_exponential",
    "log_normal",
    "pareto",
    "uniform",
    "mixture",
    "measured",
];
const PARAMETERS: [&str; 3] = ["stages", "variation", "shape"];

/// A distribution that can be drawn from.
pub(super) fn distribution(value: &Value<'_>, files: Files<'_>) -> Result<Distribution, Fault> {
    if value.get_ref().is_str() {
        return Ok(Distribution::Constant(values::duration(value)?));
    }
    of(&section(value, &[])?, files)
}

/// The table of a distribution that may say more, in `besides`.
pub(super) fn section<'a>(value: &'a Value<'a>, besides: &[&str]) -> Result<Section<'a>, Fault> {
    let known: Vec<_> = [&KINDS[..], &PARAMETERS, besides].concat();
    Section::new(value, &known, |_| false)
}

/// The distribution that a `section` names.
pub(super) fn of(section: &Section<'_>, files: Files<'_>) -> Result<Distribution, Fault> {
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| section.value(kind).is_some()).collect();
    let &[kind] = kinds.as_slice() else {
        let message = format!("{} distributions where one is needed", kinds.len());
        let expected = format!("expected one of: {}", KINDS.join(", "));
        return Err(Fault::new(section.span(), message, expected));
    };
    let mean = || section.require(kind, "\"20ms\"", values::duration);
    let variation = || section.require("variation", "2", |value| values::float(value, VARIATION));
    let distribution = match kind {
        "constant" => Distribution::Constant(mean()?),
        "exponential" => Distribution::Exponential(mean()?),
        "erlang" => {
            let stages = section.require("stages", "4", values::count)?.get();
            Distribution::Erlang {
                stages: u32::try_from(stages).unwrap_or(u32::MAX),
                mean: mean()?,
            }
        }
        "hyper_exponential" => {
            let variation = variation()?;
            if variation < 1.0 {
                let message = format!("a variation of {variation} is too little");
                return Err(fault(section, "variation", message, "expected a number of 1 or more"));
            }
            Distribution::hyper_exponential(mean()?, variation * variation)
        }
        "log_normal" => Distribution::LogNormal { mean: mean()?, variation: variation()? },
        "pareto" => Distribution::Pareto {
            least: mean()?,
            shape: section.require("shape", "2.5", |value| values::float(value, SHAPE))?,
        },
        "uniform" => section.require(kind, "[\"1ms\", \"3ms\"]", uniform)?,
        "mixture" => Distribution::Mixture(section.require(
            kind,
            "[{ share = 1, constant = \"1ms\" }]",
            |value| values::list(value, |value| part(value, files)),
        )?),
        _ => {
            let times = |value: &Value<'_>| match value.get_ref().is_str() {
                true => files.measured(value),
                false => Ok(Distribution::Empirical(values::list(value, values::duration)?.into())),
            };
            section.require(kind, "[\"1ms\", \"3ms\"]", times)?
        }
    };
    only_its_own(section, kind)?;
    distribution.mean().map_err(|error| impossible(section, kind, &error))?;
    Ok(distribution)
}

const VARIATION: &str = "a number: standard deviation ÷ mean";
const SHAPE: &str = "a number above 1: the tail falls with this power";

fn uniform(value: &Value<'_>) -> Result<Distribution, Fault> {
    let ends: Vec<Duration> = values::list(value, values::duration)?;
    let &[from, to] = ends.as_slice() else {
        let message = format!("{} times", ends.len());
        return Err(Fault::new(value.span(), message, "expected two: the least and the greatest"));
    };
    Ok(Distribution::Uniform { from, to })
}

fn part(value: &Value<'_>, files: Files<'_>) -> Result<(f64, Distribution), Fault> {
    let section = section(value, &["share"])?;
    Ok((section.require("share", "0.5", values::ratio)?.get(), of(&section, files)?))
}

/// That no parameter belongs to another kind.
fn only_its_own(section: &Section<'_>, kind: &str) -> Result<(), Fault> {
    let own = match kind {
        "erlang" => "stages",
        "hyper_exponential" | "log_normal" => "variation",
        "pareto" => "shape",
        _ => "",
    };
    let strange = PARAMETERS.into_iter().find(|key| *key != own && section.value(key).is_some());
    strange.map_or(Ok(()), |key| {
        Err(fault(section, key, format!("{kind} has no {key}"), "expected nothing of the kind"))
    })
}

fn impossible(section: &Section<'_>, kind: &str, error: &InvalidDistribution) -> Fault {
    let (key, expected) = match error {
        InvalidDistribution::NoMean(_) => ("shape", "expected a number above 1"),
        InvalidDistribution::Stages(_) => ("stages", "expected fewer"),
        InvalidDistribution::Variation(_) => ("variation", "expected another number"),
        InvalidDistribution::Probabilities(_) => (kind, "expected shares that add up to 1"),
        InvalidDistribution::UpsideDown { .. } => (kind, "expected the least time first"),
        InvalidDistribution::Empty => (kind, "expected at least one"),
        InvalidDistribution::TooLong(_) => (kind, "expected a shorter time"),
        InvalidDistribution::Nested => (kind, "expected fewer mixtures inside one another"),
    };
    fault(section, key, error.to_string(), expected)
}

fn fault(section: &Section<'_>, key: &str, message: String, expected: &str) -> Fault {
    let span = section.value(key).map_or_else(|| section.span(), |value| value.span());
    Fault::new(span, message, expected)
}
