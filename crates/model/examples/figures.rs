//! Writes the figures of [Welsh02 ch. 4] that come from the model, as CSV and as SVG.
//! ```text
//! cargo run --release -p tamarisk-model --example figures -- out/figures
//! ```

use std::path::PathBuf;
use std::{env, fs, io};

use tamarisk_model::figures::{self, Figure};
use tamarisk_plot::{Across, Colour, Line, Panel, Scale, Unit};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "out/figures".to_owned()));
    fs::create_dir_all(&folder)?;
    for figure in figures::all() {
        let path = folder.join(format!("welsh02-{}.csv", figure.number));
        fs::write(&path, figure.to_csv())?;
        fs::write(path.with_extension("svg"), drawn(&figure).to_svg())?;
        println!("{} and .svg: {}", path.display(), figure.title);
        for line in &figure.lines {
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
    // Response times grow without bound towards the greatest stable rate.
    let scale = if figure.y.contains("response") { Scale::Log } else { Scale::Linear };
    let across = figure.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    let panels = figure.lines.chunks(LINES_MAX).map(|lines| Panel {
        title: figure.y.to_owned(),
        unit: Unit::Count,
        scale,
        lines: lines.iter().zip(Colour::ALL).map(line).collect(),
        levels: vec![],
    });
    tamarisk_plot::Figure {
        title: figure.title.to_owned(),
        subtitle: format!("Figure {} of Welsh 2002, solved.", figure.number),
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
