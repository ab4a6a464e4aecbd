//! The result of a search, judged on held-out seeds and capacities.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use tamarisk_laws::named::Entry;
use tamarisk_laws::{Knob, Named};
use tamarisk_model::scenario::File;
use tamarisk_model::sim::{Estimate, Scenario, Simulation};
use tamarisk_model::tune::{Found, Goal};
use tamarisk_plot::format;

use super::super::comparison::Comparison;
use super::super::runs::{self, Arrangement, Foreground, Results, Runs};
use super::evaluate::Evaluation;
use super::kind::Kind;
use crate::columns::aligned;

const CONFIDENCE: f64 = 0.95;

/// A law before and after, and as it was published. The one before has the constants of the first
/// stage that names it.
pub(super) struct Versions<L: ?Sized + 'static> {
    pub(super) before: Named<L>,
    pub(super) after: Named<L>,
    pub(super) published: Named<L>,
}

/// What `knob` of `law` is set to.
pub(super) fn value<L: ?Sized>(law: &Named<L>, knob: &Knob) -> f64 {
    let own = law.knobs().find(|(name, _)| *name == knob.name);
    own.map_or(knob.default, |(_, value)| value)
}

/// What was searched.
pub(super) struct Searched<'a, L: ?Sized + 'static> {
    pub(super) kind: &'a Kind<L>,
    pub(super) entry: &'static Entry<L>,
    pub(super) versions: &'a Versions<L>,
    /// The constants that were changed.
    pub(super) knobs: &'a [Knob],
}

#[derive(Serialize)]
pub(super) struct Evidence {
    law: &'static str,
    rules: &'static str,
    stages: Vec<String>,
    objective: String,
    /// `greatest` or `least`.
    goal: String,
    runs: usize,
    candidates: usize,
    interrupted: bool,
    constants: BTreeMap<&'static str, Constant>,
    /// Under the seeds that the search has not seen.
    before: Confidence,
    after: Confidence,
    published: Confidence,
    /// Seed by seed, so that what the seeds have in common is not in it.
    change_from_before: Confidence,
    change_from_published: Confidence,
    /// The change from before is for the better, and not by chance.
    is_better: bool,
    /// It is better, and not worse at any other capacity.
    is_recommended: bool,
    /// Under the same seeds, where stages do less or more than those of the search.
    other_capacities: Vec<OtherCapacity>,
    #[serde(skip)]
    toml: String,
    held_out: Comparison,
}

#[derive(Serialize)]
struct Constant {
    before: f64,
    after: f64,
    published: f64,
    searched: bool,
}

/// What the laws come to where stages do another amount of work.
#[derive(Serialize)]
struct OtherCapacity {
    /// So many times as much.
    times: f64,
    before: Confidence,
    after: Confidence,
    published: Confidence,
    change_from_before: Confidence,
    /// The change is for the worse, and not by chance.
    is_worse: bool,
}

/// The capacities, by that of the scenario, on which the result is judged besides.
const CAPACITIES: [f64; 2] = [0.5, 2.0];

/// A mean of the objective, and half of its confidence interval.
#[derive(Clone, Copy, Serialize)]
struct Confidence {
    mean: f64,
    half_width: f64,
}

impl Confidence {
    fn of(values: &[f64]) -> Self {
        let estimate = Estimate::of(values, CONFIDENCE);
        let Estimate { mean, half_width, .. } = estimate.expect("there are two seeds at least");
        Self { mean, half_width }
    }

    /// Whether this change is an improvement, and not by chance.
    fn is_better(self, goal: Goal) -> bool {
        match goal {
            Goal::Greatest => self.mean > self.half_width,
            Goal::Least => self.mean < -self.half_width,
        }
    }

    fn is_worse(self, goal: Goal) -> bool {
        Self { mean: -self.mean, ..self }.is_better(goal)
    }
}

