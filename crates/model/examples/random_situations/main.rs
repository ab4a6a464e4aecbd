//! How admission laws do in situations that are drawn at random, beside rivals that know the number
//! of workers. `--help` lists the options.
//!
//! A score is a law's goodput (answers within the target, a second) ÷ the better goodput of two
//! rivals, `plain-queue` and `predict-gate-trim`; before parts, the rivals have a stage for each
//! part. In light load a score is the share of requests that were neither rejected nor dropped.

mod arguments;
mod bars;
#[cfg(test)]
mod bounds;
mod draw;
mod families;
mod page;
mod play;
mod situation;
mod table;

use std::error::Error;
use std::fs;
use std::path::Path;

use self::arguments::{Arguments, Form, USAGE};
use self::families::Family;
use self::play::{Played, Set};
use self::table::Summary;

type Failure = Box<dyn Error + Send + Sync>;

/// Situations of a family that are written as scenario files: those in which the first law did
/// worst.
const WORST_WRITTEN: usize = 3;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let Arguments { set, folder, form } = arguments;
    if form == Form::Help {
        print!("{USAGE}");
        return Ok(());
    }
    let played = play::all(&set)?;
    match form {
        Form::Page => return page::write(&set, &played),
        Form::Json => print!("{}", table::json(&set, &played)),
        Form::Table | Form::Help => print!("{}", table::table(&set, &played)),
    }
    write_worst(&folder, &set, &played)
}

fn write_worst(folder: &Path, set: &Set, played: &[Played]) -> Result<(), Failure> {
    let cannot = |error| format!("{} cannot be written: {error}", folder.display());
    fs::create_dir_all(folder).map_err(cannot)?;
    for family in set.families.iter().copied() {
        for (score, number) in Summary::new(played, family, 0).worst(WORST_WRITTEN) {
            let file = format!("{}-{}-{number}.toml", family.name(), set.seed);
            fs::write(folder.join(file), scenario(set, family, *number, *score)).map_err(cannot)?;
        }
    }
    Ok(())
}

/// The scenario file of a situation.
fn scenario(set: &Set, family: Family, number: u64, score: f64) -> String {
    let situation = family.situation(set.seed, number);
    format!(
        "# {}, number {number} of seed {}: {} scores {score:.3} in a run with seed {}.\n\
         # {}\n\n{}",
        family.name(),
        set.seed,
        set.laws[0].name,
        play::seed_of_run(set.seed, number),
        situation.description,
        situation.tried
    )
}
