//! Draws the papers' figures of overload control from simulations, and prints the values that the papers
//! print beside ours: the tables of `docs/FIGURES.md`.
//! ```text
//! cargo run --release -p tamarisk-model --example paper_figures -- docs/figures
//! ```

#[path = "../tests/papers/arashi.rs"]
mod arashi;
#[path = "../tests/papers/chart.rs"]
mod chart;
#[path = "../tests/papers/course.rs"]
mod course;
#[path = "../tests/papers/degradation.rs"]
mod degradation;
#[path = "../tests/papers/termination.rs"]
mod termination;

use std::path::PathBuf;
use std::{env, fs, io};

use chart::Chart;
use course::Part;
use termination::{INDEX, RANKING, Shift};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "out/figures".to_owned()));
    fs::create_dir_all(&folder)?;
    let shift = Shift::new(1);
    let charts: [&dyn Fn() -> Chart; 16] = [
        &arashi::controller,
        &arashi::massive_spike,
        &degradation::quality_alone,
        &degradation::quality_then_admission,
        &|| arashi::classes(false),
        &|| arashi::classes(true),
        &termination::long_requests,
        &termination::threshold_function,
        &|| shift.over_time(),
        &|| shift.distribution(),
        &|| RANKING.beside_admission(),
        &|| INDEX.beside_admission(),
        &|| RANKING.beside_fixed(),
        &|| INDEX.beside_fixed(),
        &|| RANKING.watermarks(),
        &|| INDEX.watermarks(),
    ];
    for chart in charts {
        let chart = chart();
        let path = folder.join(chart.name).with_extension("svg");
        fs::write(&path, chart.drawn().to_svg())?;
        println!("{}: {}", path.display(), chart.title);
    }
    print_types();
    print_controllers();
    print_classes();
    print_shift(&shift);
    Ok(())
}

/// [Welsh03 fig. 9]
fn print_types() {
    println!("\n| type | 16 users | under control | 1024 users | under control |");
    println!("| --- | --- | --- | --- | --- |");
    for ((name, printed), here) in arashi::TYPES.iter().zip(arashi::BY_TYPE).zip(arashi::by_type(1))
    {
        let cell = |index: usize| format!("{} → {:.2} s", printed[index], here[index]);
        println!("| {name} | {} | {} | {} | {} |", cell(0), cell(1), cell(2), cell(3));
    }
}

/// [Welsh03 fig. 11]
fn print_controllers() {
    println!("\n| type | p90, one for each | rejected | p90, one for all | rejected |");
    println!("| --- | --- | --- | --- | --- |");
    let (rows, all) = arashi::by_controller(1);
    for ((name, printed), here) in arashi::TYPES.iter().zip(arashi::BY_CONTROLLER).zip(rows) {
        let seconds = |index: usize| format!("{} → {:.2} s", printed[index], here[index]);
        let percent = |index: usize| format!("{} → {:.1} %", printed[index], here[index]);
        println!("| {name} | {} | {} | {} | {} |", seconds(0), percent(1), seconds(2), percent(3));
    }
    println!("| all | | {:.1} % | | {:.1} % |", all[0], all[1]);
}

/// [Welsh02 figs 58 and 59]
fn print_classes() {
    println!("\n| classes | the high one rejected | the low one |\n| --- | --- | --- |");
    let (from, until) = arashi::HIGH;
    for (told_apart, name, printed) in
        [(false, "not told apart", (57.6, 55.5)), (true, "told apart", (48.8, 87.9))]
    {
        let part = arashi::two_classes(told_apart, 1).between(from, until);
        let [high, low] = arashi::high_and_low(&part, told_apart).map(|part| 100.0 * part.lost());
        println!("| {name} | {} → {high:.1} % | {} → {low:.1} % |", printed.0, printed.1);
    }
}

/// [SERT06 figs 9 and 10]
fn print_shift(shift: &Shift) {
    let during = shift.during();
    let [admission, sert] = &during;
    let gain = 100.0 * (sert.throughput() / admission.throughput() - 1.0);
    println!("\n| during the shift | AC | SERT |\n| --- | --- | --- |");
    println!("| throughput | | 209 → {gain:.0} % more |");
    let row = |name: &str, unit: &str, printed: [f64; 2], of: &dyn Fn(&Part) -> f64| {
        let [ac, with] = [of(admission), of(sert)];
        println!(
            "| {name} | {} → {ac:.2} {unit} | {} → {with:.2} {unit} |",
            printed[0], printed[1]
        );
    };
    row("mean response time", "s", [1.413, 0.640], &Part::mean);
    row("within a second", "%", [45.3, 81.7], &|part| 100.0 * part.within(1.0));
}
