//! `tamarisk sim`: the simulator on the command line.

mod comparison;
mod figure;
mod from;
mod knob;
mod places;
mod replay;
mod runs;
mod series;
mod simulate;
mod tune;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tamarisk_catalogue::ADMISSION;
use tamarisk_laws::Named;
use tamarisk_laws::named::AdmissionEntry;
use tamarisk_model::scenario::{self, File};

use self::places::compared;
use self::runs::Arrangement;
use self::simulate::{Common, Task, law, simulate};
use crate::ending::Ending;

const RUN_EXAMPLES: &str = "\
Examples:
  tamarisk sim run scenarios/ten-fold.toml
  tamarisk sim run scenarios/spike.toml --seeds 5 --csv spike.csv --plot spike.svg
  tamarisk sim run scenarios/slow-database.toml --json -

The same scenario and seed give the same output, to the byte.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  tamarisk sim compare scenarios/spike.toml --laws open,response-time,predict-gate-trim
  tamarisk sim compare scenarios/two-classes.toml --laws open,multiclass --seeds 10 --plot classes.svg
  tamarisk sim compare scenarios/rare-type.toml --laws all --json -

Under the same seed every law meets the same requests with the same work, so that a difference
between two laws is a difference between the laws.";

/// Simulate a scenario of stages, clients and laws
#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    Run(Run),
    Compare(Compare),
    Replay(replay::ReplayArgs),
    From(from::From),
    Tune(Box<tune::Tune>),
}

/// Run a scenario with the laws that it names
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
struct Run {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    common: Common,
    /// Number of seeds, for confidence intervals across runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
}

/// Compare several admission laws in the same scenario
///
/// Each law replaces the admission and dropping laws of the scenario; its laws for workers,
/// batching, quality and termination and its global law stay. If the scenario has no admission
/// law, the law is placed at the stages where clients enter.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
struct Compare {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    common: Common,
    /// The laws, or `all` of them
    #[arg(long, value_name = "NAME,NAME", required = true, value_delimiter = ',', value_parser = laws)]
    laws: Vec<&'static [AdmissionEntry]>,
    /// Number of seeds for each law
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
}

impl Sim {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        match &self.command {
            SimCommand::Run(run) => run.run(),
            SimCommand::Compare(compare) => compare.run(),
            SimCommand::Replay(replay) => replay.run(),
            SimCommand::From(from) => from.run(),
            SimCommand::Tune(tune) => tune.run(),
        }
    }
}

impl Run {
    fn run(&self) -> anyhow::Result<Ending> {
        let file = match scenario::load(&self.scenario) {
            Ok(file) => file,
            Err(mistake) => return Ok(Ending::mistaken(mistake)),
        };
        let arrangements = vec![as_written(&file)];
        simulate(&self.common, Task::of(&self.scenario, &file, arrangements, self.seeds))
    }
}

impl Compare {
    fn run(&self) -> anyhow::Result<Ending> {
        let file = match scenario::load(&self.scenario) {
            Ok(file) => file,
            Err(mistake) => return Ok(Ending::mistaken(mistake)),
        };
        let with = |law: &'static AdmissionEntry| Arrangement {
            name: law.name.to_owned(),
            laws: compared(&file, &law.named()),
        };
        let arrangements = self.laws.iter().copied().flatten().map(with).collect();
        simulate(&self.common, Task::of(&self.scenario, &file, arrangements, self.seeds))
    }
}

/// One law, or all that there are.
fn laws(name: &str) -> Result<&'static [AdmissionEntry], String> {
    if name == "all" { Ok(ADMISSION) } else { law(name).map(std::slice::from_ref) }
}

/// The laws where the file has them.
fn as_written(file: &File) -> Arrangement {
    let admission = file.laws.iter().filter_map(|(_, laws)| laws.admission.as_ref());
    let mut names: Vec<_> = admission.map(Named::name).collect();
    names.dedup();
    names.extend(file.scenario.global.as_ref().map(|law| law.name()));
    let name = if names.is_empty() { "open".to_owned() } else { names.join(" + ") };
    Arrangement { name, laws: file.laws.clone() }
}
