//! `tamarisk sim from`: a scenario of what a running service shows of itself.

mod fetch;
mod status;
mod text;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use tamarisk_model::scenario;

use self::fetch::{StatusUrl, fetch};
use self::status::{Stage, Status};
use self::text::Detail;
use crate::ending::Ending;
use crate::output::Destination;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  What can the service bear, by what it does now?
    tamarisk sim from http://127.0.0.1:9090 -o live.toml
    tamarisk model live.toml --at 300/s
  What would other laws do with its load?
    tamarisk sim compare live.toml --laws open,codel,predict-gate-trim

Workers are seen while requests wait: take the profile under load. Service has the measured
mean and variation. A status does not tell how requests go from stage to stage: each becomes
one of its own, with the arrivals that it has. Where one feeds another, say so in the file:
`to = { NAME = SHARE }` there, and no clients of its own for NAME.";

/// Write a scenario from the status of a running service
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct From {
    /// URL of the status port: `http://HOST:PORT`, the address in `--status` of `protect`
    #[arg(value_name = "URL")]
    url: StatusUrl,
    /// Write the scenario to this file [default: the standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Give each class its own service times; `tamarisk model` needs one for all
    #[arg(long)]
    by_class: bool,
}

impl From {
    pub(super) fn run(&self) -> anyhow::Result<Ending> {
        let destination = self.output.clone().map_or(Destination::Stdout, Destination::File);
        let output = Output::open(&destination)?;
        let body = fetch(&self.url).with_context(|| format!("cannot read {}", self.url))?;
        let status: Status = serde_json::from_slice(&body)
            .with_context(|| format!("the answer of {} is not a status of Tamarisk", self.url))?;
        if !status.stages.iter().any(Stage::has_served) {
            bail!("no requests were served in the last seconds: try again under load");
        }
        let detail = if self.by_class { Detail::ByClass } else { Detail::Alike };
        let text = text::scenario(&self.url.to_string(), &status, detail);
        // What is written can be read.
        if let Err(mistake) = scenario::parse("scenario", &text) {
            return Ok(Ending::mistaken(mistake));
        }
        output.write(text.as_bytes())?;
        if status.stages.len() > 1 {
            eprintln!(
                "The status does not tell how requests go between its {} stages: each has its \
                 arrivals from outside. Add `to = {{ NAME = SHARE }}` where one feeds another.",
                status.stages.len()
            );
        }
        for stage in status.stages.iter().filter(|stage| !stage.has_served()) {
            eprintln!("{:?} has served nothing of late, and is left out.", stage.name);
        }
        let is_guessed =
            |stage: &&Stage| stage.has_served() && stage.profile.in_progress_count.is_none();
        for stage in status.stages.iter().filter(is_guessed) {
            eprintln!(
                "No request waited at {:?} of late: its {} workers are a guess.",
                stage.name, stage.workers
            );
        }
        Ok(Ending::Done)
    }
}
