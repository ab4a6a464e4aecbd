//! What the mechanisms and constants of the work limit are good for.
//!
//! A copy of the workspace is changed in one constant at a time, and the situations are run
//! with it. A row says where that is worse, or better, by more than chance.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
        off: &[("curve.rs", "WITHIN", "0.0")],
    },
    Mechanism {
        name: "the first answers are looked at one by one",
        off: &[("search.rs", "FIRST", "0")],
    },
    Mechanism {
        name: "growth waits for a share of the limit's answers",
        off: &[("growth.rs", "ANSWERS_SHARE", "0.0")],
    },
    Mechanism { name: "trials of a higher limit", off: &[("search.rs", "UP_EVERY", "1_000_000")] },
    Mechanism {
        name: "trials of a lower limit",
        off: &[
            ("search.rs", "DOWN_EVERY", "1_000_000"),
            ("search.rs", "DOWN_EVERY_MAX", "1_000_000"),
        ],
    },
    Mechanism {
        name: "a held limit grows while answers are unhurried",
        off: &[("search.rs", "UNHURRIED", "0.0")],
    },
    Mechanism { name: "the margin by the wait", off: &[("search.rs", "MARGIN_WAIT", "0.0")] },
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
];

/// A number that a situation came to, for each seed.
struct Row {
    name: String,
    /// Whether more is better.
    more_is_better: bool,
    runs: Vec<f64>,
}

/// A constant in the source.
struct Constant {
    file: PathBuf,
    name: String,
    kind: String,
    value: f64,
}

/// Prints both tables; with `files`, only that of the constants in these.
pub(crate) fn run(workspace: &Path, files: &[String]) -> Result<()> {
    let copy = Copy::new(workspace)?;
    for file in files {
        let path = copy.root.join(LAW).join(file);
        ensure!(path.is_file(), "there is no file {file} in {LAW}");
    }
    let base = copy.situations()?;
    let mechanisms = if files.is_empty() { MECHANISMS } else { &[] };
    if !mechanisms.is_empty() {
        println!("| without | is worse in | is better in |\n| --- | --- | --- |");
    }
    for Mechanism { name, off } in mechanisms {
        let changed = copy.with(off, &base)?;
        println!("| {name} | {} | {} |", changed.worse, changed.better);
    }
    println!("\n| constant | value | half | double |\n| --- | --- | --- | --- |");
    for constant in copy.constants()? {
        let Constant { file, name, kind, value } = &constant;
        let file = file.display().to_string();
        if !files.is_empty() && !files.contains(&file) {
            continue;
        }
        let cells = [half(*value), double(*value)].map(|value| {
            let text = if kind == "f64" { format!("{value:?}") } else { format!("{value:.0}") };
            let changed = copy.with(&[(file.as_str(), name.as_str(), text.as_str())], &base)?;
            Ok(format!("{text}: {}", changed.cell()))
        });
        let [half, double] = cells.map(|cell: Result<String>| cell);
        println!("| `{file}` {name} | {value} | {} | {} |", half?, double?);
    }
    Ok(())
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
    fn cell(&self) -> String {
        match (self.worse.as_str(), self.better.as_str()) {
            ("–", "–") => "the same".into(),
            (worse, "–") => format!("worse: {worse}"),
            ("–", better) => format!("better: {better}"),
            (worse, better) => format!("worse: {worse}; better: {better}"),
        }
    }

    fn new(base: &[Row], changed: &[Row]) -> Self {
        let mut sides = [Vec::new(), Vec::new()];
        for (before, after) in base.iter().zip(changed) {
            let differences: Vec<f64> =
                before.runs.iter().zip(&after.runs).map(|(before, after)| after - before).collect();
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
        Self { worse, better }
    }
}

/// A copy of the workspace that may be changed.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn new(workspace: &Path) -> Result<Self> {
        let root = workspace.join("target/ablation");
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

    /// What differs with other values of some constants; the copy is as before afterwards.
    fn with(&self, constants: &[(&str, &str, &str)], base: &[Row]) -> Result<Changed> {
        let mut before = Vec::new();
        for (file, name, value) in constants {
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
        eprintln!("xtask: ablation: {}", constants.iter().map(|it| it.1).collect::<String>());
        Ok(match rows {
            Ok(rows) => Changed::new(base, &rows),
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

    fn constants(&self) -> Result<Vec<Constant>> {
        let mut files: Vec<_> = fs::read_dir(self.root.join(LAW))?
            .map(|file| Ok(file?.path()))
            .collect::<Result<_>>()?;
        files.sort();
        let mut constants = Vec::new();
        for path in files {
            for line in fs::read_to_string(&path)?.lines() {
                let Some((name, kind, value)) = constant(line) else { continue };
                let file = path.file_name().context("a file has a name")?.into();
                constants.push(Constant { file, name, kind, value });
            }
        }
        Ok(constants)
    }
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
        runs: runs.iter().filter_map(Value::as_f64).collect(),
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
    fn a_factor_is_halved_in_its_distance_from_one() {
        assert_eq!((half(0.25), double(0.25)), (0.125, 0.5));
        assert_eq!((half(1.2), double(1.2)), (1.1, 1.4));
        assert_eq!((half(0.8), double(0.8)), (0.9, 0.6));
    }

    #[test]
    fn what_chance_explains_is_not_told() {
        let rows = |runs: &[f64]| {
            vec![Row { name: "a: b".into(), more_is_better: true, runs: runs.to_vec() }]
        };
        let base = rows(&[0.5, 0.6, 0.7, 0.8]);
        assert_eq!(Changed::new(&base, &rows(&[0.6, 0.5, 0.8, 0.7])).cell(), "the same");
        let changed = Changed::new(&base, &rows(&[0.4, 0.5, 0.6, 0.7]));
        assert!(changed.cell().starts_with("worse: a: b -0.100"), "{}", changed.cell());
    }
}
