//! The course of the first runs, as CSV and as a figure.

use tamarisk_plot::{Across, Colour, Figure, Level, Line, Panel, Scale, Span, Unit, format};

use super::runs::{Results, Runs};
use super::series::{ClassSeries, Row};

const HEAD: &str = "law,class,from_seconds,to_seconds,offered,completed,in_time,rejected,dropped,\
                    percentile_seconds\n";

/// A row for each interval of each class under each arrangement.
pub(super) fn csv(runs: &Runs, results: &[Results]) -> String {
    let mut csv = HEAD.to_owned();
    for (law, class) in courses(runs, results) {
        for row in &class.rows {
            let Row { from, to, offered, good, completed, rejected, dropped, percentile } = row;
            let percentile = percentile.map_or_else(String::new, |seconds| seconds.to_string());
            csv += &format!("{law},{},{from},{to},{offered},{completed},", class.name);
            csv += &format!("{good},{rejected},{dropped},{percentile}\n");
        }
    }
    csv
}

/// What was answered in time, how fast, and what was refused.
pub(super) fn figure(title: &str, runs: &Runs, results: &[Results]) -> Figure {
    let end = (runs.scenario.warm_up + runs.scenario.duration).as_secs_f64();
    let warm_up = runs.scenario.warm_up.as_secs_f64();
    let warm_up = Span { from: 0.0, to: warm_up, label: "warm-up".to_owned() };
    Figure {
        title: title.to_owned(),
        subtitle: format!("The course under seed {}.", runs.seeds[0]),
        across: Across::seconds(end),
        spans: if warm_up.to > 0.0 { vec![warm_up] } else { vec![] },
        panels: vec![
            Panel {
                title: "Answered within the target, a second".into(),
                unit: Unit::Count,
                scale: Scale::Linear,
                lines: lines(runs, results, |row| Some(row.per_second(row.good))),
                levels: vec![],
            },
            Panel {
                title: "Response time at the target's percentile".into(),
                unit: Unit::Seconds,
                scale: Scale::Log,
                lines: lines(runs, results, |row| row.percentile),
                levels: targets(runs),
            },
            Panel {
                title: "Rejected or dropped, a second".into(),
                unit: Unit::Count,
                scale: Scale::Linear,
                lines: lines(runs, results, |row| Some(row.per_second(row.rejected + row.dropped))),
                levels: vec![],
            },
        ],
    }
}

fn lines(runs: &Runs, results: &[Results], value: fn(&Row) -> Option<f64>) -> Vec<Line> {
    let courses = courses(runs, results).into_iter().zip(Colour::ALL.into_iter().cycle());
    courses
        .map(|((law, class), colour)| {
            let name = match (results.len(), runs.scenario.classes.len()) {
                (_, 1) => law.to_owned(),
                (1, _) => class.name.clone(),
                _ => format!("{law} {}", class.name),
            };
            let edges = |row: &Row| [row.from, row.to].map(|at| (at, value(row)));
            Line { name, colour, points: class.rows.iter().flat_map(edges).collect() }
        })
        .collect()
}

fn targets(runs: &Runs) -> Vec<Level> {
    let targets = runs.scenario.classes.iter().map(|(_, class)| class.target.response_time());
    let mut targets: Vec<_> = targets.collect();
    targets.sort_unstable();
    targets.dedup();
    let level = |value| Level { value, label: format!("target {}", format::seconds(value)) };
    targets.iter().map(|target| level(target.as_secs_f64())).collect()
}

fn courses<'a>(runs: &'a Runs, results: &'a [Results]) -> Vec<(&'a str, &'a ClassSeries)> {
    let each = runs.arrangements.iter().zip(results);
    each.flat_map(|(arrangement, result)| {
        result.series.classes.iter().map(|class| (&*arrangement.name, class))
    })
    .collect()
}
