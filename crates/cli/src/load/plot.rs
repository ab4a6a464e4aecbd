//! The report of a run as a figure.

use tamarisk_load::{ClassInterval, Interval, Report};

use tamarisk_plot::format;
use tamarisk_plot::{Across, Colour, Figure, Level, Line, Panel, Scale, Span, Unit};

/// The figure of a run: what was answered, how fast, and what was under way.
pub(super) fn figure(report: &Report) -> Figure {
    Figure {
        title: report.title(),
        subtitle: format!(
            "{} offered, {} answered, {} rejected, {} failed",
            format::count(report.total.offered),
            format::count(report.total.completed),
            format::count(report.total.rejected),
            format::count(report.total.failed),
        ),
        across: Across::seconds(report.total.seconds),
        spans: spans(report),
        panels: match by_class(report) {
            Some(by_class) => [vec![rates(report), latencies(report)], by_class].concat(),
            None => vec![rates(report), latencies(report), inside(report)],
        },
    }
}

/// The phases in which the load is above what it was at first.
pub(crate) fn spans(report: &Report) -> Vec<Span> {
    let Some(first) = report.phases.first() else { return vec![] };
    let above = report.phases.iter().filter(|phase| phase.level_from > first.level_from);
    let span = |phase: &tamarisk_load::PhaseSummary| Span {
        from: phase.start,
        to: phase.end,
        label: format!("{} {}", format::rate(phase.level_from), report.level_unit),
    };
    above.map(span).collect()
}

/// A line that keeps the value of each interval for its length. What little
/// happens while the run drains would make rates of no meaning, and is left out.
pub(crate) fn line(
    report: &Report,
    name: &str,
    colour: Colour,
    value: impl Fn(&Interval) -> Option<f64>,
) -> Line {
    let within = report.series.iter().filter(|i| i.start + i.seconds / 2.0 < report.total.seconds);
    let edges = |i: &Interval| [i.start, i.start + i.seconds].map(|at| (at, value(i)));
    Line { name: name.to_owned(), colour, points: within.flat_map(edges).collect() }
}

fn rates(report: &Report) -> Panel {
    let mut lines = vec![line(report, "answered", Colour::Blue, |i| Some(i.rate(i.completed)))];
    if let Some(target) = report.target_seconds {
        let name = format!("answered within {}", format::seconds(target));
        lines.push(line(report, &name, Colour::Green, |i| Some(i.rate(i.good))));
    }
    if report.total.rejected > 0 {
        lines.push(line(report, "rejected", Colour::Purple, |i| Some(i.rate(i.rejected))));
    }
    if report.total.failed > 0 {
        lines.push(line(report, "failed", Colour::Vermilion, |i| Some(i.rate(i.failed))));
    }
    Panel {
        title: "Requests a second".into(),
        unit: Unit::Count,
        scale: Scale::Linear,
        lines,
        levels: vec![],
    }
}

fn latencies(report: &Report) -> Panel {
    let quantile =
        |value: fn(&Interval) -> f64| move |i: &Interval| (i.latency.count > 0).then(|| value(i));
    Panel {
        title: "Latency, from when a request was due".into(),
        unit: Unit::Seconds,
        scale: Scale::Log,
        lines: vec![
            line(report, "p50", Colour::Grey, quantile(|i| i.latency.p50)),
            line(report, "p90", Colour::Blue, quantile(|i| i.latency.p90)),
            line(report, "p99", Colour::Purple, quantile(|i| i.latency.p99)),
        ],
        levels: report.target_seconds.map(target).into_iter().collect(),
    }
}

/// What each class of users saw, where they are told apart: as figures 53, 55, 58 and 59 of
/// \[Welsh02\] have it.
fn by_class(report: &Report) -> Option<Vec<Panel>> {
    let classes = report.series.first().map(|interval| interval.classes.len()).unwrap_or_default();
    let lines = |value: fn(&ClassInterval) -> Option<f64>| -> Vec<Line> {
        let of_class = |index: usize| {
            let name = &report.series[0].classes[index].class;
            let colour = Colour::ALL[index % Colour::ALL.len()];
            line(report, name, colour, move |interval| value(&interval.classes[index]))
        };
        (0..classes).map(of_class).collect()
    };
    let latency = Panel {
        title: "90th percentile of the latency, by class".into(),
        unit: Unit::Seconds,
        scale: Scale::Log,
        lines: lines(|class| (class.latency.count > 0).then_some(class.latency.p90)),
        levels: report.target_seconds.map(target).into_iter().collect(),
    };
    let rejected = Panel {
        title: "Share of requests rejected, by class".into(),
        unit: Unit::Count,
        scale: Scale::Linear,
        lines: lines(|class| {
            let ended = class.completed + class.rejected + class.failed;
            (ended > 0).then(|| class.rejected as f64 / ended as f64)
        }),
        levels: vec![],
    };
    (classes > 0).then(|| vec![latency, rejected])
}

fn inside(report: &Report) -> Panel {
    Panel {
        title: "Under way at the end of each interval".into(),
        unit: Unit::Count,
        scale: Scale::Linear,
        lines: vec![line(report, "requests", Colour::Blue, |i| Some(i.in_flight as f64))],
        levels: vec![],
    }
}

/// The mark of a target in a panel of latencies.
pub(crate) fn target(seconds: f64) -> Level {
    Level { value: seconds, label: format!("target {}", format::seconds(seconds)) }
}
