//! Draws the papers' figures of overload control from simulations, and prints the values that the papers
//! print beside ours: the tables of `docs/FIGURES.md`.
//! ```text
//! cargo run --release -p tamarisk-model --example paper_figures -- docs/figures
//! ```

#[path = "../tests/it/papers/arashi.rs"]
mod arashi;
#[path = "../tests/it/papers/chart.rs"]
mod chart;
#[path = "../tests/it/papers/course.rs"]
mod course;
#[path = "../tests/it/papers/degradation.rs"]
mod degradation;
#[path = "../tests/it/papers/termination.rs"]
mod termination;

use std::path::PathBuf;
use std::{env, fs, io};

use arashi::ByController;
use chart::{Chart, Curve};
use course::Part;
use degradation::Remedy;
use termination::{INDEX, LOADS, RANKING, Shift};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "out/figures".to_owned()));
    fs::create_dir_all(&folder)?;
    let shift = Shift::new(1);
    let charts: [&dyn Fn() -> Chart; 17] = [
        &arashi::controller,
        &arashi::by_users,
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
    let charts = charts.map(|chart| chart());
    for chart in &charts {
        let path = folder.join(chart.name).with_extension("svg");
        fs::write(&path, chart.drawn().to_svg())?;
        println!("{}: {}", path.display(), chart.title);
    }
    let drawn = |name: &str| charts.iter().find(|chart| chart.name == name).expect("it is drawn");
    print_users(drawn("welsh02-53"));
    print_types();
    print_controllers();
    print_spent();
    print_classes();
    print_shift(&shift);
    print_by_load(drawn("sert06-11"), [Some("7.5 to 27.9"), Some("38.0 to 75.4")]);
    print_by_load(drawn("sert06-13"), [Some("2.7 to 13.8"), None]);
    let printed = [("0.5 s", 11.2), ("15 s", 4.0), ("adaptive", 4.0)];
    print_thresholds(drawn("sert06-15"), &printed);
    print_thresholds(drawn("sert06-16"), &[]);
    Ok(())
}

/// [Welsh02 fig. 53]: p90 and rejections.
fn print_users(chart: &Chart) {
    let names: Vec<_> = chart.panels[0].curves.iter().map(|curve| curve.name.as_str()).collect();
    let heads = names.iter().map(|name| match *name {
        "without control" => format!("{name} | "),
        name => format!("{name} | rejected | "),
    });
    println!("\n| users | {}", heads.collect::<String>().trim_end());
    println!("| --- |{}", " --- |".repeat(2 * names.len() - 1));
    for users in arashi::USERS {
        let cells = names.iter().map(|name| {
            let at = f64::from(users);
            let p90 = chart.curve(0, name).at(at);
            match *name {
                "without control" => format!("{p90:.1} s | "),
                name => format!("{p90:.1} s | {:.0} % | ", chart.curve(1, name).at(at)),
            }
        });
        println!("| {users} | {}", cells.collect::<String>().trim_end());
    }
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
    let runs = CONTROLLERS.map(|law| arashi::by_controller(1, law));
    let [ByController { types, all }, ..] = &runs;
    for ((name, printed), here) in arashi::TYPES.iter().zip(arashi::BY_CONTROLLER).zip(types) {
        let cells = [0, 1].map(|column| {
            let (p90, rejected) = (printed[2 * column], printed[2 * column + 1]);
            let fate = here[column];
            format!("{p90} → {:.2} s | {rejected} → {:.1} %", fate.p90, fate.rejected)
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!("| all | | {:.1} % | | {:.1} % |", all[0].rejected, all[1].rejected);
    print_laws("one for each", &runs, 0);
    print_laws("one for all", &runs, 1);
}

/// The papers' law, the default, and the plainest.
const CONTROLLERS: [&str; 3] = ["response-time", "predict-gate-trim", "plain-queue"];

/// Answered in time and rejected under each law of [`CONTROLLERS`], in a column of [`ByController`].
fn print_laws(which: &str, runs: &[ByController], column: usize) {
    let heads = CONTROLLERS.map(|law| format!("{law}: in time | rejected"));
    println!("\n| {which} | {} |", heads.join(" | "));
    println!("| --- |{}", " --- | --- |".repeat(CONTROLLERS.len()));
    let row = |name: &str, fates: &dyn Fn(&ByController) -> [arashi::Fate; 2]| {
        let cells = runs.iter().map(|run| {
            let fate = fates(run)[column];
            format!("{:.1} % | {:.1} %", fate.in_time, fate.rejected)
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    for (index, name) in arashi::TYPES.into_iter().enumerate() {
        row(name, &|run| run.types[index]);
    }
    row("all", &|run| run.all);
}

/// [Welsh02 fig. 57]
fn print_spent() {
    let spike = Remedy::QualityThenAdmission.course(1).between(20.0, 200.0);
    println!("\nfigure 57, rejected from 20 s on: 99 → {:.0} %", 100.0 * spike.lost());
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

/// [SERT06 figs 11 to 14]: what SERT loses, and how soon it answers, beside admission control alone. What is
/// printed of the overload as a whole stands in each of its rows.
fn print_by_load(chart: &Chart, printed: [Option<&str>; 2]) {
    println!("\n{}", chart.title);
    println!("\n| load | lost, AC | SERT | lower by | response time, AC | SERT | lower by |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for load in LOADS {
        let of = |panel: usize| ["AC", "SERT"].map(|name| chart.curve(panel, name).at(load));
        let ([lost, sert_lost], [mean, sert_mean]) = (of(0), of(1));
        let lower = |panel: usize, ac: f64, sert: f64| {
            if load <= 100.0 {
                return String::new();
            }
            let by = 100.0 * (1.0 - sert / ac);
            match printed[panel] {
                Some(printed) => format!("{printed} → {by:.1} %"),
                None => format!("{by:.1} %"),
            }
        };
        let (less, sooner) = (lower(0, lost, sert_lost), lower(1, mean, sert_mean));
        println!(
            "| {load} % | {lost:.1} % | {sert_lost:.1} % | {less} | {mean:.3} s | {sert_mean:.3} s \
             | {sooner} |"
        );
    }
}

/// [SERT06 figs 15 and 16]: what is lost with each threshold; `printed` at the capacity.
fn print_thresholds(chart: &Chart, printed: &[(&str, f64)]) {
    println!("\n{}", chart.title);
    let curves = &chart.panels[0].curves;
    let names: Vec<_> = curves.iter().map(|curve| curve.name.as_str()).collect();
    println!("\n| load | {} |", names.join(" | "));
    println!("| --- |{}", " --- |".repeat(names.len()));
    for load in LOADS {
        let cell = |curve: &Curve| {
            let lost = curve.at(load);
            match printed.iter().find(|(name, _)| *name == curve.name) {
                Some((_, printed)) if load == 100.0 => format!("{printed} → {lost:.1} %"),
                _ => format!("{lost:.1} %"),
            }
        };
        let cells: Vec<_> = curves.iter().map(cell).collect();
        println!("| {load} % | {} |", cells.join(" | "));
    }
}
