//! `tamarisk sim replay`: a recorded run once more, under the same law or another.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tamarisk_control::AdmissionLaw;
use tamarisk_laws::named::AdmissionEntry;
use tamarisk_laws::{Laws, Named};
use tamarisk_model::replay::{Replay, Workload, law_of, replay};
use tamarisk_plot::format;
use tamarisk_trace::{Head, Reader};

use super::runs::Arrangement;
use super::simulate::{Common, Task, law, simulate};
use crate::arguments::misunderstood;
use crate::ending::Ending;
use crate::output::Destination;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  Does the law still decide as it did?
    tamarisk sim replay live.trace
  What would others have done with what came then?
    tamarisk sim replay live.trace --law codel,predict-gate-trim --plot others.svg

Traces come from `tamarisk protect --record live.trace`. Other laws meet the recorded arrivals,
and the recorded times of those that were served; what was rejected then gets times drawn from
these. Exit code 1 means that the law decides otherwise, or that the trace is damaged.";

/// Replay a recorded run: check its decisions, or simulate other laws with its arrivals
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReplayArgs {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Simulate these laws beside the recorded one
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = law)]
    law: Vec<&'static AdmissionEntry>,
    /// Number of workers [default: as many as were busy while requests waited]
    #[arg(long, value_name = "N", requires = "law", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    workers: Option<u32>,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    #[command(flatten)]
    common: Common,
}

/// For machines; times are in seconds since the first record.
#[derive(Serialize)]
struct Answer {
    trace: String,
    stage: String,
    law: String,
    span_seconds: f64,
    records: u64,
    compared: u64,
    differences: u64,
    first_difference: Option<FirstDifference>,
    gap: Option<FirstGap>,
    /// Whether the recording was brought to an end, and not killed.
    ended: bool,
}

#[derive(Serialize)]
struct FirstDifference {
    record: u64,
    at_seconds: f64,
    asked: String,
    recorded: String,
    replayed: String,
}

#[derive(Serialize)]
struct FirstGap {
    after_records: u64,
    at_seconds: f64,
    lost: u64,
}

impl ReplayArgs {
    pub(super) fn run(&self) -> anyhow::Result<Ending> {
        let cannot = || format!("{}", self.trace.display());
        let mut trace = Reader::open(&self.trace).with_context(cannot)?;
        if !self.law.is_empty() {
            let workload = Workload::read(&mut trace).with_context(cannot)?;
            return self.simulate(&workload);
        }
        if self.common.csv.is_some() || self.common.plot.is_some() {
            return Err(misunderstood("--csv and --plot need a --law to simulate"));
        }
        let law = law_of(trace.head())?;
        let replay = replay(&mut trace, law).with_context(cannot)?;
        let agrees = replay.agrees();
        let answer = Answer::new(&self.trace, replay);
        let text = answer.text();
        if let Some(json) = &self.common.json {
            let text = serde_json::to_string_pretty(&answer)? + "\n";
            Output::open(json)?.write(text.as_bytes())?;
        }
        match self.common.json {
            Some(Destination::Stdout) => io::stderr().write_all(text.as_bytes())?,
            _ => io::stdout().write_all(text.as_bytes())?,
        }
        Ok(if agrees { Ending::Done } else { Ending::Unsuccessful })
    }

    fn simulate(&self, workload: &Workload) -> anyhow::Result<Ending> {
        let workers = self.workers.unwrap_or(workload.workers);
        let recorded = recorded_law(&workload.head);
        if let Err(error) = &recorded {
            eprintln!("The recorded law is not simulated: {error:#}");
        }
        let laws = recorded.ok().into_iter().chain(self.law.iter().map(|entry| entry.named()));
        let stage = &workload.head.stage;
        let arrangements = laws.map(|law| Arrangement {
            name: law.name().to_owned(),
            laws: vec![(stage.clone(), Laws { admission: Some(law), ..Laws::new() })],
        });
        let task = Task {
            name: format!("{} · {stage} with {workers} workers", self.trace.display()),
            scenario: workload.scenario(workers),
            capacity: None,
            arrangements: arrangements.collect(),
            seeds: self.seeds,
        };
        if workload.cut {
            eprintln!("The trace has a gap or is too long: the rest of it is not simulated.");
        }
        let unserved = workload.arrivals.len() - workload.served;
        eprintln!(
            "{unserved} of {} arrivals have service times drawn at random.",
            workload.arrivals.len()
        );
        simulate(&self.common, task)
    }
}

/// The recorded law as a scenario names it.
fn recorded_law(head: &Head) -> anyhow::Result<Named<dyn AdmissionLaw>> {
    let mut named = law(&head.law).map_err(anyhow::Error::msg)?.named();
    for (knob, value) in &head.knobs {
        named.set(knob, *value)?;
    }
    named.make(&head.classes)?;
    Ok(named)
}

impl Answer {
    fn new(trace: &Path, replay: Replay) -> Self {
        Self {
            trace: trace.display().to_string(),
            stage: replay.head.stage,
            law: replay.head.law,
            span_seconds: replay.span.as_secs_f64(),
            records: replay.records,
            compared: replay.compared,
            differences: replay.differences,
            first_difference: replay.first.map(|first| FirstDifference {
                record: first.record,
                at_seconds: first.at.as_secs_f64(),
                asked: first.asked,
                recorded: first.recorded,
                replayed: first.replayed,
            }),
            gap: replay.gap.map(|gap| FirstGap {
                after_records: gap.after,
                at_seconds: gap.at.as_secs_f64(),
                lost: gap.lost,
            }),
            ended: replay.end.is_some(),
        }
    }

    fn text(&self) -> String {
        let Self { trace, law, stage, compared, differences, .. } = self;
        let (span, records) = (format::seconds(self.span_seconds), format::count(self.records));
        let mut text = format!("{trace} · {law} at {stage} · {records} records in {span}\n");
        text += &match &self.first_difference {
            None => {
                format!("All {} decisions equal the recorded ones.\n", format::count(*compared))
            }
            Some(first) => format!(
                "{differences} of {compared} decisions differ. The first, record {} after {}:\n  \
                 asked     {}\n  recorded  {}\n  replayed  {}\n",
                first.record,
                format::seconds(first.at_seconds),
                first.asked,
                first.recorded,
                first.replayed,
            ),
        };
        if let Some(gap) = &self.gap {
            text += &format!(
                "After {} records, {} in, {} are missing: what follows was not compared.\n",
                gap.after_records,
                format::seconds(gap.at_seconds),
                gap.lost
            );
        }
        if !self.ended {
            text += "The recording did not end properly: about the last second may be missing.\n";
        }
        text
    }
}
