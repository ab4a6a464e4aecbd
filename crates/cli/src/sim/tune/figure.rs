//! The plot of a search.

use tamarisk_model::tune::{Measure, Objective};
use tamarisk_plot::{Across, Colour, Figure, Line, Panel, Scale, Unit};

use super::evaluate::Measured;

/// A panel for each measure: of every run, and of the best so far.
pub(super) fn figure(title: &str, objective: &Objective, runs: &[Measured]) -> Figure {
    let to = (runs.len() as f64).max(1.0);
    let mut best = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let before = best.last().copied().unwrap_or(index);
        best.push(if run.worth > runs[before].worth { index } else { before });
    }
    let panel = |(term, (_, measure)): (usize, &(f64, Measure))| {
        let at = |run: usize, of: usize| ((run + 1) as f64, Some(runs[of].measures[term]));
        let line = |name: &str, colour, points| Line { name: name.to_owned(), colour, points };
        Panel {
            title: heading(*measure).to_owned(),
            unit: Unit::Count,
            scale: Scale::Linear,
            lines: vec![
                line("each run", Colour::Grey, (0..runs.len()).map(|run| at(run, run)).collect()),
                line(
                    "the best so far",
                    Colour::Vermilion,
                    best.iter().enumerate().map(|(run, best)| at(run, *best)).collect(),
                ),
            ],
            levels: vec![],
        }
    };
    Figure {
        title: title.to_owned(),
        subtitle: "First an even spread, halved and looked at again; then a climb from the best."
            .to_owned(),
        across: Across { label: "runs".to_owned(), from: 0.0, to, scale: Scale::Linear },
        spans: vec![],
        panels: objective.terms().iter().enumerate().map(panel).collect(),
    }
}

const fn heading(measure: Measure) -> &'static str {
    match measure {
        Measure::Goodput => "Answered within the target, a second",
        Measure::OverTarget => "Share of seconds over the target",
        Measure::FalseRejects => "Share rejected although a worker was free",
    }
}
