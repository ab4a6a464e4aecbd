//! Constant and random durations in a scenario file.

use std::time::Duration;

use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::{Fault, Section, Value, values};

use super::files::Files;
use crate::sim::{Distribution, InvalidDistribution};

/// A time: always the same, or drawn from a distribution.
pub(super) const TIME: Form = Form::Either(&[Form::Time, Form::Table(&DISTRIBUTION)]);

/// Each names a distribution; the value is its mean, or what else stands there.
#[rustfmt::skip]
pub(super) static KINDS: &[Key] = &[
    key("constant", Form::Time, "always the same"),
    key("exponential", Form::Time, "mean of an exponential distribution"),
    key("erlang", Form::Time, "mean of as many exponential `stages`, one after the other"),
    key("hyper_exponential", Form::Time, "mean of a mixture of two exponential distributions, with a `variation` of 1 or more"),
    key("log_normal", Form::Time, "mean of a log-normal distribution, with a `variation`"),
    key("pareto", Form::Time, "least time of a Pareto distribution, with a `shape`"),
    key("uniform", Form::List(&Form::Time), "least and greatest of times that are equally likely"),
    key("mixture", Form::List(&Form::Table(&PART)), "one of several distributions, by shares that add up to 1"),
    key("measured", Form::Either(&[Form::Text("path"), Form::List(&Form::Time)]), "measured times, or a file with one on each line, or a trace"),
];
#[rustfmt::skip]
pub(super) static PARAMETERS: &[Key] = &[
    key("stages", Form::Whole(1, 1_000_000_000), "of `erlang`"),
    key("variation", Form::Number(0.0, f64::INFINITY), "standard deviation ÷ mean, of `hyper_exponential` and `log_normal`"),
    key("shape", Form::Number(1.0, f64::INFINITY), "of `pareto`, above 1: the tail falls with this power"),
];

pub(super) static DISTRIBUTION: Table = Table {
    heading: "distribution",
    summary: "Where a time may be drawn, it is a table with one distribution and its parameters.",
    groups: &[KINDS, PARAMETERS],
};

static PART: Table = Table {
    heading: "mixture",
    summary: "A part of a mixture: a distribution, and how often it is drawn from.",
    groups: &[
        KINDS,
        PARAMETERS,
        &[key("share", Form::Number(0.0, 1.0), "how often it is drawn from").required()],
    ],
};

/// A distribution that can be drawn from.
pub(super) fn distribution(value: &Value<'_>, files: Files<'_>) -> Result<Distribution, Fault> {
    if value.get_ref().is_str() {
        return Ok(Distribution::Constant(values::duration(value)?));
    }
    of(&Section::new(value, &DISTRIBUTION)?, files)
}

/// The distribution that a `section` names.
pub(super) fn of(section: &Section<'_>, files: Files<'_>) -> Result<Distribution, Fault> {
    let all: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    let kinds: Vec<_> = all.iter().filter(|kind| section.value(kind).is_some()).collect();
    let &[&kind] = kinds.as_slice() else {
        let message = format!("{} distributions where one is needed", kinds.len());
        let expected = format!("expected one of: {}", all.join(", "));
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
    let section = Section::new(value, &PART)?;
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
    let mut parameters = PARAMETERS.iter().map(|key| key.name);
    let strange = parameters.find(|key| *key != own && section.value(key).is_some());
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