impl Evidence {
    /// Runs the laws before, after and as published; `None` if the user does not wait for it.
    pub(super) fn gather<L: ?Sized>(
        name: String,
        file: &File,
        evaluation: &Evaluation,
        searched: Searched<'_, L>,
        seeds: Range<u64>,
        found: &Found,
    ) -> anyhow::Result<Option<Self>> {
        let Searched { kind, entry, versions, knobs } = searched;
        let Versions { before, after, published } = versions;
        let places = &evaluation.places;
        let arrangements = || -> Vec<Arrangement> {
            let laws = [
                ("before", kind.before(places, before)),
                ("after", kind.at_all(places, after)),
                ("published", kind.at_all(places, published)),
            ];
            laws.map(|(name, laws)| Arrangement { name: name.to_owned(), laws }).into()
        };
        let seeds: Vec<u64> = seeds.collect();
        let runs_in = |scenario: Scenario| -> anyhow::Result<Arc<Runs>> {
            Ok(Arc::new(Runs {
                simulation: Simulation::new(&scenario)?,
                scenario,
                arrangements: arrangements(),
                seeds: seeds.clone(),
            }))
        };
        let runs = runs_in(file.scenario.clone())?;
        let mut foreground = Foreground::new()?;
        let Some(results) = runs::all(&runs, true, &mut foreground)? else {
            return Ok(None);
        };
        let values = |results: &Results| -> Vec<f64> {
            results.reports.iter().map(|report| evaluation.objective.of(report)).collect()
        };
        let [old, new, plain] = [0, 1, 2].map(|law| values(&results[law]));
        let goal = evaluation.objective.goal();
        let mut other_capacities = Vec::new();
        for times in CAPACITIES {
            let runs = runs_in(file.scenario.clone().capacity_times(times))?;
            let Some(results) = runs::all(&runs, true, &mut foreground)? else {
                return Ok(None);
            };
            let measured = [0, 1, 2].map(|law| values(&results[law]));
            let change_from_before = change(&measured[1], &measured[0]);
            let is_worse = change_from_before.is_worse(goal);
            let [before, after, published] = measured.map(|values| Confidence::of(&values));
            other_capacities.push(OtherCapacity {
                times,
                before,
                after,
                published,
                change_from_before,
                is_worse,
            });
        }
        let is_better = change(&new, &old).is_better(goal);
        let constants = entry.knobs.iter().map(|knob| {
            let [before, after, published] = [before, after, published].map(|law| value(law, knob));
            let searched = knobs.iter().any(|other| other.name == knob.name);
            (knob.name, Constant { before, after, published, searched })
        });
        Ok(Some(Self {
            law: entry.name,
            rules: kind.rules,
            stages: kind.stages(places).into_iter().map(str::to_owned).collect(),
            objective: evaluation.objective.to_string(),
            goal: goal.to_string(),
            runs: found.runs,
            candidates: found.tried.iter().filter(|tried| !tried.values.is_empty()).count(),
            interrupted: found.interrupted,
            constants: constants.collect(),
            before: Confidence::of(&old),
            after: Confidence::of(&new),
            published: Confidence::of(&plain),
            change_from_before: change(&new, &old),
            change_from_published: change(&new, &plain),
            is_better,
            is_recommended: is_better && !other_capacities.iter().any(|other| other.is_worse),
            other_capacities,
            toml: toml(&kind.stages(places), kind.rules, entry, after),
            held_out: Comparison::new(name, &runs, &results, None),
        }))
    }

    pub(super) fn title(&self) -> String {
        let Self { law, objective, goal, runs, candidates, .. } = self;
        format!("{law}, tuned for the {goal} {objective} · {runs} runs of {candidates} candidates")
    }

    /// The laws to be pasted; under a remark if they had better not be.
    pub(super) fn toml(&self) -> String {
        match self.is_recommended {
            true => self.toml.clone(),
            false => format!("# {}\n{}", self.verdict(), self.toml),
        }
    }

