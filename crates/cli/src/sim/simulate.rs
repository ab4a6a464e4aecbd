//! A simulation from its options to its results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tamarisk_catalogue::{ADMISSION, admission};
use tamarisk_control::PerSecond;
use tamarisk_laws::named::AdmissionEntry;
use tamarisk_model::scenario::File;
use tamarisk_model::sim::{Scenario, Simulation};
use tamarisk_plot::Format;

use super::comparison::Comparison;
use super::figure;
use super::runs::{self, Arrangement, Foreground, Runs};
use crate::arguments::misunderstood;
use crate::ending::Ending;
use crate::output::{Destination, Output, figure_file};

#[derive(Debug, Args)]
pub(super) struct Common {
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Write the results as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<Destination>,
    /// Write the time series of the first seed as CSV (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<Destination>,
    /// Plot this time series as SVG, or as PNG if the name ends in `.png`
    #[arg(long, value_name = "FILE", value_parser = figure_file)]
    pub(super) plot: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// What is to be simulated.
pub(super) struct Task {
    /// For titles.
    pub(super) name: String,
    pub(super) scenario: Scenario,
    /// The greatest stable rate of arrivals, where there is a closed form.
    pub(super) capacity: Option<f64>,
    pub(super) arrangements: Vec<Arrangement>,
    pub(super) seeds: u64,
}

impl Task {
    pub(super) fn of(path: &Path, file: &File, arrangements: Vec<Arrangement>, seeds: u64) -> Self {
        // What arrives makes no difference to what can be borne, if it comes by one door.
        let any = PerSecond::from_millis(1000);
        let capacity = file.network(Some(any)).ok().map(|network| network.limit().arrivals.get());
        let (name, scenario) = (path.display().to_string(), file.scenario.clone());
        Self { name, scenario, capacity, arrangements, seeds }
    }
}

/// The law of this name.
pub(super) fn law(name: &str) -> Result<&'static AdmissionEntry, String> {
    let known = || ADMISSION.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    admission(name).ok_or_else(|| format!("unknown law; known laws: {}", known()))
}

/// Simulates, and writes the results where `common` says.
pub(super) fn simulate(common: &Common, task: Task) -> anyhow::Result<Ending> {
    let Task { name, scenario, capacity, arrangements, seeds } = task;
    let stdout = Some(Destination::Stdout);
    if common.json == stdout && common.csv == stdout {
        return Err(misunderstood(
            "--json and --csv are both `-`: write at least one of them to a file",
        ));
    }
    // What is opened is taken away again if the runs are interrupted.
    let mut foreground = Foreground::new()?;
    let open = |place: &Option<Destination>| place.as_ref().map(Output::open).transpose();
    let (json, csv) = (open(&common.json)?, open(&common.csv)?);
    let plot = common.plot.as_ref().map(|path| Destination::File(path.clone()));
    let plot = open(&plot)?;

    let last = common
        .seed
        .checked_add(seeds)
        .ok_or_else(|| misunderstood("--seed plus --seeds exceeds the largest seed"))?;
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
