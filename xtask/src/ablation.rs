//! What the mechanisms and constants of the work limit are good for.
//!
//! Copies of the workspace, one for each core, are changed in one constant at a time, and the
//! situations are run with it. A row says where that is worse, or better, by more than chance.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The law, in the workspace.
const LAW: &str = "crates/laws/src/work_limit";
const SEEDS: &str = "20";
/// Student's t for the means of 20 differences, at 95 per cent.
const T: f64 = 2.09;
/// A difference that is smaller is of no interest, be it sure or not.
const DIFFERENCE_MIN: f64 = 0.005;

/// A mechanism, and the constants that switch it off: a file, a name, a value.
struct Mechanism {
    name: &'static str,
    off: &'static [(&'static str, &'static str, &'static str)],
}

const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "the first number is read from the curve",
        off: &[("curve.rs", "SURE", "f64::INFINITY")],
    },
    Mechanism { name: "the order of the ends counts", off: &[("curve.rs", "OVERTAKEN", "0.0")] },
    Mechanism {
        name: "long work is sent with caution until few workers are ruled out",
        off: &[("curve.rs", "CAUTIOUS", "0.0")],
    },
    Mechanism {
        name: "long answers are a queue only if somebody waits",
        off: &[("curve.rs", "HARDLY_SURE", "f64::INFINITY")],
    },
    Mechanism {
        name: "a request whose predecessors are forgotten is left out",
        off: &[("curve.rs", "FORGOTTEN", "f64::INFINITY")],
    },
    Mechanism {
        name: "the first answers are looked at one by one",
        off: &[("search/mod.rs", "FIRST", "0")],
    },
    Mechanism {
        name: "the service of a kind is measured from six answers on",
        off: &[("search/verdict.rs", "ANSWERS_MEASURED", "0.0")],
    },
    Mechanism {
        name: "growth waits for a share of the limit's answers",
        off: &[("growth.rs", "ANSWERS_SHARE", "0.0")],
    },
    Mechanism {
        name: "trials of a higher limit",
        off: &[("search/mod.rs", "UP_EVERY", "1_000_000")],
    },
    Mechanism {
        name: "trials of a lower limit",
        off: &[
            ("search/mod.rs", "DOWN_EVERY", "1_000_000"),
            ("search/verdict.rs", "DOWN_EVERY_MAX", "1_000_000"),
        ],
    },
    Mechanism {
        name: "a held limit grows while answers are unhurried",
        off: &[("search/mod.rs", "UNHURRIED", "0.0")],
    },
    Mechanism { name: "the margin by the wait", off: &[("search/mod.rs", "MARGIN_WAIT", "0.0")] },
    Mechanism {
        name: "the queue's bound is trimmed",
        off: &[("queue_trim.rs", "TRIM_MIN", "1.0")],
    },
    Mechanism {
        name: "who is next is decided by the own service",
        off: &[("mod.rs", "DUE_SERVICES", "1e9")],
    },
    Mechanism { name: "late ones are dropped at dequeue", off: &[("mod.rs", "WAITED_MIN", "1e9")] },
    Mechanism {
        name: "places are kept free of long work",
        off: &[("kept_places.rs", "LATE", "1e9")],
    },
    Mechanism { name: "long stays are parked", off: &[("promises.rs", "PARK", "1e9")] },
    Mechanism {
        name: "best effort where the target is shorter than the service",
        off: &[("promises.rs", "BEST_EFFORT", "0.0")],
    },
    Mechanism { name: "pauses are told", off: &[("stall.rs", "ANSWERS", "1e9")] },
    Mechanism {
        name: "patience is learned",
        off: &[("client_patience.rs", "LEAVING_MOST", "2.0")],
    },
    Mechanism { name: "fair shares of clients", off: &[("sharing.rs", "STANDING", "1e9")] },
    Mechanism {
        name: "service that varies more needs more answers",
        off: &[("kinds.rs", "SPREAD_MAX", "1.0"), ("service.rs", "SPREAD_MAX", "1.0")],
    },
    Mechanism {
        name: "a stream that is overtaken waits for no place",
        off: &[("first_data.rs", "ORDERED", "f64::INFINITY")],
    },
    Mechanism {
        name: "streams wait longer by chance where their first data takes long",
        off: &[("streams.rs", "CHANCE", "0.0")],
    },
    Mechanism {
        name: "one more stream is sent to see, ever more seldom",
        off: &[("streams.rs", "REFUTED_MAX", "0")],
    },
    Mechanism {
        name: "no more streams are sent than bring out more",
        off: &[("stream_pace.rs", "FOLLOWS", "-1e9")],
    },
    Mechanism {
        name: "first data that takes longer than before is no want of places",
        off: &[("streams.rs", "SLOW", "u32::MAX")],
    },
];

