//! What became of each attempt of a simulated run, and sums over parts of them.

#![allow(dead_code, reason = "shared by a test and an example")]

use std::path::Path;

use tamarisk_laws::Laws;
use tamarisk_model::scenario::{self, File};
use tamarisk_model::sim::{Outcome, Run, Seen, Simulation, Watch, What};

/// One attempt; times are in seconds since the beginning.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) came: f64,
    pub(crate) ended: f64,
    class: usize,
    kind: u64,
    /// Where it left, by its place in the scenario.
    stage: u32,
    /// `None` if it was still inside when the run ended.
    outcome: Option<Outcome>,
}

impl Attempt {
    pub(crate) fn response(&self) -> f64 {
        self.ended - self.came
    }

    fn is_completed(&self) -> bool {
        self.outcome == Some(Outcome::Completed)
    }
}

/// All attempts, in the order of their coming.
#[derive(Default)]
pub(crate) struct Course {
    attempts: Vec<Attempt>,
}

impl Watch for Course {
    fn see(&mut self, seen: &Seen) {
        let at = seen.at.as_nanos() as f64 / 1e9;
        match seen.what {
            What::Offered => self.attempts.push(Attempt {
                came: at,
                ended: at,
                class: seen.class.index(),
                kind: seen.kind,
                stage: seen.stage,
                outcome: None,
            }),
            What::Left(outcome) => {
                let attempt = &mut self.attempts[seen.number as usize - 1];
                (attempt.ended, attempt.stage) = (at, seen.stage);
                attempt.outcome = Some(outcome);
            }
            _ => {}
        }
    }
}

impl Course {
    /// Those that ended from `from` seconds on, before `until`.
    pub(crate) fn between(&self, from: f64, until: f64) -> Part {
        let ended = |attempt: &&Attempt| {
            attempt.outcome.is_some() && attempt.ended >= from && attempt.ended < until
        };
        let attempts = self.attempts.iter().filter(ended).copied().collect();
        Part { attempts, seconds: until - from }
    }

    /// A value for each `width` seconds, at its middle.
    pub(crate) fn over_time(
        &self,
        width: f64,
        of: impl Fn(&Part) -> Option<f64>,
    ) -> Vec<(f64, Option<f64>)> {
        let end = self.attempts.iter().map(|attempt| attempt.ended).fold(0.0, f64::max);
        let count = (end / width).ceil() as usize;
        let mut parts: Vec<_> =
            (0..count).map(|_| Part { attempts: Vec::new(), seconds: width }).collect();
        for attempt in self.attempts.iter().filter(|attempt| attempt.outcome.is_some()) {
            let index = ((attempt.ended / width) as usize).min(count - 1);
            parts[index].attempts.push(*attempt);
        }
        let middle = |index: usize| (index as f64 + 0.5) * width;
        parts.iter().enumerate().map(|(index, part)| (middle(index), of(part))).collect()
    }
}

/// Some of the attempts that ended in a part of the time.
pub(crate) struct Part {
    pub(crate) attempts: Vec<Attempt>,
    seconds: f64,
}

impl Part {
    fn those(&self, which: impl Fn(&Attempt) -> bool) -> Self {
        let attempts = self.attempts.iter().filter(|attempt| which(attempt)).copied().collect();
        Self { attempts, seconds: self.seconds }
    }

    /// Those that left at the stage at this place in the scenario.
    pub(crate) fn at(&self, stage: u32) -> Self {
        self.those(|attempt| attempt.stage == stage)
    }

    /// Those of this kind, counted from 1.
    pub(crate) fn kind(&self, kind: u64) -> Self {
        self.those(|attempt| attempt.kind == kind)
    }

    /// Those of the class at this place in the scenario.
    pub(crate) fn class(&self, class: usize) -> Self {
        self.those(|attempt| attempt.class == class)
    }

    /// How many were answered, a second.
    pub(crate) fn throughput(&self) -> f64 {
        self.attempts.iter().filter(|attempt| attempt.is_completed()).count() as f64 / self.seconds
    }

    /// The share that was not answered: rejected, dropped or terminated.
    pub(crate) fn lost(&self) -> f64 {
        let lost = self.attempts.iter().filter(|attempt| !attempt.is_completed()).count();
        lost as f64 / (self.attempts.len() as f64).max(1.0)
    }

    /// The mean response time of those answered, in seconds.
    pub(crate) fn mean(&self) -> f64 {
        let responses = self.responses();
        responses.iter().sum::<f64>() / (responses.len() as f64).max(1.0)
    }

    /// The 90th percentile of the response times; `None` if nothing was answered.
    pub(crate) fn p90(&self) -> Option<f64> {
        let responses = self.responses();
        let last = responses.len().checked_sub(1)?;
        Some(responses[(responses.len() * 9 / 10).min(last)])
    }

    /// Of those answered, the share within `limit` seconds.
    pub(crate) fn within(&self, limit: f64) -> f64 {
        let responses = self.responses();
        let within = responses.partition_point(|response| *response <= limit);
        within as f64 / (responses.len() as f64).max(1.0)
    }

    /// Ascending.
    fn responses(&self) -> Vec<f64> {
        let completed = self.attempts.iter().filter(|attempt| attempt.is_completed());
        let mut responses: Vec<f64> = completed.map(Attempt::response).collect();
        responses.sort_unstable_by(f64::total_cmp);
        responses
    }
}

/// The scenario of this name in `scenarios/papers/`.
pub(crate) fn read(name: &str) -> File {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/papers");
    let path = folder.join(name).with_extension("toml");
    scenario::load(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs `file` under its own laws.
pub(crate) fn run(file: &File, seed: u64) -> Course {
    run_with(file, seed, |run| {
        file.laws.iter().fold(run, |run, (stage, laws)| with_laws(run, stage, laws))
    })
}

/// Runs `file` without a law.
pub(crate) fn run_open(file: &File, seed: u64) -> Course {
    run_with(file, seed, |run| run)
}

/// Runs `file` under the laws that `ruled` gives it.
pub(crate) fn run_with<'a>(
    file: &File,
    seed: u64,
    ruled: impl for<'b> FnOnce(Run<'b, ()>) -> Run<'b, ()>,
) -> Course {
    let simulation = Simulation::new(&file.scenario).expect("the scenario can be simulated");
    let mut course = Course::default();
    ruled(simulation.start(seed)).watch(&mut course).finish();
    course
}

/// `run` with these laws at `stage`.
pub(crate) fn with_laws<'a>(run: Run<'a, ()>, stage: &str, laws: &Laws) -> Run<'a, ()> {
    run.laws(stage, laws).expect("the laws suit the stage")
}
