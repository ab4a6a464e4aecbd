//! Time series of the first runs, as CSV and plot.

use tamarisk_laws::Knobs;
use tamarisk_plot::{Across, Colour, Figure, Level, Line, Panel, Scale, Span, Unit, format};

use super::knob::{self, KNOBS, Knob};
use super::runs::{Results, Runs};
use super::series::{ClassSeries, Row};

const HEAD: &str = "law,class,from_seconds,to_seconds,offered,completed,in_time,rejected,dropped,\
                    percentile_seconds,terminated,failed";

/// A row for each interval of each class under each arrangement. Behind the columns that are
/// always there come those of what slow laws set, where there are any.
pub(super) fn csv(runs: &Runs, results: &[Results]) -> String {
    let mut csv = HEAD.to_owned();
    let knobs: Vec<_> = KNOBS.iter().map(|knob| (knob, knob.stages(runs))).collect();
    for (knob, stages) in &knobs {
        for &stage in stages {
            csv += &format!(",{}.{}", runs.scenario.stages[stage].name, knob.column);
        }
    }
    csv.push('\n');
    for (arrangement, result) in runs.arrangements.iter().zip(results) {
        for class in &result.series.classes {
            for (index, row) in class.rows.iter().enumerate() {
                csv += &format!("{},{},{}", arrangement.name, class.name, columns(row));
                for (knob, stages) in &knobs {
                    for &stage in stages {
                        let is_ruled =
                            knob.is_ruled(arrangement, &runs.scenario.stages[stage].name);
                        let set = result.series.stages[stage].rows[index].filter(|_| is_ruled);
                        csv += &format!(",{}", shown(set.as_ref().map(knob.value)));
                    }
                }
                csv.push('\n');
            }
        }
    }
    csv
}

fn columns(row: &Row) -> String {
    let Row {
        from,
        to,
        offered,
        good,
        completed,
        rejected,
        dropped,
        terminated,
        failed,
        percentile,
    } = row;
    let percentile = shown(*percentile);
    format!(
        "{from},{to},{offered},{completed},{good},{rejected},{dropped},{percentile},{terminated},{failed}"
    )
}

fn shown(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// What was answered in time, how fast, and what was rejected.
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
                title: "Rejected, dropped or terminated, a second".into(),
                unit: Unit::Count,
                scale: Scale::Linear,
                lines: lines(runs, results, |row| {
                    Some(row.per_second(row.rejected + row.dropped + row.terminated))
                }),
                levels: vec![],
            },
        ]
        .into_iter()
        .chain(knob::terminates(runs).then(|| Panel {
            title: "Terminated, a second".into(),
            unit: Unit::Count,
            scale: Scale::Linear,
            lines: lines(runs, results, |row| Some(row.per_second(row.terminated))),
            levels: vec![],
        }))
        .chain(KNOBS.iter().filter_map(|knob| panel(knob, runs, results)))
        .collect(),
    }
}

/// What slow laws have set, if any does.
fn panel(knob: &Knob, runs: &Runs, results: &[Results]) -> Option<Panel> {
    let mut lines = Vec::new();
    let mut colours = Colour::ALL.into_iter().cycle();
    for (arrangement, result) in runs.arrangements.iter().zip(results) {
        for stage in knob.stages(runs) {
            let name = &runs.scenario.stages[stage].name;
            if !knob.is_ruled(arrangement, name) {
                continue;
            }
            let intervals = result.series.classes.first().map_or(&[][..], |class| &class.rows);
            let set = intervals.iter().zip(&result.series.stages[stage].rows);
            let edges = |(row, knobs): (&Row, &Option<Knobs>)| {
                [row.from, row.to].map(|at| (at, knobs.as_ref().map(knob.value)))
            };
            lines.push(Line {
                name: if results.len() > 1 {
                    format!("{} {name}", arrangement.name)
                } else {
                    name.clone()
                },
                colour: colours.next()?,
                points: set.flat_map(edges).collect(),
            });
        }
    }
    let (title, unit) = (knob.title.to_owned(), Unit::Count);
    (!lines.is_empty()).then_some(Panel {
        title,
        unit,
        scale: Scale::Linear,
        lines,
        levels: vec![],
    })
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
