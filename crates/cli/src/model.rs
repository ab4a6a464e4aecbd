//! `tamarisk model`: questions of capacity, answered in closed form.

mod split;
mod times;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tamarisk_control::{Concurrency, PerSecond, Percentile, Ratio, Target, parse_duration};
use tamarisk_model::capacity::{Unreachable, greatest_arrivals, least_workers_of};
use tamarisk_model::network::{Network, Solution, Workers};
use tamarisk_model::queueing::Accuracy;
use tamarisk_model::scenario;
use tamarisk_plot::format;
use tamarisk_settings::target::percentile;

use self::split::{SplitAnswer, split};
use self::times::Times;
use crate::arguments::misunderstood;
use crate::columns::aligned;
use crate::ending::Ending;
use crate::output::Destination;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  Where is the bottleneck, and how long does a request take?
    tamarisk model scenarios/slow-database.toml
  How many workers for a 90th percentile of 200 ms at 500 requests a second?
    tamarisk model scenarios/ten-fold.toml --at 500/s --workers-for p90=200ms
  What does it cost to split a stage?
    tamarisk model scenarios/slow-database.toml --split db

Exponential, Erlang and hyper-exponential service is solved. For constant and other service, waits are
approximated by the formula of Allen and Cunneen, and marked with ≈. What has no closed form can be
simulated: `tamarisk sim run`.";

/// Calculate capacity and response times of a scenario, without simulation
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Model {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Total arrival rate [default: that of the scenario's open clients]
    #[arg(long, value_name = "N/s", value_parser = rate)]
    at: Option<PerSecond>,
    /// Find the fewest workers that keep this end-to-end target
    #[arg(long, value_name = "pNN=TIME", value_parser = target)]
    workers_for: Option<Target>,
    /// Stage whose workers are calculated [default: the bottleneck]
    #[arg(long, value_name = "STAGE", requires = "workers_for")]
    stage: Option<String>,
    /// Calculate the effect of splitting this stage: one stage for each of its steps, or two halves
    #[arg(long, value_name = "STAGE")]
    split: Option<String>,
    /// Write the answers as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Destination>,
}

#[derive(Serialize)]
struct Answers {
    scenario: String,
    arrivals_per_second: f64,
    bottleneck: String,
    greatest_stable_rate: f64,
    /// Whether mean response times are those of the model, or near them.
    means_exact: bool,
    /// The same of percentiles end to end.
    percentiles_exact: bool,
    stages: Vec<StageAnswer>,
    end_to_end: Times,
    workers_for: Option<WorkersAnswer>,
    split: Option<SplitAnswer>,
}

#[derive(Serialize)]
struct StageAnswer {
    name: String,
    /// `None` for a thread for each event.
    workers: Option<u32>,
    visits: f64,
    arrivals_per_second: f64,
    utilisation: f64,
    queued: f64,
    /// Service is known by its mean and its variability only, and waits by Allen and Cunneen.
    is_approximate: bool,
    response: Times,
}

#[derive(Serialize)]
struct WorkersAnswer {
    stage: String,
    at: f64,
    target_seconds: f64,
    workers: u32,
    /// The greatest rate at which the target is kept with that many.
    bearable_per_second: f64,
}

impl Model {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        let json = self.json.as_ref().map(Output::open).transpose()?;
        let file = match scenario::load(&self.scenario) {
            Ok(file) => file,
            Err(mistake) => return Ok(Ending::mistaken(mistake)),
        };
        let mut network = match file.network(self.at) {
            Ok(network) => network,
            Err(mistake) => return Ok(Ending::mistaken(mistake)),
        };
        // Workers first: what is unstable without them may be stable with them.
        let mut workers_for = None;
        if let Some(target) = self.workers_for {
            let answer = match self.workers(&network, target) {
                Ok(answer) => answer,
                Err(Unreachable::Overloaded(error)) => {
                    return Ok(Ending::mistaken(file.overloaded(&error)));
                }
                Err(Unreachable::Network(error)) => return Err(misunderstood(error)),
                Err(error) => return Err(error.into()),
            };
            network = network.with_workers(&answer.stage, Concurrency::new(answer.workers))?;
            workers_for = Some(answer);
        }
        let solution = match network.solve() {
            Ok(solution) => solution,
            Err(error) => return Ok(Ending::mistaken(file.overloaded(&error))),
        };
        let split = self.split.as_ref().map(|stage| split(&file, &network, stage)).transpose()?;
        let answers = self.answers(&network, &solution, workers_for, split);
        if let Some(json) = json {
            json.write((serde_json::to_string_pretty(&answers)? + "\n").as_bytes())?;
        }
        match self.json {
            Some(Destination::Stdout) => io::stderr().write_all(answers.text().as_bytes())?,
            _ => io::stdout().write_all(answers.text().as_bytes())?,
        }
        Ok(Ending::Done)
    }

    fn workers(&self, network: &Network, target: Target) -> Result<WorkersAnswer, Unreachable> {
        let stage = self.stage.clone().unwrap_or_else(|| network.limit().stage);
        let workers = least_workers_of(network, &stage, target)?;
        let enough = network.with_workers(&stage, workers)?;
        Ok(WorkersAnswer {
            stage,
            at: target.at().get(),
            target_seconds: target.response_time().as_secs_f64(),
            workers: workers.get(),
            bearable_per_second: greatest_arrivals(&enough, target)?.get(),
        })
    }

    fn answers(
        &self,
        network: &Network,
        solution: &Solution,
        workers_for: Option<WorkersAnswer>,
        split: Option<SplitAnswer>,
    ) -> Answers {
        let limit = network.limit();
        let stages = solution.stages.iter().zip(network.stages()).map(|(solved, stage)| {
            let equilibrium = &solved.equilibrium;
            StageAnswer {
                name: solved.name.clone(),
                workers: match stage.workers {
                    Workers::Bounded(workers) => Some(workers.get()),
                    Workers::ThreadPerEvent => None,
                },
                visits: solved.visits,
                arrivals_per_second: equilibrium.arrivals.get(),
                utilisation: equilibrium.utilisation.get(),
                queued: equilibrium.queued,
                is_approximate: stage.variability.is_some(),
                response: Times::of(&equilibrium.response),
            }
        });
        Answers {
            scenario: self.scenario.display().to_string(),
            arrivals_per_second: network.arrivals().get(),
            bottleneck: limit.stage,
            greatest_stable_rate: limit.arrivals.get(),
            means_exact: solution.means == Accuracy::Exact,
            percentiles_exact: solution.percentiles == Accuracy::Exact,
            stages: stages.collect(),
            end_to_end: Times::of(&solution.response),
            workers_for,
            split,
        }
    }
}