/// A number that a situation came to, for each seed.
struct Row {
    name: String,
    /// Whether more is better.
    more_is_better: bool,
    runs: Vec<Option<f64>>,
}

/// A constant in the source.
struct Constant {
    /// Below [`LAW`].
    file: String,
    name: String,
    kind: String,
    value: f64,
}

impl Constant {
    /// Half and double of it, as the source has them.
    fn half_and_double(&self) -> [String; 2] {
        [half(self.value), double(self.value)].map(|value| match self.kind.as_str() {
            "f64" => format!("{value:?}"),
            _ => format!("{value:.0}"),
        })
    }
}

/// The law with other values of some constants: a file, a name, a value.
struct Variant(Vec<[String; 3]>);

impl Variant {
    fn new(constants: &[(&str, &str, &str)]) -> Self {
        Self(constants.iter().map(|&it| <[&str; 3]>::from(it).map(str::to_owned)).collect())
    }
}

impl Display for Variant {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(|it| it.join(" ")).collect();
        out.write_str(&texts.join(", "))
    }
}

/// Prints both tables; with `files`, only what is in these.
pub(crate) fn run(workspace: &Path, files: &[String]) -> Result<()> {
    let law = workspace.join(LAW);
    for file in files {
        ensure!(law.join(file).is_file(), "there is no file {file} in {LAW}");
    }
    let is_meant = |file: &str| files.is_empty() || files.iter().any(|it| it == file);
    let in_meant = |it: &&Mechanism| it.off.iter().any(|(file, ..)| is_meant(file));
    let mechanisms: Vec<_> = MECHANISMS.iter().filter(in_meant).collect();
    let mut constants = constants(&law)?;
    constants.retain(|it| is_meant(&it.file));

    let mut variants: Vec<_> = mechanisms.iter().map(|it| Variant::new(it.off)).collect();
    for constant in &constants {
        for value in constant.half_and_double() {
            variants.push(Variant::new(&[(&constant.file, &constant.name, &value)]));
        }
    }
    let changes = measured(workspace, &variants)?;
    let (of_mechanisms, of_constants) = changes.split_at(mechanisms.len());
    if !mechanisms.is_empty() {
        print_mechanisms(&mechanisms, of_mechanisms);
    }
    print_constants(&constants, of_constants);
    Ok(())
}

fn print_mechanisms(mechanisms: &[&Mechanism], changes: &[Changed]) {
    println!("| without | is worse in | is better in |\n| --- | --- | --- |");
    for (Mechanism { name, .. }, changed) in mechanisms.iter().zip(changes) {
        println!("| {name} | {} | {} |", changed.worse, changed.better);
    }
    println!();
}

/// Two of `changes` are of each constant.
fn print_constants(constants: &[Constant], changes: &[Changed]) {
    println!("| constant | value | half | double |\n| --- | --- | --- | --- |");
    let mut same = Vec::new();
    for (constant, changed) in constants.iter().zip(changes.chunks(2)) {
        let Constant { file, name, value, .. } = constant;
        if changed.iter().all(Changed::is_none) {
            same.push(format!("`{file}` {name}"));
            continue;
        }
        let cells = constant.half_and_double().into_iter().zip(changed);
        let cells: Vec<_> =
            cells.map(|(at, changed)| format!("{at}: {}", changed.cell())).collect();
        println!("| `{file}` {name} | {value} | {} |", cells.join(" | "));
    }
    println!("\nHalf and double of these change nothing beyond chance: {}.", same.join(", "));
}

/// What each variant changes, in their order; each core takes the next one.
fn measured(workspace: &Path, variants: &[Variant]) -> Result<Vec<Changed>> {
    let cores = thread::available_parallelism()?.get();
    let copies: Vec<_> =
        (0..cores).map(|number| Copy::new(workspace, number)).collect::<Result<_>>()?;
    let base = copies[0].situations()?;
    let waiting = Mutex::new(variants.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = |copy: &Copy| -> Result<()> {
        loop {
            let next = waiting.lock().expect("no other core has failed").next();
            let Some((number, variant)) = next else { return Ok(()) };
            let changed = copy.with(variant, &base)?;
            let mut done = done.lock().expect("no other core has failed");
            done.push((number, changed));
            let (count, changed) = (done.len(), done[done.len() - 1].1.cell());
            eprintln!("xtask: ablation: {count} of {}: {variant}: {changed}", variants.len());
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = copies.iter().map(|copy| scope.spawn(|| work(copy))).collect();
        threads.into_iter().try_for_each(|it| it.join().expect("errors are returned"))
    })?;
    let mut done = done.into_inner().expect("no core has failed");
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, changed)| changed).collect())
}

