//! The project's chores: `cargo xtask test` is everything that CI checks.

mod ablation;
mod features;
mod map;
mod steps;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Chores {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that CI checks: tools, tidy, map, fmt, deny, lint, features, units, fuzz, models, docs, tables
    Test,
    /// What needs no outside tools: tidy, map, fmt, lint, and the unit tests inside of `src`
    Quick {
        /// Of this crate alone, with its integration tests, such as `tamarisk-stage`
        #[arg(short, long, value_name = "CRATE")]
        package: Option<String>,
    },
    /// Install the outside tools that the tests need (Debian)
    Tools,
    /// Circles of imports, sizes of folders, names of types given twice, the version of Rust, the list of files
    Tidy {
        /// Lower the numbers of xtask/tidy-allowed.txt to what there is
        #[arg(long)]
        lower: bool,
    },
    /// Write docs/generated/FILES.md anew: a line for each source file
    Map,
    /// The code is formatted
    Fmt,
    /// Clippy finds nothing, with warnings denied
    Lint,
    /// Licenses, sources and versions of dependencies are those that deny.toml allows, and none has a known vulnerability
    Deny,
    /// Each feature alone, and none, compiles
    Features,
    /// All tests, the documentation's examples included
    Units,
    /// Each fuzz target runs for some seconds
    Fuzz,
    /// Every interleaving of what is lock-free, by model checking
    Models,
    /// The documentation builds without a broken link
    Docs,
    /// Write docs/CONFIG.md, docs/CLI.md and docs/schema anew
    Config,
    /// The quick set of docs/generated/LAWS-TABLES.md is what the laws do
    Tables {
        /// Run the laws whose rows have another key, and write the tables of docs/LAWS.md, docs/generated/LAWS-TABLES.md and docs/generated/RANDOM-SITUATIONS.md anew
        #[arg(long)]
        all: bool,
        /// The same, but run all laws (an hour)
        #[arg(long, conflicts_with = "all")]
        anew: bool,
    },
    /// Draw the papers' figures in docs/figures anew
    Figures,
    /// Print what each mechanism and each constant of the work limit is good for (an hour)
    Ablation {
        /// Only the constants of these files, such as `search/held.rs`
        files: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Chores::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let workspace = Path::new(WORKSPACE);
    match chore {
        Chore::Test => {
            tools::install_missing()?;
            shape(workspace)?;
            steps::run(&[steps::FMT, steps::DENY])?;
            steps::advisories()?;
            steps::run(&[steps::LINT])?;
            features::check()?;
            steps::run(&[steps::UNITS, steps::DOCTESTS])?;
            steps::fuzz()?;
            steps::run(&[steps::MODELS, steps::DOCS, steps::TABLES])?;
            eprintln!("xtask: all checks passed");
            Ok(())
        }
        Chore::Quick { package } => {
            shape(workspace)?;
            steps::run(&[steps::FMT])?;
            match package {
                Some(package) => steps::of_crate(&package),
                None => steps::run(&[steps::LINT, steps::INSIDE]),
            }
        }
        Chore::Tools => tools::install_missing(),
        Chore::Tidy { lower: false } => shape(workspace),
        Chore::Tidy { lower: true } => tidy::lower(workspace),
        Chore::Map => map::write(workspace),
        Chore::Fmt => steps::run(&[steps::FMT]),
        Chore::Lint => steps::run(&[steps::LINT]),
        Chore::Deny => {
            steps::run(&[steps::DENY])?;
            steps::advisories()
        }
        Chore::Features => features::check(),
        Chore::Units => steps::run(&[steps::UNITS, steps::DOCTESTS]),
        Chore::Fuzz => steps::fuzz(),
        Chore::Models => steps::run(&[steps::MODELS]),
        Chore::Docs => steps::run(&[steps::DOCS]),
        Chore::Config => steps::run(&[steps::CONFIG]),
        Chore::Tables { anew: true, .. } => steps::run(&steps::TABLES_ANEW),
        Chore::Tables { all: true, .. } => steps::run(&steps::ALL_TABLES),
        Chore::Tables { .. } => steps::run(&[steps::TABLES]),
        Chore::Figures => steps::run(&steps::FIGURES),
        Chore::Ablation { files } => ablation::run(workspace, &files),
    }
}

/// What no compiler checks: circles, folders, names, and the map of all files.
fn shape(workspace: &Path) -> Result<()> {
    tidy::run(workspace)?;
    map::check(workspace)
}