    /// Whether to use what was found.
    fn verdict(&self) -> String {
        let change = signed(self.change_from_before);
        let objective = &self.objective;
        let worse = self.other_capacities.iter().filter(|other| other.is_worse);
        let worse = worse.map(|OtherCapacity { times, change_from_before, .. }| {
            let capacity = if *times < 1.0 { "half" } else { "twice" };
            format!("worse at {capacity} the capacity ({})", signed(*change_from_before))
        });
        let worse: Vec<_> = worse.collect();
        match (self.is_better, worse.join(" and ")) {
            (true, worse) if worse.is_empty() => format!(
                "Better than before ({objective} {change}), and not worse at half or twice the \
                 capacity."
            ),
            (true, worse) => format!(
                "Better than before ({objective} {change}) at this capacity only, and {worse}: keep \
                 what you have."
            ),
            (false, worse) if worse.is_empty() => {
                format!("No better than before ({objective} {change}): keep what you have.")
            }
            (false, worse) => format!(
                "No better than before ({objective} {change}), and {worse}: keep what you have."
            ),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.title() + "\n\n";
        let mut rows =
            vec![["constant", "before", "after", "published"].map(str::to_owned).to_vec()];
        for (name, constant) in &self.constants {
            let Constant { before, after, published, searched } = *constant;
            let [before, after, published] = [before, after, published].map(three_digits);
            let after = if searched { after } else { format!("{after} (kept)") };
            rows.push(vec![(*name).to_owned(), before, after, published]);
        }
        let worth = [self.before, self.after, self.published].map(shown);
        rows.push([vec![self.objective.clone()], worth.to_vec()].concat());
        for OtherCapacity { times, before, after, published, .. } in &self.other_capacities {
            let name = format!("{} at {times} × the capacity", self.objective);
            let worth = [*before, *after, *published].map(shown);
            rows.push([vec![name], worth.to_vec()].concat());
        }
        for line in aligned(&rows) {
            text += &(line + "\n");
        }
        let _ = writeln!(
            text,
            "\nOn held-out seeds, seed by seed: {} from before, {} from the published ones.\n",
            signed(self.change_from_before),
            signed(self.change_from_published)
        );
        text += &self.held_out.text();
        let _ = writeln!(text, "\n{}", self.verdict());
        if self.is_recommended {
            text += "To use it:\n";
            self.toml.lines().for_each(|line| text += &format!("  {line}\n"));
        }
        text
    }
}

/// How much `new` differs from `old`, seed by seed.
fn change(new: &[f64], old: &[f64]) -> Confidence {
    let changes: Vec<_> = new.iter().zip(old).map(|(new, old)| new - old).collect();
    Confidence::of(&changes)
}

fn shown(measure: Confidence) -> String {
    format!("{} ± {}", three_digits(measure.mean), three_digits(measure.half_width))
}

/// With its sign also if it is greater than zero.
fn signed(change: Confidence) -> String {
    format!("{}{}", if change.mean > 0.0 { "+" } else { "" }, shown(change))
}

fn three_digits(value: f64) -> String {
    format!("{}{}", if value < 0.0 { "−" } else { "" }, format::rate(value.abs()))
}

/// The law at its stages, as a scenario names it.
fn toml<L: ?Sized>(stages: &[&str], rules: &str, entry: &Entry<L>, law: &Named<L>) -> String {
    let own = entry.knobs.iter().map(|knob| (knob, value(law, knob)));
    let own = own.filter(|(knob, value)| *value != knob.default);
    let own: String = own.map(|(knob, value)| format!(", {} = {value}", knob.name)).collect();
    let mut text = String::new();
    for stage in stages {
        let law = entry.name;
        let _ = writeln!(text, "[stages.\"{stage}\"]\n{rules} = {{ law = \"{law}\"{own} }}");
    }
    text
}
