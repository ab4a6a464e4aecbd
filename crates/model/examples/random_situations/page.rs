//! Writes `docs/generated/RANDOM-SITUATIONS.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tamarisk_catalogue::AdmissionEntry;

use crate::Failure;
use crate::bars::Bar;
use crate::families::Family;
use crate::play::{self, Played, RIVALS, Set};
use crate::table::{self, Summary};

/// All that find a limit of their own. The first is the one that the bars are for.
const LAWS: [&str; 4] = ["work-limit", "gradient2", "vegas", "min-rtt-gradient"];

const FILE: &str = "docs/generated/RANDOM-SITUATIONS.md";

/// The laws of the page.
///
/// # Errors
/// If the catalogue lacks one.
pub(crate) fn laws() -> Result<Vec<&'static AdmissionEntry>, Failure> {
    LAWS.into_iter().map(play::law).collect()
}

/// # Errors
/// If the file cannot be written.
pub(crate) fn write(set: &Set, played: &[Played]) -> Result<(), Failure> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FILE);
    fs::write(file, page(set, played)).map_err(|error| format!("{FILE}: {error}").into())
}

fn page(set: &Set, played: &[Played]) -> String {
    let (count, seed) = (set.numbers.end, set.seed);
    let (law, [rival, other]) = (set.laws[0].name, RIVALS);
    let families = families(set);
    let bars = bars(set, played);
    let table = table::table(set, played);
    let worst = worst(set, played);
    format!(
        "# Laws in random situations

How admission laws do before upstreams that are drawn at random, in the simulator. This page is \
written by `cargo xtask tables --all`, and alone by
```
cargo run --release -p tamarisk-model --example random_situations -- --page --count {count} --seed {seed}
```

## What a score is
A law's goodput (answers within the target, a second) ÷ the better goodput of two rivals that know \
the number of workers, *{rival}* and *{other}*. The law has to find a limit without it. Before \
several parts the rivals have a stage for each part. **In light load** a score is the share of \
requests that were neither rejected nor dropped.

A pool has 1 to 120 workers with a mean service of 2 ms to 1 s, constant, uniform, Erlang, \
exponential, hyperexponential or log-normal; a part has 1 to 16 workers and 5 to 500 ms. Targets \
are 2.5 to 40 times the longest mean service. A run is measured for 40 s to some minutes, after a \
warm-up of three tenths of that. Loads are multiples of the capacity.

{families}
## The bars of {law}
What *{law}* has in {count} situations of each family, and what it should have. The bars of the \
worst are those of 1,000 situations; *cores* has the bars of one pool.

{bars}
## All laws
{table}
## The worst of {law}
{worst}
To see one, write its scenario file and run it:
```
cargo run --release -p tamarisk-model --example random_situations -- --family parts --seed {seed} --only NUMBER
tamarisk sim compare target/random-situations/parts-{seed}-NUMBER.toml --laws {law},{rival}
```
"
    )
}

fn families(set: &Set) -> String {
    let mut table = "| family | situations |\n| --- | --- |\n".to_owned();
    for family in &set.families {
        let _ = writeln!(table, "| {} | {} |", family.name(), family.summary());
    }
    table
}

fn bars(set: &Set, played: &[Played]) -> String {
    let mut table = "| family | mean | bar | 5th percentile | bar | worst | bar | met |\n\
                     | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for family in set.families.iter().copied() {
        let summary = Summary::new(played, family, 0);
        let bar = Bar::of(family);
        let missed = bar.missed(&summary);
        let met = match missed.is_empty() {
            true => "yes".to_owned(),
            false => format!("**no**: {}", missed.join(", ")),
        };
        let _ = writeln!(
            table,
            "| {} | {:.3} | {:.2} | {:.3} | {:.2} | {:.3} | {:.2} | {met} |",
            family.name(),
            summary.mean(),
            bar.mean,
            summary.percentile(0.05),
            bar.fifth,
            summary.worst(1)[0].0,
            bar.worst,
        );
    }
    table
}

fn worst(set: &Set, played: &[Played]) -> String {
    let mut table =
        "| family | number | score | what it is |\n| --- | --- | --- | --- |\n".to_owned();
    for family in set.families.iter().copied() {
        let (score, number) = Summary::new(played, family, 0).worst(1)[0];
        let what = worst_description(family, set.seed, number, score);
        let _ = writeln!(table, "| {} | {number} | {score:.3} | {what} |", family.name());
    }
    table
}

/// Where nothing was rejected, there is no worst one.
fn worst_description(family: Family, seed: u64, number: u64, score: f64) -> String {
    match family.is_light() && score == 1.0 {
        true => "nothing was rejected in any".to_owned(),
        false => family.situation(seed, number).description,
    }
}
