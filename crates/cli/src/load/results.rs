//! Output of results: summary, JSON, CSV, plot.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tamarisk_control::parse_duration;
use tamarisk_load::Report;

use super::{plot, summary};
use crate::arguments::misunderstood;
use crate::output::{Destination, figure_file};
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
/// that a path that cannot be written does not cost a run.
pub(super) struct ResultFiles {
    json: Option<Box<dyn Write>>,
    csv: Option<Box<dyn Write>>,
    plot: Option<(Format, Box<dyn Write>)>,
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
        let open =
            |option: &Option<Destination>| option.as_ref().map(Destination::open).transpose();
        let plot = match plot {
            Some(path) => Some((Format::of(path), Destination::File(path.clone()).open()?)),
            None => None,
        };
        Ok(Self { json: open(json)?, csv: open(csv)?, plot, text })
    }

    pub(super) fn write(mut self, report: &Report) -> anyhow::Result<()> {
        if let Some(out) = self.json {
            let mut out = BufWriter::new(out);
            serde_json::to_writer_pretty(&mut out, report)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out))
                .and_then(|()| out.flush())
                .context("cannot write the JSON")?;
        }
        if let Some(out) = self.csv {
            let mut out = BufWriter::new(out);
            report
                .write_csv(&mut out)
                .and_then(|()| out.flush())
                .context("cannot write the CSV")?;
        }
        if let Some((format, mut out)) = self.plot {
            out.write_all(&plot::figure(report).encode(format)?)
                .context("cannot write the plot")?;
        }
        self.text.write_all(summary::render(report).as_bytes()).context("cannot write the summary")
    }
}
