//! Runs of `tamarisk load`, read by their reports.

use std::ops::Range;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{pinned, tamarisk};

/// The report of a run with these arguments, on `core` if it is to have one of its own.
///
/// # Errors
/// If the generator cannot be run, or fails.
pub fn load(core: Option<usize>, arguments: &[&str]) -> Result<Value> {
    let tamarisk = tamarisk()?.display().to_string();
    let output = core
        .map_or_else(|| Command::new(&tamarisk), |core| pinned(core, &[&tamarisk]))
        .arg("load")
        .args(arguments)
        .args(["--json", "-"])
        .stderr(Stdio::null())
        .output()
        .context("the load generator could not be started")?;
    ensure!(output.status.success(), "load failed: {}", arguments.join(" "));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number of a report.
///
/// # Errors
/// If it is none.
pub fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} is no number"))
}

/// The 90th percentile of the latency, in seconds; not a number where nothing was answered.
///
/// # Errors
/// If `summary` is not a part of a report.
pub fn p90(summary: &Value) -> Result<f64> {
    let is_empty = number(&summary["latency"]["count"])? == 0.0;
    if is_empty { Ok(f64::NAN) } else { number(&summary["latency"]["p90"]) }
}

/// The share of the answers that came within their targets; not a number where there were none.
///
/// # Errors
/// If `summary` is not a part of a report.
pub fn in_target(summary: &Value) -> Result<f64> {
    Ok(number(&summary["good"])? / number(&summary["completed"])?)
}

/// Seconds after a crowd has come until nine of ten answers are in their targets and stay so, as
/// long as it is there. An interval without an answer is not in its target.
///
/// # Errors
/// If `report` has no time series.
pub fn settled_after(report: &Value, crowd: Range<f64>) -> Result<f64> {
    let mut settled = crowd.start;
    for interval in report["series"].as_array().context("the report has no series")? {
        let (start, seconds) = (number(&interval["start"])?, number(&interval["seconds"])?);
        let in_target = in_target(interval)?;
        if crowd.contains(&start) && (in_target.is_nan() || in_target < 0.9) {
            settled = start + seconds;
        }
    }
    Ok(settled - crowd.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A report whose seconds have so many answers, and so many of them in their targets.
    fn report(seconds: &[(u32, u32)]) -> Value {
        let interval = |(start, (completed, good)): (usize, &(u32, u32))| json!({ "start": start, "seconds": 1.0, "completed": completed, "good": good });
        let series: Vec<_> = seconds.iter().enumerate().map(interval).collect();
        json!({ "series": series })
    }

    #[test]
    fn a_crowd_has_settled_once_nine_of_ten_answers_stay_in_their_targets() {
        let settled = |seconds: &[_]| settled_after(&report(seconds), 1.0..4.0).unwrap();
        assert_eq!(settled(&[(0, 0), (10, 9), (10, 10), (10, 9), (10, 0)]), 0.0);
        assert_eq!(settled(&[(10, 9), (10, 8), (10, 9), (10, 9)]), 1.0);
        assert_eq!(settled(&[(10, 9), (10, 9), (10, 9), (10, 8)]), 3.0);
    }

    #[test]
    fn a_crowd_that_is_not_answered_has_not_settled() {
        let settled = |seconds: &[_]| settled_after(&report(seconds), 1.0..4.0).unwrap();
        assert_eq!(settled(&[(10, 9), (0, 0), (10, 9), (10, 9)]), 1.0);
        assert_eq!(settled(&[(10, 9), (0, 0), (0, 0), (0, 0)]), 3.0);
    }

    #[test]
    fn where_nothing_was_answered_there_is_neither_a_percentile_nor_a_share() {
        let summary = |count: u32, p90: f64| {
            let latency = json!({ "count": count, "p90": p90 });
            json!({ "latency": latency, "completed": count, "good": count / 2 })
        };
        let (some, none) = (summary(10, 0.25), summary(0, 0.0));
        assert_eq!((p90(&some).unwrap(), in_target(&some).unwrap()), (0.25, 0.5));
        assert!(p90(&none).unwrap().is_nan() && in_target(&none).unwrap().is_nan());
    }
}
