//! The project's chores: `cargo xtask test` is everything that CI checks.

mod ablation;

use std::path::Path;
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
  tables    prints the tables of docs/LAWS.md anew
  ablation  prints what each mechanism and each constant of the work limit is good for (an hour);
            with names of its files (ablation search.rs service.rs): of the constants of these
  figures   draws the papers' figures in docs/figures anew";

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// One thing that CI checks.
struct Step {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    cargo: &'static str,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", environment: &[], cargo: "fmt --all --check" },
    Step {
        name: "lint",
        environment: &[],
        cargo: "clippy --workspace --all-targets --locked -- --deny warnings",
    },
    Step { name: "units", environment: &[], cargo: "test --workspace --locked" },
    Step {
        name: "models",
        // In a folder of its own: the flag makes every crate another one.
        environment: &[("RUSTFLAGS", "--cfg tamarisk_loom"), ("CARGO_TARGET_DIR", "target/models")],
        cargo: "test --package tamarisk-stage --lib --locked model::",
    },
    Step {
        name: "docs",
        environment: &[("RUSTDOCFLAGS", "--deny warnings")],
        cargo: "doc --workspace --no-deps --document-private-items --locked",
    },
];

/// What is done by name only; a name may stand for more than one step.
const CHORES: &[Step] = &[
    Step {
        name: "tables",
        environment: &[],
        cargo: "run --release --package tamarisk-model --example law_table",
    },
    Step {
        name: "tables",
        environment: &[],
        cargo: "run --release --package tamarisk-control --example upstream_widths",
    },
    Step {
        name: "figures",
        environment: &[],
        cargo: "run --release --package tamarisk-model --example figures docs/figures",
    },
    Step {
        name: "figures",
        environment: &[],
        cargo: "run --release --package tamarisk-control --example fair_figures docs/figures",
    },
];

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
    if chore == "test" {
        let start = Instant::now();
        STEPS.iter().try_for_each(Step::run)?;
        eprintln!("xtask: all checks passed in {} s", start.elapsed().as_secs());
        return Ok(());
    }
    if chore == "ablation" {
        let files: Vec<String> = std::env::args().skip(2).collect();
        return ablation::run(Path::new(WORKSPACE), &files);
    }
    let mut steps = STEPS.iter().chain(CHORES).filter(|step| step.name == chore).peekable();
    if steps.peek().is_none() {
        bail!("there is no chore {chore:?}\n\n{USAGE}");
    }
    steps.try_for_each(Step::run)
}

impl Step {
    fn run(&self) -> Result<()> {
        let Self { name, environment, cargo } = self;
        eprintln!("xtask: {name}: cargo {cargo}");
        let start = Instant::now();
        let status = Command::new(env!("CARGO"))
            .args(cargo.split(' '))
            .envs(environment.iter().copied())
            .current_dir(WORKSPACE)
            .status()
            .with_context(|| format!("{name}: cargo could not be started"))?;
        if !status.success() {
            bail!("{name} failed: cargo {cargo} ({status})");
        }
        eprintln!("xtask: {name}: passed in {} s", start.elapsed().as_secs());
        Ok(())
    }
}
