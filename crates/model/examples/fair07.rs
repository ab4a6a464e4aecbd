//! Writes figures 5-2 to 5-15 of Fair07 as CSV and as SVG, and prints its tables 1 and 2 beside ours.
//! ```text
//! cargo run --release -p tamarisk-model --example fair07 -- out/figures
//! ```

#[path = "../tests/fair07/figures/mod.rs"]
mod figures;

use std::path::PathBuf;
use std::{env, fs, io};

use figures::open_loop::{PRINTED, Row, row};
use figures::{Figure, open_loop, partly_open, throughput};
use tamarisk_plot::{Across, Colour, Line, Panel, Scale, Unit};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "out/figures".to_owned()));
    fs::create_dir_all(&folder)?;
    let records = open_loop::records(1);
    let parts = [throughput::figures(), partly_open::figures(), open_loop::figures(&records)];
    for figure in parts.iter().flatten() {
        let path = folder.join(format!("fair07-{}.csv", figure.number));
        fs::write(&path, figure.csv())?;
        fs::write(path.with_extension("svg"), drawn(figure).to_svg())?;
        println!("{} and .svg: {}", path.display(), figure.title);
    }
    println!(
        "\n{:<36}{:>10}{:>10}{:>10}{:>10}",
        "", "incoming", "in time", "processed", "rejected"
    );
    for ((system, record), printed) in records.iter().zip(PRINTED) {
        counts(&format!("{}, printed", system.name()), &printed);
        counts("    here", &row(record));
    }
    println!(
        "\n{:<36}{:>20}{:>20}{:>10}",
        "", "in time of processed", "in time of all", "rejected"
    );
    for ((system, record), printed) in records.iter().zip(PRINTED) {
        shares(&format!("{}, printed", system.name()), &printed);
        shares("    here", &row(record));
    }
    Ok(())
}

fn counts(name: &str, row: &Row) {
    let Row { offered, in_time, processed, rejected } = row;
    println!("{name:<44}{offered:>10}{in_time:>10}{processed:>10}{rejected:>10}");
}

fn shares(name: &str, row: &Row) {
    let [processed, all, rejected] =
        [row.in_time_of_processed(), row.in_time_of_all(), row.rejection_rate()]
            .map(|share| format!("{:.1} %", 100.0 * share));
    println!("{name:<44}{processed:>12}{all:>20}{rejected:>10}");
}

fn drawn(figure: &Figure) -> tamarisk_plot::Figure {
    let ends = figure.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    // Response times under overload are a hundred times those of a calm.
    let scale = if figure.number == "5-12" { Scale::Log } else { Scale::Linear };
    let lines = figure.lines.iter().zip(Colour::ALL).map(|(line, colour)| Line {
        name: line.name.clone(),
        colour,
        points: line.points.clone(),
    });
    tamarisk_plot::Figure {
        title: figure.title.clone(),
        subtitle: format!("Figure {} of Fair07, in the simulator.", figure.number),
        across: Across {
            label: figure.x.to_owned(),
            from: 0.0,
            to: ends.fold(0.0, f64::max),
            scale: Scale::Linear,
        },
        spans: vec![],
        panels: vec![Panel {
            title: figure.y.to_owned(),
            unit: Unit::Count,
            scale,
            lines: lines.collect(),
            levels: vec![],
        }],
    }
}
