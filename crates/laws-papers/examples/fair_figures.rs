//! Writes figures 4-11, 4-14 and 4-15 of Fair07 as CSV and as SVG into a directory.
//! ```text
//! cargo run --release -p tamarisk-laws-papers --example fair_figures -- target/fair-figures
//! ```

#![allow(clippy::disallowed_macros, reason = "it says what it wrote")]

#[path = "../tests/it/fair_figures/mod.rs"]
mod fair_figures;

use std::path::PathBuf;

use tamarisk_plot::{Across, Colour, Figure, Level, Line, Panel, Scale, Unit};

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "target/fair-figures".into());
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    for figure in [fair_figures::p_precompensated(), fair_figures::pi(), fair_figures::pd()] {
        let path = directory.join(format!("fair07-{}.csv", figure.number));
        std::fs::write(&path, figure.csv())?;
        std::fs::write(path.with_extension("svg"), drawn(&figure).to_svg())?;
        println!(
            "{}: settles in {} samples, overshoot {:.3}, sum of errors {:.3}",
            path.display(),
            figure.settling(),
            figure.overshoot(),
            figure.absolute_error(),
        );
    }
    Ok(())
}

fn drawn(figure: &fair_figures::Figure) -> Figure {
    let points = figure.outputs.iter().enumerate();
    let points: Vec<_> = points.map(|(sample, output)| (sample as f64, Some(*output))).collect();
    Figure {
        title: format!("A step of the reference, figure {} of Fair07", figure.number),
        subtitle: "The plant and the demands are ours; the thesis names none.".to_owned(),
        across: Across {
            label: "samples".to_owned(),
            from: 0.0,
            to: points.len().saturating_sub(1) as f64,
            scale: Scale::Linear,
        },
        spans: vec![],
        panels: vec![Panel {
            title: "Output".to_owned(),
            unit: Unit::Count,
            scale: Scale::Linear,
            lines: vec![Line { name: "output".to_owned(), colour: Colour::Blue, points }],
            levels: vec![Level { value: 1.0, label: "reference".to_owned() }],
        }],
    }
}
