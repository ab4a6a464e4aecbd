//! `tamarisk sim tune`: the best constants of a law for a scenario, and the evidence.

mod evaluate;
mod evidence;
mod figure;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tamarisk_control::AdmissionLaw;
use tamarisk_control::catalogue::{AdmissionEntry, Knob, Named};
use tamarisk_model::scenario::{self, File};
use tamarisk_model::sim::Simulation;
use tamarisk_model::tune::{Objective, Plan, Point, Space, search};
use tamarisk_plot::Format;

use self::evaluate::Evaluation;
use self::evidence::{Evidence, Searched};
use super::{Destination, Output, law, places};
use crate::{Ending, misunderstood};

const EXAMPLES: &str = "\
Examples:
  The most requests in time:
    tamarisk sim tune scenarios/ten-fold.toml --law response-time
  The least time over the target, and still most of the requests, by two constants:
    tamarisk sim tune scenarios/spike.toml --law red --knobs queue_min_count,queue_max_count \\
        --maximise 'goodput - 500*over-target' --budget 600 --plot search.svg

An objective is a sum of goodput (requests in time, a second), over-target (the share of seconds
that break the target) and false-rejects (the share refused although a worker was free).
The search begins with the constants of the scenario, if it names the law, and those published;
every candidate meets the same seeds. What it finds is judged on seeds that it has not seen.
Ctrl-C ends the search and judges the best so far.";

/// Search for the constants of a law that are best for a scenario
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tune {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The law, at the stages that name one, or where clients enter
    #[arg(long, value_name = "NAME", value_parser = law)]
    law: &'static AdmissionEntry,
    /// Change these constants only [default: all that the law has]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    knobs: Vec<String>,
    /// Make this as great as can be [default: goodput]
    #[arg(long, value_name = "OBJECTIVE", group = "objective")]
    maximise: Option<Objective>,
    /// Make this as small as can be
    #[arg(long, value_name = "OBJECTIVE", group = "objective")]
    minimise: Option<Objective>,
    /// Run the simulator so often in the search
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    budget: u32,
    /// Compare candidates under so many seeds
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Judge the result under so many others
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1000))]
    held_out: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the result as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Destination>,
    /// Write the stages' laws as TOML, to be pasted into a scenario
    #[arg(long, value_name = "FILE")]
    toml: Option<Destination>,
    /// Draw the course of the search, as SVG, or PNG if the name ends in `.png`
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// An admission law with its constants.
type Law = Named<dyn AdmissionLaw>;

/// A law before and after, and as it was published.
struct Versions {
    before: Law,
    after: Law,
    published: Law,
}

/// What `knob` of `law` is set to.
fn value(law: &Law, knob: &Knob) -> f64 {
    let own = law.knobs().find(|(name, _)| *name == knob.name);
    own.map_or(knob.default, |(_, value)| value)
}

