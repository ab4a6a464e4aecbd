//! Writes figures 5-2 to 5-15 of Fair07 as CSV and as SVG, and prints its tables 1 and 2 beside ours.
//! ```text
//! cargo run --release -p tamarisk-model --example fair07 -- out/figures
//! ```

#[path = "../tests/it/fair07/figures/mod.rs"]
mod figures;

use std::path::PathBuf;
use std::{env, fs, io};

use figures::open_loop::{CROWD, PRINTED, Row, Setting, System, row};
use figures::rig::Record;
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
    for system in [System::Optimal, System::Over] {
        let setting = Setting { first_rate: 5000.0, ..Setting::default() };
        let record = open_loop::run_with(system, 1, setting);
        shares(&format!("    {}, first rate 5000", system.name()), &row(&record));
    }
    println!();
    for (system, record) in &records {
        flows(system.name(), record);
    }
    Ok(())
}

/// What figures 5-13 to 5-15 show: what becomes of requests once 200 clients are 400, and what each
/// stage completes and loses.
fn flows(name: &str, record: &Record) {
    let share = |counts: &[f64], from: u64| open_loop::share_from(record, counts, from as f64);
    println!(
        "{name}: answered {:.3} from {} s on; rejected {:.3} from {CROWD} s on; completed at the \
         stages {:?}, lost there {:?}",
        share(&record.completed, CROWD + 90),
        CROWD + 90,
        share(&record.lost, CROWD),
        open_loop::completed(record),
        record.lost_at
    );
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