impl Answers {
    fn text(&self) -> String {
        let rate = |rate| format!("{}/s", format::rate(rate));
        let arrivals = rate(self.arrivals_per_second);
        let mut lines = vec![format!("{} · {arrivals} arrive", self.scenario), String::new()];
        lines.extend(aligned(&self.rows()));
        lines.push(String::new());
        let limit = rate(self.greatest_stable_rate);
        lines.push(format!("The bottleneck is {}: stable below {limit}.", self.bottleneck));
        if self.stages.iter().any(|stage| stage.is_approximate) {
            lines.push(
                "≈: waits and percentiles are approximate (Allen and Cunneen), for service that is not \
                 made of exponential times."
                    .to_owned(),
            );
        } else if !self.percentiles_exact {
            lines.push("Percentiles end to end are approximate: events can overtake.".to_owned());
        }
        if let Some(answer) = &self.workers_for {
            lines.push(format!(
                "{} needs {} workers for {} ≤ {}, which they keep up to {}.",
                answer.stage,
                answer.workers,
                Percentile(Ratio::saturating(answer.at)),
                format::seconds(answer.target_seconds),
                rate(answer.bearable_per_second),
            ));
        }
        lines.extend(self.split.as_ref().map(SplitAnswer::text));
        lines.join("\n") + "\n"
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = ["stage", "workers", "visits", "arrivals", "utilisation", "queued"];
        let head = head.into_iter().chain(["mean", "p50", "p90", "p99"]).map(str::to_owned);
        let mut rows = vec![head.collect()];
        for stage in &self.stages {
            let mut row = vec![
                if stage.is_approximate {
                    format!("{} ≈", stage.name)
                } else {
                    stage.name.clone()
                },
                stage.workers.map_or_else(|| "∞".to_owned(), |workers| workers.to_string()),
                format::rate(stage.visits),
                format!("{}/s", format::rate(stage.arrivals_per_second)),
                format!("{:.1} %", stage.utilisation * 100.0),
                format::rate(stage.queued),
            ];
            row.extend(stage.response.cells());
            rows.push(row);
        }
        let mut row = vec!["end to end".to_owned()];
        row.resize(6, String::new());
        row.extend(self.end_to_end.cells());
        rows.push(row);
        rows
    }
}

fn rate(text: &str) -> Result<PerSecond, String> {
    let wrong = || format!("`{text}` is not a rate; write for example `500/s`");
    let number = text.strip_suffix("/s").ok_or_else(wrong)?;
    let rate = number.trim().parse().ok().and_then(|number| PerSecond::new(number).ok());
    rate.filter(|rate| *rate > PerSecond::ZERO).ok_or_else(wrong)
}

fn target(text: &str) -> Result<Target, String> {
    let wrong = || format!("`{text}` is not a target; write for example `p90=200ms`");
    let (at, time) = text.split_once('=').ok_or_else(wrong)?;
    let at = percentile(at.trim()).ok_or_else(wrong)?;
    let time = parse_duration(time).map_err(|error| error.to_string())?;
    Target::percentile(at, time).map_err(|error| error.to_string())
}
