//! `tamarisk sim`: the simulator on the command line.

mod comparison;
mod figure;
mod from;
mod knob;
mod replay;
mod runs;
mod series;
mod tune;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use tamarisk_control::catalogue::{ADMISSION, AdmissionEntry, Laws, Named, admission};
use tamarisk_control::{AdmissionLaw, PerSecond};
use tamarisk_model::scenario::{self, File};
use tamarisk_model::sim::{Scenario, Simulation};
use tamarisk_plot::Format;

use self::comparison::Comparison;
use self::runs::{Arrangement, Foreground, Runs};
use crate::load::destination::Destination;
use crate::output::{Output, figure_file};
use crate::{Ending, misunderstood};

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

/// Simulate stages, clients and laws that a file describes
#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    /// Run it with so many seeds, for confidence intervals across runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
}

/// Run one scenario with several admission laws, one after the other at the same stages
///
/// The laws take the place of those that the scenario names, and of what it drops besides; what it
/// names for workers, batching, quality and termination stays, and so does a global law. If it
/// names none, they stand where clients enter.
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
    /// Run each with so many seeds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
}

#[derive(Debug, Args)]
struct Common {
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the results as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Destination>,
    /// Write the first seed's course over time as CSV (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    csv: Option<Destination>,
    /// Draw the same, as SVG, or PNG if the name ends in `.png`
    #[arg(long, value_name = "FILE", value_parser = figure_file)]
    plot: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// What is to be simulated.
struct Task {
    /// For titles.
    name: String,
    scenario: Scenario,
    /// The greatest stable rate of arrivals, where there is a closed form.
    capacity: Option<f64>,
    arrangements: Vec<Arrangement>,
    seeds: u64,
}

impl Task {
    fn of(path: &Path, file: &File, arrangements: Vec<Arrangement>, seeds: u64) -> Self {
        // What arrives makes no difference to what can be borne, if it comes by one door.
        let any = PerSecond::from_millis(1000);
        let capacity = file.network(Some(any)).ok().map(|network| network.limit().arrivals.get());
        let (name, scenario) = (path.display().to_string(), file.scenario.clone());
        Self { name, scenario, capacity, arrangements, seeds }
    }
}

impl Sim {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        match &self.command {
            Command::Run(run) => run.run(),
            Command::Compare(compare) => compare.run(),
            Command::Replay(replay) => replay.run(),
            Command::From(from) => from.run(),
            Command::Tune(tune) => tune.run(),
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
        let places = places(&file);
        let with = |law: &'static AdmissionEntry| Arrangement {
            name: law.name.to_owned(),
            laws: at_all(&places, &law.named()),
        };
        let arrangements = self.laws.iter().copied().flatten().map(with).collect();
        simulate(&self.common, Task::of(&self.scenario, &file, arrangements, self.seeds))
    }
}

/// One law, or all that there are.
fn laws(name: &str) -> Result<&'static [AdmissionEntry], String> {
    if name == "all" { Ok(ADMISSION) } else { law(name).map(std::slice::from_ref) }
}

fn law(name: &str) -> Result<&'static AdmissionEntry, String> {
    let known = || ADMISSION.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    admission(name).ok_or_else(|| format!("there is no such law; there are: {}", known()))
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

/// Stages and their laws.
type Places = Vec<(String, Laws)>;

/// The stages at which laws are compared.
fn places(file: &File) -> Places {
    if !file.laws.is_empty() {
        return file.laws.clone();
    }
    let mut entries: Vec<_> = file.scenario.clients.iter().map(|c| c.entry.clone()).collect();
    entries.sort_unstable();
    entries.dedup();
    entries.into_iter().map(|entry| (entry, Laws::new())).collect()
}

/// The same with `law` at all doors, and none that drops besides.
fn at_all(places: &Places, law: &Named<dyn AdmissionLaw>) -> Places {
    let with = |laws: &Laws| Laws { admission: Some(law.clone()), dropping: None, ..laws.clone() };
    places.iter().map(|(stage, laws)| (stage.clone(), with(laws))).collect()
}

fn simulate(common: &Common, task: Task) -> anyhow::Result<Ending> {
    let Task { name, scenario, capacity, arrangements, seeds } = task;
    let stdout = Some(Destination::Stdout);
    if common.json == stdout && common.csv == stdout {
        return Err(misunderstood("--json and --csv cannot both be `-`"));
    }
    // What is opened is taken away again if the runs are interrupted.
    let mut foreground = Foreground::new()?;
    let open = |place: &Option<Destination>| place.as_ref().map(Output::open).transpose();
    let (json, csv) = (open(&common.json)?, open(&common.csv)?);
    let plot = common.plot.as_ref().map(|path| Destination::File(path.clone()));
    let plot = open(&plot)?;

    let last = common.seed.checked_add(seeds).ok_or_else(|| misunderstood("no such seeds"))?;
    let runs = Arc::new(Runs {
        simulation: Simulation::new(&scenario)?,
        scenario,
        arrangements,
        seeds: (common.seed..last).collect(),
    });
    let Some(results) = runs::all(&runs, common.quiet, &mut foreground)? else {
        return Ok(Ending::Interrupted);
    };

    let comparison = Comparison::new(name, &runs, &results, capacity);
    if let Some(json) = json {
        json.write((serde_json::to_string_pretty(&comparison)? + "\n").as_bytes())?;
    }
    if let Some(csv) = csv {
        csv.write(figure::csv(&runs, &results).as_bytes())?;
    }
    if let (Some(plot), Some(path)) = (plot, &common.plot) {
        let figure = figure::figure(&comparison.title(), &runs, &results);
        plot.write(&figure.encode(Format::of(path))?)?;
    }
    let text = comparison.text();
    match common.json == stdout || common.csv == stdout {
        true => io::stderr().write_all(text.as_bytes())?,
        false => io::stdout().write_all(text.as_bytes())?,
    }
    Ok(Ending::Done)
}
