//! What one run of a law in a situation came to.

use std::hash::{DefaultHasher, Hash, Hasher};

use tamarisk_control::Classes;
use tamarisk_model::sim::{ClassReport, Client, Report, ResourceKind, Scenario, Simulation, Speed};

use crate::Failure;
use crate::row::Row;
use crate::situation::Situation;
use crate::timeline::{Beginning, Period, Timeline};

/// Raised by hand when the simulator or a law has changed in what the first minute from cold does
/// not show (see [`Place::key`]).
const VERSION: u32 = 1;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// In parts of the capacity.
    pub(crate) goodput: f64,
    /// Share of the seconds over the target, of the worst class.
    pub(crate) over: f64,
    /// Rejected without need, of what was offered.
    pub(crate) needless: f64,
    /// What the situation's own column says.
    pub(crate) more: f64,
}

/// A situation that is ready to be run.
pub(crate) struct Place {
    pub(crate) situation: &'static Situation,
    /// What the situation's file says.
    text: String,
    classes: Classes,
    stages: Vec<String>,
    /// Of each beginning.
    runs: Vec<(Timeline, Simulation)>,
    /// Of each class.
    uses: Vec<Use>,
    /// How many seconds of work the bottleneck does in a second.
    capacity: f64,
}

/// What of a class is of use, and how much work it is.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Requests, with so many seconds of the bottleneck's work.
    Requests(f64),
    /// Whole pages.
    Pages(f64),
}

impl Use {
    /// Seconds of work of what was answered in time, in a second.
    fn done(self, class: &ClassReport, seconds: f64) -> f64 {
        match self {
            Self::Requests(work) => class.goodput() * work,
            Self::Pages(work) => class.pages.in_time as f64 / seconds * work,
        }
    }
}

impl Place {
    pub(crate) fn new(situation: &'static Situation) -> Result<Self, Failure> {
        let (scenario, stages) = situation.load()?;
        let text = std::fs::read_to_string(situation.path())?;
        let bottleneck = scenario.resources.first();
        let capacity = match bottleneck.map(|resource| &resource.kind) {
            None => f64::from(scenario.stages[0].workers),
            Some(ResourceKind::Pool(connections)) => f64::from(*connections),
            Some(ResourceKind::Shared(Speed::Cores(cores))) => *cores,
            Some(ResourceKind::Shared(_)) => return Err("the bottleneck has no capacity".into()),
        };
        let on = bottleneck.map(|resource| resource.name.clone());
        let mut uses = Vec::new();
        for (_, class) in scenario.classes.iter() {
            uses.push(use_of(&class.name, on.as_ref(), &scenario)?);
        }
        let run = |beginning| -> Result<_, Failure> {
            let timeline = Timeline::new(scenario.clone(), &situation.pattern, beginning);
            let simulation = Simulation::new(&timeline.scenario)?;
            Ok((timeline, simulation))
        };
        let runs = Beginning::ALL.into_iter().map(run).collect::<Result<_, _>>()?;
        Ok(Self { situation, text, classes: scenario.classes, stages, runs, uses, capacity })
    }

    /// What it comes to in each period of the run.
    pub(crate) fn run(&self, row: &Row, beginning: Beginning, seed: u64) -> Vec<Numbers> {
        let (timeline, simulation) = &self.runs[beginning as usize];
        let bounded = row.queue_max().map(|places| with_places(&timeline.scenario, places));
        let mut run = bounded.as_ref().unwrap_or(simulation).start(seed);
        for stage in &self.stages {
            let law = row.law(self.situation, &self.classes);
            run = run.law(stage, law).expect("the stages are the scenario's");
        }
        let reports = run.windows(&timeline.windows).expect("they are within the scenario");
        reports.iter().map(|report| self.numbers(report)).collect()
    }

