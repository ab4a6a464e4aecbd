//! `tamarisk sim tune`: the best constants of a law for a scenario, and the evidence.

mod evaluate;
mod evidence;
mod figure;
mod kind;

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tamarisk_laws::named::Entry;
use tamarisk_laws::{Knob, Named};
use tamarisk_model::scenario::{self, File};
use tamarisk_model::sim::Simulation;
use tamarisk_model::tune::{Objective, Plan, Point, Space, search};
use tamarisk_plot::Format;

use self::evaluate::Evaluation;
use self::evidence::{Evidence, Searched, Versions, value};
use self::kind::{Kind, Rules};
use super::places::places;
use crate::arguments::misunderstood;
use crate::ending::Ending;
use crate::output::figure_file;
use crate::output::{Destination, Output};

const EXAMPLES: &str = "\
Examples:
  The most requests in time:
    tamarisk sim tune scenarios/ten-fold.toml --law response-time
  The least time over the target, and still most of the requests, by two constants:
    tamarisk sim tune scenarios/spike.toml --law red --knobs queue_min_count,queue_max_count \\
        --maximise 'goodput - 500*over-target' --budget 600 --plot search.svg
  How long events may run, beside the admission law that the scenario names:
    tamarisk sim tune scenarios/composition.toml --rules termination --law termination-threshold

An objective is a sum of goodput (requests in time, a second), over-target (the share of seconds
that break the target) and false-rejects (the share rejected although a worker was free).
The search begins with the constants of the scenario, if it names the law, and those published;
every candidate meets the same seeds. What it finds is judged on seeds that it has not seen, and on
stages that do half and twice as much: constants that fit one capacity only are no law.
Constants that would switch a law off or make it a fixed rate are searched only if --knobs names them.
Ctrl-C ends the search and judges the best so far.";

/// Search for the best constants of a law in a scenario
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tune {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The law. It is placed at the stages that have a law of its kind, else at those that have any,
    /// else where clients enter
    #[arg(long, value_name = "NAME")]
    law: String,
    /// Kind of the law
    #[arg(long, value_name = "WHAT", default_value = "admission")]
    rules: Rules,
    /// Change these constants only, within all that is possible [default: all that leave the law
    /// working]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    knobs: Vec<String>,
    /// Maximise this objective [default: goodput]
    #[arg(long, value_name = "OBJECTIVE", group = "objective")]
    maximise: Option<Objective>,
    /// Minimise this objective
    #[arg(long, value_name = "OBJECTIVE", group = "objective")]
    minimise: Option<Objective>,
    /// Number of simulator runs in the search
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    budget: u32,
    /// Number of seeds for each candidate
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Number of other seeds on which the result is judged
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1000))]
    held_out: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the result as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Destination>,
    /// Write the laws of the stages as TOML, to paste into a scenario
    #[arg(long, value_name = "FILE")]
    toml: Option<Destination>,
    /// Plot the search as SVG, or as PNG if the name ends in `.png`
    #[arg(long, value_name = "FILE", value_parser = figure_file)]
    plot: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

impl Tune {
    pub(super) fn run(&self) -> anyhow::Result<Ending> {
        match self.rules {
            Rules::Admission => self.search(&kind::admission()),
            Rules::Dropping => self.search(&kind::dropping()),
            Rules::Workers => self.search(&kind::workers()),
            Rules::Batching => self.search(&kind::batching()),
            Rules::Quality => self.search(&kind::quality()),
            Rules::Termination => self.search(&kind::termination()),
        }
    }

    fn search<L: ?Sized + 'static>(&self, kind: &Kind<L>) -> anyhow::Result<Ending> {
        let entry = kind.find(&self.law).ok_or_else(|| {
            let known: Vec<_> = kind.entries.iter().map(|entry| entry.name).collect();
            let (law, rules) = (&self.law, kind.rules);
            misunderstood(format!("unknown {rules} law {law:?}; known laws: {}", known.join(", ")))
        })?;
        let mut knobs = self.chosen(kind, entry)?;
        let held_out = self.held_out_seeds().ok_or_else(|| {
            misunderstood("--seed plus --seeds and --held-out exceeds the largest seed")
        })?;
        let stdout = Some(Destination::Stdout);
        if self.json == stdout && self.toml == stdout {
            return Err(misunderstood(
                "--json and --toml are both `-`: write at least one of them to a file",
            ));
        }
        let file = match scenario::load(&self.scenario) {
            Ok(file) => file,
            Err(mistake) => return Ok(Ending::mistaken(mistake)),
        };
        let open = |place: &Option<Destination>| place.as_ref().map(Output::open).transpose();
        let (json, toml) = (open(&self.json)?, open(&self.toml)?);
        let plot = self.plot.as_ref().map(|path| Destination::File(path.clone()));
        let plot = open(&plot)?;

