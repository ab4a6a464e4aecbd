//! Comparison of the runs with and without control.

use tamarisk_load::{Interval, PhaseSummary, Report};

use super::service::CAPACITY_PER_SECOND;
use crate::load::plot::{line, spans, target};
use tamarisk_plot::format;
use tamarisk_plot::{Across, Colour, Figure, Level, Line, Panel, Scale, Unit};

/// What the same crowd got from the same service on two ways to it.
pub(super) struct DemoComparison<'a> {
    pub(super) directly: &'a Report,
    pub(super) protected: &'a Report,
}

/// What a cell of the table says of a phase.
type Measure = fn(&PhaseSummary) -> String;

const DIRECTLY: &str = "directly";
const PROTECTED: &str = "behind Tamarisk";

impl DemoComparison<'_> {
    /// The time of the crowd as a table.
    pub(super) fn table(&self) -> String {
        let columns = [crowd(self.directly), crowd(self.protected)];
        let target = self.directly.target_seconds.unwrap_or_default();
        let good = format!("answered within {} per second", format::seconds(target));
        let rows: [(&str, Measure); 6] = [
            ("answered per second", |phase| format::rate(phase.summary.throughput)),
            (&good, |phase| format::rate(phase.summary.goodput)),
            ("p90 until answered", |phase| format::seconds(phase.summary.latency.p90)),
            ("rejected per second", |phase| format::rate(phase.summary.reject_rate)),
            ("p90 until rejected", |phase| match phase.summary.rejection.count {
                0 => "–".to_owned(),
                _ => format::seconds(phase.summary.rejection.p90),
            }),
            ("failed", |phase| format::count(phase.summary.failed)),
        ];
        let mut out =
            format!("{:<32} {DIRECTLY:>12} {PROTECTED:>18}\n", "While the crowd was there");
        for (name, value) in rows {
            let [directly, protected] = columns.map(|phase| phase.map_or_else(String::new, value));
            out += &format!("  {name:<30} {directly:>12} {protected:>18}\n");
        }
        out
    }

    /// Both runs over time.
    pub(super) fn figure(&self) -> Figure {
        let target_seconds = self.directly.target_seconds.unwrap_or_default();
        let within = format::seconds(target_seconds);
        Figure {
            title: "A flash crowd, and a service that can answer 400 requests a second".into(),
            subtitle: "The same crowd of users who wait for an answer, think for 20 ms and ask again; the rejected are back in about a second.".into(),
            across: Across::seconds(self.directly.total.seconds),
            spans: spans(self.directly),
            panels: vec![
                Panel {
                    title: format!("Answered within {within}, a second"),
                    unit: Unit::Count,
                    scale: Scale::Linear,
                    lines: self.lines(|i| Some(i.rate(i.good))),
                    levels: vec![Level { value: CAPACITY_PER_SECOND, label: "capacity".into() }],
                },
                Panel {
                    title: "Latency of the answers, 90th percentile".into(),
                    unit: Unit::Seconds,
                    scale: Scale::Log,
                    lines: self.lines(|i| (i.latency.count > 0).then_some(i.latency.p90)),
                    levels: vec![target(target_seconds)],
                },
                Panel {
                    title: "Rejected at once, a second".into(),
                    unit: Unit::Count,
                    scale: Scale::Linear,
                    lines: self.lines(|i| Some(i.rate(i.rejected))),
                    levels: vec![],
                },
            ],
        }
    }

    fn lines(&self, value: impl Fn(&Interval) -> Option<f64> + Copy) -> Vec<Line> {
        vec![
            line(self.directly, DIRECTLY, Colour::Vermilion, value),
            line(self.protected, PROTECTED, Colour::Blue, value),
        ]
    }
}

/// The phase of the run with the most users.
fn crowd(report: &Report) -> Option<&PhaseSummary> {
    report.phases.iter().max_by(|a, b| a.level_from.total_cmp(&b.level_from))
}