    /// What a run depends on besides its seed, in 64 bits: scenario, window, law and constants, and what the law
    /// did in the first minute from cold, which tells whether its code or the simulator's is
    /// another one.
    pub(crate) fn key(&self, row: &Row, period: Period, from_cold: &[Numbers]) -> u64 {
        let mut hasher = DefaultHasher::new();
        VERSION.hash(&mut hasher);
        self.text.hash(&mut hasher);
        let windows: Vec<_> =
            self.runs.iter().flat_map(|(timeline, _)| &timeline.windows).collect();
        format!("{:?} {period:?} {windows:?}", self.situation.pattern).hash(&mut hasher);
        format!("{:?}", row.named(self.situation)).hash(&mut hasher);
        format!("{from_cold:?}").hash(&mut hasher);
        if let Some(places) = row.queue_max() {
            places.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn numbers(&self, report: &Report) -> Numbers {
        let seconds = report.measured.as_secs_f64();
        let count = |of: fn(&ClassReport) -> u64| report.classes.iter().map(of).sum::<u64>() as f64;
        let offered = count(|class| class.counts.offered).max(1.0);
        let needless = if self.situation.bearable {
            count(|class| class.counts.rejected + class.counts.dropped)
        } else {
            let stages = report.stages.iter().flat_map(|stage| &stage.classes);
            stages.map(|class| class.rejected_idle).sum::<u64>() as f64
        };
        let classes = report.classes.iter().zip(&self.uses);
        let done = classes.map(|(class, of_use)| of_use.done(class, seconds));
        let over = report.classes.iter().map(|class| class.seconds_over as f64 / seconds);
        Numbers {
            goodput: done.sum::<f64>() / self.capacity,
            over: over.fold(0.0, f64::max),
            needless: needless / offered,
            more: self.situation.more.map_or(0.0, |(_, value)| value(report)),
        }
    }
}

fn with_places(scenario: &Scenario, places: u32) -> Simulation {
    let mut scenario = scenario.clone();
    scenario.stages.iter_mut().for_each(|stage| stage.capacity = places);
    Simulation::new(&scenario).expect("it is as sound as with more places")
}

/// What of `class` is of use. Its work is what is done at the resource `on`, or by workers, where it
/// comes in.
fn use_of(class: &str, on: Option<&String>, scenario: &Scenario) -> Result<Use, Failure> {
    let comes = |client: &&Client| {
        client.mix.is_empty() || client.mix.iter().any(|(name, _)| name == class)
    };
    let client = scenario.clients.iter().find(comes).ok_or("nobody is of this class")?;
    let stage = scenario.stages.iter().find(|stage| stage.name == client.entry);
    let stage = stage.ok_or("clients come in nowhere")?;
    let own = stage.service_of.iter().find(|(name, _)| name == class);
    let steps = own.map_or(&stage.service, |(_, steps)| steps);
    let mut seconds = 0.0;
    for step in steps.iter().filter(|step| step.on.as_ref() == on) {
        seconds += step.work.mean()?.as_secs_f64();
    }
    Ok(match client.calls {
        1 => Use::Requests(seconds),
        calls => Use::Pages(f64::from(calls) * seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::rows;
    use crate::situation::SITUATIONS;

    #[test]
    fn the_key_is_another_one_by_situation_law_period_and_behaviour() {
        let places: Vec<_> = SITUATIONS[..2].iter().map(|it| Place::new(it).unwrap()).collect();
        let rows = rows().unwrap();
        let numbers = Numbers { goodput: 1.0, over: 0.0, needless: 0.0, more: 0.0 };
        let (one, other) = ([numbers], [Numbers { goodput: 1.0 + 1e-15, ..numbers }]);
        let keys = [
            places[0].key(&rows[0], Period::Cold, &one),
            places[0].key(&rows[0], Period::Cold, &other),
            places[0].key(&rows[0], Period::Steady, &one),
            places[0].key(&rows[1], Period::Cold, &one),
            places[1].key(&rows[0], Period::Cold, &one),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}: {keys:?}");
        }
        assert_eq!(keys[0], places[0].key(&rows[0], Period::Cold, &one));
    }
}