impl Tune {
    pub(super) fn run(&self) -> anyhow::Result<Ending> {
        let knobs = self.chosen()?;
        let stdout = Some(Destination::Stdout);
        if self.json == stdout && self.toml == stdout {
            return Err(misunderstood("--json and --toml cannot both be `-`"));
        }
        let file = match scenario::load(&self.scenario) {
            Ok(file) => file,
            Err(mistake) => return Ok(Ending::mistaken(mistake)),
        };
        let open = |place: &Option<Destination>| place.as_ref().map(Output::open).transpose();
        let (json, toml) = (open(&self.json)?, open(&self.toml)?);
        let plot = self.plot.as_ref().map(|path| Destination::File(path.clone()));
        let plot = open(&plot)?;

        let before = self.before(&file);
        let space = Space::new(knobs.iter().copied());
        let evaluation = Evaluation {
            simulation: Simulation::new(&file.scenario)?,
            places: places(&file),
            objective: self.objective(),
            first_seed: self.seed,
        };
        let plan = self.plan(&space, &before);
        let make = |point: &Point| self.law_at(&space, &before, point, &file);
        let mut tracker = evaluate::Tracker::start(&evaluation, &plan, self.quiet)?;
        let found = search(&plan, &mut |jobs| tracker.run(jobs, &make));
        let measured = tracker.end();
        let best = found.best.as_ref().context("the search ended before anything was known")?;
        if found.interrupted {
            eprintln!(
                "Ended early: the best after {} runs is judged. Ctrl-C again gives up.",
                found.runs
            );
        }
        let laws = Versions { after: make(&best.point), published: self.law.named(), before };
        let seeds = self.seed + self.seeds..self.seed + self.seeds + self.held_out;
        let name = self.scenario.display().to_string();
        let law = Searched { entry: self.law, versions: &laws, knobs: &knobs };
        let judged = Evidence::gather(name, &file, &evaluation, law, seeds, &found)?;
        let Some(evidence) = judged else { return Ok(Ending::Interrupted) };
        if let Some(json) = json {
            json.write((serde_json::to_string_pretty(&evidence)? + "\n").as_bytes())?;
        }
        if let Some(toml) = toml {
            toml.write(evidence.toml().as_bytes())?;
        }
        if let (Some(plot), Some(path)) = (plot, &self.plot) {
            let figure = figure::figure(&evidence.title(), &evaluation.objective, &measured);
            plot.write(&figure.encode(Format::of(path))?)?;
        }
        let text = evidence.text();
        match self.json == stdout || self.toml == stdout {
            true => io::stderr().write_all(text.as_bytes())?,
            false => io::stdout().write_all(text.as_bytes())?,
        }
        Ok(Ending::Done)
    }

    fn objective(&self) -> Objective {
        let goodput = || "goodput".parse().expect("it is one of the measures");
        let least = self.minimise.clone().map(Objective::least);
        least.or_else(|| self.maximise.clone()).unwrap_or_else(goodput)
    }

    /// The constants to be changed.
    fn chosen(&self) -> anyhow::Result<Vec<&'static Knob>> {
        let law = self.law;
        if law.knobs.is_empty() {
            let tunable = tamarisk_control::catalogue::ADMISSION.iter();
            let tunable: Vec<_> =
                tunable.filter(|law| !law.knobs.is_empty()).map(|law| law.name).collect();
            let message = format!(
                "{} has no constants that could be tuned; these laws have: {}",
                law.name,
                tunable.join(", ")
            );
            return Err(misunderstood(message));
        }
        if self.knobs.is_empty() {
            return Ok(law.knobs.iter().collect());
        }
        let named = |name: &String| {
            law.knobs.iter().find(|knob| knob.name == name).ok_or_else(|| {
                let known: Vec<_> = law.knobs.iter().map(|knob| knob.name).collect();
                misunderstood(format!("{} has no {name:?}; it has {}", law.name, known.join(", ")))
            })
        };
        let mut knobs: Vec<&Knob> = self.knobs.iter().map(named).collect::<Result<_, _>>()?;
        knobs.sort_by_key(|knob| knob.name);
        knobs.dedup();
        Ok(knobs)
    }

    /// The law as the scenario has it, or as it was published.
    fn before(&self, file: &File) -> Law {
        let mut stated = file.laws.iter().filter_map(|(_, laws)| laws.admission.as_ref());
        let own = stated.find(|law| law.name() == self.law.name);
        own.cloned().unwrap_or_else(|| self.law.named())
    }

    fn plan(&self, space: &Space, before: &Law) -> Plan {
        let mut given =
            vec![space.point(|knob| value(before, knob)), space.point(|knob| knob.default)];
        given.dedup();
        Plan {
            dimensions: space.dimensions(),
            given,
            seeds: self.seeds as usize,
            budget: self.budget as usize,
            seed: self.seed,
        }
    }

    /// The law at `point`; what is not searched stays as it is. Constants that do not go
    /// together make the published law.
    fn law_at(&self, space: &Space, before: &Law, point: &Point, file: &File) -> Law {
        let mut law = before.clone();
        let set =
            space.values(point).into_iter().try_for_each(|(knob, value)| law.set(knob, value));
        let made = set.and_then(|()| law.make(&file.scenario.classes));
        if made.is_ok() { law } else { self.law.named() }
    }
}
