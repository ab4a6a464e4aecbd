//! Where the results of a run go.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use tamarisk_load::Report;

use super::{ResultOptions, plot, summary};
use crate::misunderstood;
use tamarisk_plot::Format;

/// A file, or the standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf),
}

/// The open destinations of a run's results. They are opened before the run, so
/// that a path that cannot be written does not cost a run.
pub(super) struct Results {
    json: Option<Box<dyn Write>>,
    csv: Option<Box<dyn Write>>,
    plot: Option<(Format, Box<dyn Write>)>,
    /// The text gives way to a machine that reads the standard output.
    text: Box<dyn Write>,
}

impl Destination {
    fn open(&self) -> anyhow::Result<Box<dyn Write>> {
        Ok(match self {
            Self::Stdout => Box::new(io::stdout()),
            Self::File(path) => {
                let file = File::create(path);
                Box::new(file.with_context(|| format!("cannot write {}", path.display()))?)
            }
        })
    }
}

impl FromStr for Destination {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" { Self::Stdout } else { Self::File(text.into()) })
    }
}

impl Results {
    pub(super) fn open(options: &ResultOptions) -> anyhow::Result<Self> {
        let ResultOptions { json, csv, plot, .. } = options;
        let to_stdout = |option: &Option<_>| *option == Some(Destination::Stdout);
        let text: Box<dyn Write> = match (to_stdout(json), to_stdout(csv)) {
            (true, true) => return Err(misunderstood("--json and --csv cannot both be `-`")),
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
