//! The project's chores: `cargo xtask test` is everything that CI checks.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
cargo xtask <chore>

  test      everything that CI checks, in the order of the steps below
  fmt       the code is formatted
  lint      clippy finds nothing, with warnings denied
  units     all tests, the documentation's examples included
  models    every interleaving of what is lock-free, by model checking
  docs      the documentation builds without a broken link
  tables    prints the tables of docs/LAWS.md anew";

/// What CI checks: name, environment, and arguments to cargo.
const STEPS: &[(&str, &[(&str, &str)], &[&str])] = &[
    ("fmt", &[], &["fmt", "--all", "--check"]),
    (
        "lint",
        &[],
        &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"],
    ),
    ("units", &[], &["test", "--workspace", "--locked"]),
    (
        "models",
        // In a folder of its own: the flag makes every crate another one.
        &[("RUSTFLAGS", "--cfg tamarisk_loom"), ("CARGO_TARGET_DIR", "target/models")],
        &["test", "--package", "tamarisk-stage", "--lib", "--locked", "model::"],
    ),
    (
        "docs",
        &[("RUSTDOCFLAGS", "--deny warnings")],
        &["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"],
    ),
];

const TABLES: &[&str] =
    &["run", "--release", "--package", "tamarisk-control", "--example", "law_table"];

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_default();
    match run(&chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &str) -> Result<()> {
    match chore {
        "test" => {
            let start = Instant::now();
            for (name, environment, arguments) in STEPS {
                cargo(name, environment, arguments)?;
            }
            eprintln!("xtask: all checks passed in {} s", start.elapsed().as_secs());
            Ok(())
        }
        "tables" => cargo("tables", &[], TABLES),
        _ => match STEPS.iter().find(|(name, ..)| *name == chore) {
            Some((name, environment, arguments)) => cargo(name, environment, arguments),
            None => bail!("there is no chore {chore:?}\n\n{USAGE}"),
        },
    }
}

fn cargo(name: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Result<()> {
    eprintln!("xtask: {name}: cargo {}", arguments.join(" "));
    let start = Instant::now();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("{name}: cargo could not be started"))?;
    if !status.success() {
        bail!("{name} failed: cargo {} ({status})", arguments.join(" "));
    }
    eprintln!("xtask: {name}: passed in {} s", start.elapsed().as_secs());
    Ok(())
}