        let before = kind.stated(&file, entry.name).unwrap_or_else(|| entry.named());
        for knob in &mut knobs {
            // The search begins with it.
            let stated = value(&before, knob);
            (knob.least, knob.greatest) = (knob.least.min(stated), knob.greatest.max(stated));
        }
        let space = Space::new(&knobs);
        let evaluation = Evaluation {
            simulation: Simulation::new(&file.scenario)?,
            places: places(&file),
            objective: self.objective(),
            first_seed: self.seed,
        };
        let plan = self.plan(&space, &before);
        let make = |point: &Point| law_at(&space, &before, point, &file);
        let law_of = |point: &Point| make(point).expect("the search runs only what is possible");
        let places_of = |point: &Point| kind.at_all(&evaluation.places, &law_of(point));
        let mut tracker = evaluate::Tracker::start(&evaluation, &plan, self.quiet)?;
        let is_possible = |point: &Point| make(point).is_some();
        let found = search(&plan, &is_possible, &mut |jobs| tracker.run(jobs, &places_of));
        let measured = tracker.end();
        let best = found.best.as_ref().context("the search ended before its first result")?;
        if found.interrupted {
            eprintln!(
                "Ended early: the best after {} runs is judged. Ctrl-C again gives up.",
                found.runs
            );
        }
        let laws = Versions {
            after: law_of(&best.point),
            published: entry.named(),
            before: before.clone(),
        };
        let name = self.scenario.display().to_string();
        let law = Searched { kind, entry, versions: &laws, knobs: &knobs };
        let judged = Evidence::gather(name, &file, &evaluation, law, held_out, &found)?;
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

    /// The seeds after those of the search; `None` if too few are left.
    fn held_out_seeds(&self) -> Option<Range<u64>> {
        let first = self.seed.checked_add(self.seeds)?;
        Some(first..first.checked_add(self.held_out)?)
    }

    fn objective(&self) -> Objective {
        let goodput = || "goodput".parse().expect("it is one of the measures");
        let least = self.minimise.clone().map(Objective::least);
        least.or_else(|| self.maximise.clone()).unwrap_or_else(goodput)
    }

    /// The constants to be changed, each within what is searched. One that is named may have any
    /// value that is possible.
    fn chosen<L: ?Sized>(
        &self,
        kind: &Kind<L>,
        law: &'static Entry<L>,
    ) -> anyhow::Result<Vec<Knob>> {
        if law.knobs.is_empty() {
            let tunable = kind.entries.iter().filter(|law| !law.knobs.is_empty());
            let tunable: Vec<_> = tunable.map(|law| law.name).collect();
            let message = format!(
                "law {} has no constants to tune; laws that have some: {}",
                law.name,
                tunable.join(", ")
            );
            return Err(misunderstood(message));
        }
        if self.knobs.is_empty() {
            let searched = law.knobs.iter().map(|knob| {
                let (least, greatest) = knob.searched;
                Knob { least, greatest, ..*knob }
            });
            return Ok(searched.filter(|knob| knob.least < knob.greatest).collect());
        }
        let named = |name: &String| {
            law.knobs.iter().find(|knob| knob.name == name).ok_or_else(|| {
                let known: Vec<_> = law.knobs.iter().map(|knob| knob.name).collect();
                misunderstood(format!(
                    "law {} has no constant {name:?}; it has {}",
                    law.name,
                    known.join(", ")
                ))
            })
        };
        let mut knobs = self.knobs.iter().map(|name| named(name).copied());
        let mut knobs: Vec<Knob> = knobs.by_ref().collect::<Result<_, _>>()?;
        knobs.sort_by_key(|knob| knob.name);
        knobs.dedup();
        Ok(knobs)
    }

    fn plan<L: ?Sized>(&self, space: &Space, before: &Named<L>) -> Plan {
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
}

/// The law at `point`; what is not searched stays as it is. `None` if these constants do not go
/// together.
fn law_at<L: ?Sized>(
    space: &Space,
    before: &Named<L>,
    point: &Point,
    file: &File,
) -> Option<Named<L>> {
    let mut law = before.clone();
    space.values(point).into_iter().try_for_each(|(knob, value)| law.set(knob, value)).ok()?;
    law.make(&file.scenario.classes).ok()?;
    Some(law)
}