/// Half of a constant; of one between ½ and 2, half of its distance from 1.
fn half(value: f64) -> f64 {
    if near_one(value) { rounded(1.0 + (value - 1.0) / 2.0) } else { value / 2.0 }
}

fn double(value: f64) -> f64 {
    if near_one(value) { rounded(1.0 + (value - 1.0) * 2.0) } else { value * 2.0 }
}

fn near_one(value: f64) -> bool {
    value > 0.5 && value < 2.0 && value != 1.0
}

fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// What differs, in words.
struct Changed {
    worse: String,
    better: String,
}

impl Changed {
    fn is_none(&self) -> bool {
        (self.worse.as_str(), self.better.as_str()) == ("–", "–")
    }

    fn cell(&self) -> String {
        match (self.worse.as_str(), self.better.as_str()) {
            _ if self.is_none() => "the same".into(),
            (worse, "–") => format!("worse: {worse}"),
            ("–", better) => format!("better: {better}"),
            (worse, better) => format!("worse: {worse}; better: {better}"),
        }
    }

    fn new(base: &[Row], changed: &[Row]) -> Result<Self> {
        let names = |rows: &[Row]| rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
        ensure!(names(base) == names(changed), "the situations are not those of the unchanged law");
        let mut sides = [Vec::new(), Vec::new()];
        for (before, after) in base.iter().zip(changed) {
            // Seed by seed: where one of the two runs has no number, there is no difference.
            let pairs = before.runs.iter().zip(&after.runs);
            let differences: Vec<f64> =
                pairs.filter_map(|(before, after)| Some((*after)? - (*before)?)).collect();
            if differences.len() < 2 {
                continue;
            }
            let count = differences.len() as f64;
            let mean = differences.iter().sum::<f64>() / count;
            let square = differences.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            let interval = T * (square / (count - 1.0) / count).sqrt();
            if mean.abs() > interval.max(DIFFERENCE_MIN) {
                let text = format!("{} {mean:+.3} ± {interval:.3}", before.name);
                sides[usize::from((mean > 0.0) == before.more_is_better)].push(text);
            }
        }
        let [worse, better] = sides.map(|side| match side.is_empty() {
            true => "–".to_owned(),
            false => side.join(", "),
        });
        Ok(Self { worse, better })
    }
}

/// A copy of the workspace that may be changed.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn new(workspace: &Path, number: usize) -> Result<Self> {
        let root = workspace.join(format!("target/ablation/{number}"));
        let listed = Command::new("git").args(["ls-files"]).current_dir(workspace).output();
        let listed = listed.context("git could not be started; it lists what is to be copied")?;
        ensure!(listed.status.success(), "this is not a checkout: git ls-files failed");
        for file in String::from_utf8(listed.stdout)?.lines() {
            let to = root.join(file);
            fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            fs::copy(workspace.join(file), &to).with_context(|| file.to_owned())?;
        }
        Ok(Self { root })
    }

    /// What differs in a variant; the copy is as before afterwards.
    fn with(&self, variant: &Variant, base: &[Row]) -> Result<Changed> {
        let mut before = Vec::new();
        for [file, name, value] in &variant.0 {
            let path = self.root.join(LAW).join(file);
            let source = fs::read_to_string(&path)?;
            let changed = replaced(&source, name, value)
                .with_context(|| format!("there is no constant {name} in {file}"))?;
            fs::write(&path, changed)?;
            before.push((path, source));
        }
        let rows = self.situations();
        for (path, source) in before.into_iter().rev() {
            fs::write(path, source)?;
        }
        Ok(match rows.and_then(|rows| Changed::new(base, &rows)) {
            Ok(changed) => changed,
            Err(error) => Changed { worse: format!("{error:#}"), better: "–".into() },
        })
    }

    /// Runs the situations.
    fn situations(&self) -> Result<Vec<Row>> {
        let output = Command::new(env!("CARGO"))
            .args(["run", "--release", "--quiet", "--package", "tamarisk-model"])
            .args(["--example", "situations", "--", "work-limit", "--json", "--seeds", SEEDS])
            .envs([
                ("CARGO_TARGET_DIR", "target"),
                ("CARGO_INCREMENTAL", "1"),
                ("CARGO_PROFILE_RELEASE_LTO", "off"),
                ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
                ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
            ])
            .current_dir(&self.root)
            .stderr(Stdio::null())
            .output()
            .context("cargo could not be started")?;
        ensure!(output.status.success(), "it does not run with this value");
        String::from_utf8(output.stdout)?.lines().map(row).collect()
    }
}

