//! Arashi under load: the experiments of Welsh02 ch. 7 and Welsh03 §4.
//!
//! `cargo build --profile dist --features full && cargo run --profile dist -p tamarisk-bench --bin arashi -- --what users`
//!
//! The webmail serves SQLite on core 0, the emulated users have core 1 (`tamarisk load arashi`).
//! Targets are ten times what nine of ten requests take without load, for each type of request:
//! while 64 users think for half a second, the median of five measurements. Each run has a fresh
//! copy of the same mailboxes; pairs of runs that are compared follow one another. For each figure there is a table on the standard output, and a JSON file and a plot
//! in the folder `--out`.

mod crowd;
mod mailboxes;
mod report;
mod steady;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tamarisk_bench::process::Scratch;

use self::mailboxes::{Mailboxes, Targets};

/// Arashi under load
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// What is measured
    #[arg(long, value_enum, required = true, num_args = 1.., value_delimiter = ',')]
    what: Vec<Experiment>,
    /// How often each run is made
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// How long a level of load, or a flash crowd, lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..))]
    seconds: u32,
    /// Numbers of users, for `users`
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 4, 16, 64, 128, 256, 512, 1024])]
    users: Vec<u32>,
    /// Accounts in the database; where there are more users, some share one
    #[arg(long, value_name = "N", default_value_t = 1024)]
    accounts: u32,
    /// Users of each class, for `classes`
    #[arg(long, value_name = "N", default_value_t = 128)]
    class_users: u32,
    /// Folder for JSON files and plots
    #[arg(long, value_name = "DIR", default_value = "arashi-figures")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// 1 to 1024 users, with and without control (Welsh02 figs 47, 48, 53, 54; Welsh03 figs 8, 9)
    Users,
    /// A flash crowd, from 3 to 1000 users (fig. 55; Welsh03 fig. 10)
    Spike,
    /// Admission by stage and by one stage for all, 128 users (Welsh03 fig. 11)
    Stages,
    /// A flash crowd with degradation alone and with admission (figs 56, 57)
    Degradation,
    /// Two classes of as many users, told apart or not (figs 58, 59)
    Classes,
    /// Pages a second that one core serves
    Throughput,
}

fn main() -> Result<()> {
    let options = Options::parse();
    std::fs::create_dir_all(&options.out)?;
    let scratch = Scratch::new("arashi-bench")?;
    let mailboxes = Mailboxes::prepare(&scratch, "mail", options.accounts, "0")?;
    let targets = Targets::measure(&mailboxes)?;
    for what in &options.what {
        match what {
            Experiment::Users => steady::users(&options, &mailboxes, &targets)?,
            Experiment::Spike => crowd::spike(&options, &mailboxes, &targets)?,
            Experiment::Stages => steady::stages(&options, &mailboxes)?,
            Experiment::Degradation => crowd::degradation(&options, &mailboxes, &targets)?,
            Experiment::Classes => crowd::classes(&options, &scratch, &targets)?,
            Experiment::Throughput => steady::throughput(&options, &mailboxes, &targets)?,
        }
    }
    Ok(())
}
