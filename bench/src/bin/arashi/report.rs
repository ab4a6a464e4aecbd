//! Tables, JSON files and plots.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use tamarisk_bench::load::number;
use tamarisk_plot::{Across, Colour, Figure, Line, Panel, Scale, Unit};

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

/// The share of the answers that came within their targets.
pub(crate) fn in_target(summary: &Value) -> Result<f64> {
    let completed = number(&summary["completed"])?;
    Ok(if completed > 0.0 { number(&summary["good"])? / completed } else { 1.0 })
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

/// A table of the types of request, as figures 9 and 11 of Welsh03: those of one class, or of all.
pub(crate) fn print_types(title: &str, groups: &Value, class: Option<&str>) -> Result<()> {
    println!("{title}");
    println!(
        "  {:14} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "", "ended", "p90, ms", "target", "in target", "rejected"
    );
    for group in groups.as_array().into_iter().flatten() {
        let Some(name) = group["request_type"].as_str() else { continue };
        if group["class"].as_str() != class {
            continue;
        }
        let target = group["target_seconds"].as_f64();
        println!(
            "  {name:14} {:8} {:9.1} {:>9} {:8.1}% {:8.1}%",
            number(&group["completed"])? + number(&group["rejected"])? + number(&group["failed"])?,
            1e3 * number(&group["latency"]["p90"])?,
            target.map_or_else(String::new, |target| format!("{:.1}", 1e3 * target)),
            100.0 * in_target(group)?,
            100.0 * share(group, "rejected")?,
        );
    }
    Ok(())
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
