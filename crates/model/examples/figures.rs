//! Writes the figures of [Welsh02] that the model solves, and those that it simulates, as CSV and
//! as SVG.
//! ```text
//! cargo run --release -p tamarisk-model --example figures -- out/figures
//! ```

use std::path::PathBuf;
use std::{env, fs, io};

use tamarisk_model::controller_figures;
use tamarisk_model::figures::{self, Figure};
use tamarisk_plot::{Across, Colour, Line, Panel, Scale, Unit};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "out/figures".to_owned()));
    fs::create_dir_all(&folder)?;
    for figure in figures::all().into_iter().chain(controller_figures::all()) {
        let path = folder.join(format!("welsh02-{}.csv", figure.number));
        fs::write(&path, figure.to_csv())?;
        fs::write(path.with_extension("svg"), drawn(&figure).to_svg())?;
        println!("{} and .svg: {}", path.display(), figure.title);
        for line in figure.lines() {
            let limit =
                line.limit.map_or_else(String::new, |rate| format!("stable below {rate:.4}"));
            println!("    {:<24} {limit}", line.name);
        }
    }
    Ok(())
}

/// No more lines than this have room for their names above one panel.
const LINES_MAX: usize = 5;

fn drawn(figure: &Figure) -> tamarisk_plot::Figure {
    let across = figure.lines().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    let panels = figure.panels.iter().flat_map(|panel| {
        // Response times grow without bound towards the greatest stable rate.
        let is_time = panel.y.contains("response");
        panel.lines.chunks(LINES_MAX).map(move |lines| Panel {
            title: panel.y.to_owned(),
            unit: Unit::Count,
            scale: if is_time { Scale::Log } else { Scale::Linear },
            lines: lines.iter().zip(Colour::ALL).map(line).collect(),
            levels: vec![],
        })
    });
    tamarisk_plot::Figure {
        title: figure.title.to_owned(),
        subtitle: figure.subtitle.clone(),
        across: Across {
            label: figure.x.to_owned(),
            from: 0.0,
            to: across.fold(0.0, f64::max),
            scale: Scale::Linear,
        },
        spans: vec![],
        panels: panels.collect(),
    }
}

fn line((line, colour): (&figures::Line, Colour)) -> Line {
    Line { name: line.name.clone(), colour, points: line.points.clone() }
}
