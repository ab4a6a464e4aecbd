//! Output of results: summary, JSON, CSV, plot.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tamarisk_control::parse_duration;
use tamarisk_load::Report;

use super::{plot, summary};
use crate::arguments::misunderstood;
use crate::output::{Destination, Output, figure_file};
use tamarisk_plot::Format;

#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(super) struct ResultOptions {
    /// Write the report as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<Destination>,
    /// Write the time series as CSV (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<Destination>,
    /// Draw the run over time, as SVG, or PNG if the name ends in `.png`
    #[arg(long, value_name = "FILE", value_parser = figure_file)]
    pub(super) plot: Option<PathBuf>,
    /// The interval of the time series and of the live line
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub(super) interval: Duration,
    /// How long requests under way at the end may still take
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub(super) drain: Duration,
    /// Show no live line
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// The open destinations of a run's results. They are opened before the run, so
/// that a path that cannot be written does not cost a run; what is there stays until then.
pub(super) struct ResultFiles {
    json: Option<Output>,
    csv: Option<Output>,
    plot: Option<(Format, Output)>,
    /// The text gives way to a machine that reads the standard output.
    text: Box<dyn Write>,
}

impl ResultFiles {
    pub(super) fn open(options: &ResultOptions) -> anyhow::Result<Self> {
        let ResultOptions { json, csv, plot, .. } = options;
        let to_stdout = |option: &Option<_>| *option == Some(Destination::Stdout);
        let text: Box<dyn Write> = match (to_stdout(json), to_stdout(csv)) {
            (true, true) => {
                return Err(misunderstood(
                    "--json and --csv are both `-`: write at least one of them to a file",
                ));
            }
            (false, false) => Box::new(io::stdout()),
            _ => Box::new(io::stderr()),
        };
        let open = |option: &Option<Destination>| option.as_ref().map(Output::open).transpose();
        let plot = match plot {
            Some(path) => Some((Format::of(path), Output::open(&Destination::File(path.clone()))?)),
            None => None,
        };
        Ok(Self { json: open(json)?, csv: open(csv)?, plot, text })
    }

    /// Writes all that can be written; an error is the first one.
    pub(super) fn write(mut self, report: &Report) -> anyhow::Result<()> {
        let mut results = Vec::new();
        if let Some(out) = self.json {
            let mut json = serde_json::to_vec_pretty(report)?;
            json.push(b'\n');
            results.push((out, json, "JSON"));
        }
        if let Some(out) = self.csv {
            let mut csv = Vec::new();
            report.write_csv(&mut csv)?;
            results.push((out, csv, "CSV"));
        }
        if let Some((format, out)) = self.plot {
            results.push((out, plot::figure(report).encode(format)?, "plot"));
        }
        // The reader of the standard output may have gone.
        results.sort_by_key(|(out, ..)| out.is_stdout());
        let mut failed = None;
        for (out, bytes, name) in results {
            if let Err(error) = out.write(&bytes) {
                failed.get_or_insert_with(|| error.context(format!("cannot write the {name}")));
            }
        }
        if let Err(error) = self.text.write_all(summary::render(report).as_bytes()) {
            failed.get_or_insert_with(|| {
                anyhow::Error::new(error).context("cannot write the summary")
            });
        }
        failed.map_or(Ok(()), Err)
    }
}