/// The constants of the law, by file; those of tests are not the law's.
fn constants(law: &Path) -> Result<Vec<Constant>> {
    let mut constants = Vec::new();
    for path in sources(law)? {
        let file = path.strip_prefix(law)?.display().to_string();
        let source = fs::read_to_string(&path)?;
        for line in source.lines().take_while(|line| *line != "mod tests {") {
            let Some((name, kind, value)) = constant(line) else { continue };
            constants.push(Constant { file: file.clone(), name, kind, value });
        }
    }
    Ok(constants)
}

/// The files in a folder and in those below it.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { Ok(vec![path]) };
    Ok(paths.into_iter().map(below).collect::<Result<Vec<_>>>()?.concat())
}

/// The name, type and value of a constant number.
fn constant(line: &str) -> Option<(String, String, f64)> {
    let (_, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let (kind, value) = rest.strip_suffix(';')?.split_once(" = ")?;
    let value = value.replace('_', "").parse().ok()?;
    Some((name.into(), kind.into(), value))
}

/// The source with another value of a constant.
fn replaced(source: &str, name: &str, value: &str) -> Option<String> {
    let start = source.find(&format!("const {name}: "))?;
    let from = start + source[start..].find(" = ")? + 3;
    let until = from + source[from..].find(';')?;
    Some([&source[..from], value, &source[until..]].concat())
}

/// A row of the situations, as they print it.
fn row(line: &str) -> Result<Row> {
    let row: Value = serde_json::from_str(line)?;
    let text = |key: &str| row[key].as_str().map(str::to_owned).context("a text is missing");
    let runs = row["runs"].as_array().context("the runs are missing")?;
    Ok(Row {
        name: format!("{}: {}", text("situation")?, text("what")?),
        more_is_better: text("sign")? == "≥",
        runs: runs.iter().map(Value::as_f64).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_and_replaced() {
        let source = "/// So many.\nconst A: f64 = 0.25;\n    const B: u32 = 1_000;\n";
        let found: Vec<_> = source.lines().filter_map(constant).collect();
        let [a, b] = &found[..] else { panic!("{found:?}") };
        assert_eq!((a.0.as_str(), a.2), ("A", 0.25));
        assert_eq!((b.0.as_str(), b.1.as_str(), b.2), ("B", "u32", 1000.0));
        assert!(replaced(source, "B", "5").unwrap().contains("const B: u32 = 5;"));
        assert!(replaced(source, "C", "5").is_none());
    }

    #[test]
    fn every_constant_that_switches_a_mechanism_off_is_one_of_the_law() {
        let law = Path::new(crate::WORKSPACE).join(LAW);
        let constants = constants(&law).unwrap();
        for (file, name, _) in MECHANISMS.iter().flat_map(|it| it.off) {
            let is_found = constants.iter().any(|it| it.file == *file && it.name == *name);
            assert!(is_found, "{file} {name}");
        }
    }

    #[test]
    fn a_factor_is_halved_in_its_distance_from_one() {
        assert_eq!((half(0.25), double(0.25)), (0.125, 0.5));
        assert_eq!((half(1.2), double(1.2)), (1.1, 1.4));
        assert_eq!((half(0.8), double(0.8)), (0.9, 0.6));
    }

    #[test]
    fn what_chance_explains_is_not_told() {
        let base = rows(&["0.5", "0.6", "0.7", "0.8"]);
        let cell = |runs: &[&str]| Changed::new(&base, &rows(runs)).unwrap().cell();
        assert_eq!(cell(&["0.6", "0.5", "0.8", "0.7"]), "the same");
        let changed = cell(&["0.4", "0.5", "0.6", "0.7"]);
        assert!(changed.starts_with("worse: a: b -0.100"), "{changed}");
    }

    #[test]
    fn runs_are_compared_seed_by_seed() {
        let base = rows(&["0.5", "0.6", "0.7", "0.8"]);
        let cell = |runs: &[&str]| Changed::new(&base, &rows(runs)).unwrap().cell();
        assert_eq!(cell(&["null", "0.6", "0.7", "0.8"]), "the same");
        assert_eq!(cell(&["null", "0.6", "null", "null"]), "the same", "one pair says nothing");
        assert!(Changed::new(&base, &[]).is_err());
    }

    /// What the situations print of one row.
    fn rows(runs: &[&str]) -> Vec<Row> {
        let runs = runs.join(",");
        let text = format!(r#"{{"situation":"a","what":"b","sign":"≥","runs":[{runs}]}}"#);
        vec![row(&text).unwrap()]
    }
}
