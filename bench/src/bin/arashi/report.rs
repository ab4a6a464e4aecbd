//! Tables, JSON files and plots.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use tamarisk_bench::load::{number, p90};
use tamarisk_bench::spread_of_numbers;
use tamarisk_plot::{Across, Colour, Figure, Line, Panel, Scale, Unit};

/// What tables have where there is no number.
const NONE: &str = "–";

/// The points of a line of a plot.
pub(crate) type Points = Vec<(f64, Option<f64>)>;

/// Writes the results of an experiment.
pub(crate) fn write(out: &Path, name: &str, results: &Value, figure: &Figure) -> Result<()> {
    fs::write(out.join(format!("{name}.json")), serde_json::to_string_pretty(results)?)?;
    fs::write(out.join(format!("{name}.svg")), figure.to_svg())?;
    eprintln!("{}", out.join(format!("{name}.svg")).display());
    Ok(())
}

/// The share of `part` among all that ended.
pub(crate) fn share(summary: &Value, part: &str) -> Result<f64> {
    let ended = ["completed", "rejected", "failed"].map(|name| number(&summary[name]));
    let ended = ended.into_iter().sum::<Result<f64>>()?;
    Ok(if ended > 0.0 { number(&summary[part])? / ended } else { 0.0 })
}

/// The median of the runs that have such a number, with the least and the greatest; a dash if none
/// has.
pub(crate) fn median_of_known(results: Vec<f64>) -> String {
    let none = || format!("{NONE:>8}");
    spread_of_numbers(results).map_or_else(none, |spread| spread.to_string())
}

/// A time in milliseconds; a dash where nothing was answered.
pub(crate) fn milliseconds(seconds: f64, decimals: usize) -> String {
    if seconds.is_nan() { NONE.to_owned() } else { format!("{:.decimals$}", 1e3 * seconds) }
}

/// A share in per cent; a dash where there is nothing of which it could be one.
pub(crate) fn percent(share: f64) -> String {
    if share.is_nan() { NONE.to_owned() } else { format!("{:.1}%", 100.0 * share) }
}

/// The share of a class's requests that were answered within their targets, of all in these phases
/// that have a target.
pub(crate) fn served(phases: &[Value], class: &str) -> Result<f64> {
    let (mut good, mut ended) = (0.0, 0.0);
    let groups = phases.iter().map(|phase| phase["groups"].as_array());
    let groups: Vec<_> = groups.collect::<Option<_>>().context("a phase has no groups")?;
    for group in groups.into_iter().flatten() {
        let has_target = group["request_type"].is_string() && group["target_seconds"].is_number();
        if group["class"] != class || !has_target {
            continue;
        }
        good += number(&group["good"])?;
        for part in ["completed", "rejected", "failed"] {
            ended += number(&group[part])?;
        }
    }
    Ok(good / ended)
}

/// A table of the types of request, as figures 9 and 11 of Welsh03: of all classes and of all
/// these phases together, but for the 90th percentile, which is the median of those of the phases.
pub(crate) fn print_types(title: &str, phases: &[&Value]) -> Result<()> {
    println!("{title}");
    println!(
        "  {:14} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "", "ended", "p90, ms", "target", "in target", "rejected"
    );
    for first in phases.first().into_iter().flat_map(|phase| types(phase)) {
        let same = |group: &&Value| group["request_type"] == first["request_type"];
        let groups = || phases.iter().flat_map(|phase| types(phase)).filter(same);
        let sum = |part: &str| groups().map(|group| number(&group[part])).sum::<Result<f64>>();
        let p90 = groups().map(p90).collect::<Result<Vec<_>>>()?;
        let p90 = spread_of_numbers(p90).map_or(f64::NAN, |spread| spread.median);
        let (completed, rejected) = (sum("completed")?, sum("rejected")?);
        let ended = completed + rejected + sum("failed")?;
        let target = first["target_seconds"].as_f64();
        println!(
            "  {:14} {ended:8} {:>9} {:>9} {:>9} {:8.2}%",
            first["request_type"].as_str().context("a type has no name")?,
            milliseconds(p90, 1),
            target.map_or_else(String::new, |target| milliseconds(target, 1)),
            percent(sum("good")? / completed),
            100.0 * rejected / ended.max(1.0),
        );
    }
    Ok(())
}

/// What a phase says of each type of request, in all classes together.
fn types(phase: &Value) -> impl Iterator<Item = &Value> {
    let groups = phase["groups"].as_array().into_iter().flatten();
    groups.filter(|group| group["request_type"].is_string() && group["class"].is_null())
}

pub(crate) fn figure(title: &str, across: Across, panels: Vec<Panel>) -> Figure {
    let subtitle = "Arashi on SQLite, one core; users on another".to_owned();
    Figure { title: title.to_owned(), subtitle, across, spans: vec![], panels }
}

/// A panel with a line for each name.
pub(crate) fn panel(title: &str, unit: Unit, scale: Scale, lines: Vec<(String, Points)>) -> Panel {
    let line = |((name, points), colour): ((String, Points), Colour)| Line { name, colour, points };
    let lines = lines.into_iter().zip(Colour::ALL).map(line).collect();
    Panel { title: title.to_owned(), unit, scale, lines, levels: vec![] }
}
