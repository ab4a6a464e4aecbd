//! Other files that a scenario names: traces of live runs, and measured durations.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tamarisk_control::{ClassId, parse_duration};
use tamarisk_settings::{Fault, Value, values};
use tamarisk_trace::Reader;

use crate::replay::Workload;
use crate::sim::{Distribution, Load};

/// Measured times are kept in memory: 160 MB of them.
const TIMES_MAX: usize = 10_000_000;

/// A line of a file of times is not longer.
const LINE_MAX: usize = 200;

/// Files named in a scenario stand beside it, unless they are named in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files<'a> {
    beside: &'a Path,
}

impl<'a> Files<'a> {
    pub(super) fn beside(scenario: &'a Path) -> Self {
        Self { beside: scenario.parent().unwrap_or_else(|| Path::new("")) }
    }

    fn path(&self, value: &Value<'_>) -> Result<PathBuf, Fault> {
        Ok(self.beside.join(values::text(value)?))
    }

    /// The arrivals of a trace, for a client of classes named `classes`.
    pub(super) fn recorded(
        &self,
        value: &Value<'_>,
        classes: &[&str],
    ) -> Result<(Load, u32), Fault> {
        let path = self.path(value)?;
        let fault = |error: &dyn std::fmt::Display| {
            let expected = "expected a trace that `tamarisk protect --record` has written";
            Fault::new(value.span(), format!("{}: {error}", path.display()), expected)
        };
        let mut trace = Reader::open(&path).map_err(|error| fault(&chain(&error)))?;
        let mut workload = Workload::read(&mut trace).map_err(|error| fault(&chain(&error)))?;
        let own = workload.head.classes.iter().map(|(_, class)| {
            let place = classes.iter().position(|name| *name == class.name);
            place.map(ClassId::new).ok_or_else(|| {
                let message = format!("the trace has a class {:?}, the scenario none", class.name);
                Fault::new(value.span(), message, "expected the classes of the trace")
            })
        });
        let own: Vec<ClassId> = own.collect::<Result<_, _>>()?;
        for arrival in &mut workload.arrivals {
            arrival.class = own[arrival.class.index()];
            // Those of the scenario have names, which a trace does not know.
            arrival.kind = 0;
        }
        Ok((workload.load(), workload.flows))
    }

    /// The times in a file, one a line, or those of a trace's events.
    pub(super) fn measured(&self, value: &Value<'_>) -> Result<Distribution, Fault> {
        let path = self.path(value)?;
        let fault = |error: &dyn std::fmt::Display| {
            let expected = "expected a file with a time such as `12ms` on each line, or a trace";
            Fault::new(value.span(), format!("{}: {error}", path.display()), expected)
        };
        let file = File::open(&path).map_err(|error| fault(&error))?;
        let mut lines = BufReader::new(file);
        if lines.fill_buf().map_err(|error| fault(&error))?.starts_with(b"TAMTRACE") {
            let mut trace = Reader::new(lines).map_err(|error| fault(&chain(&error)))?;
            let workload = Workload::read(&mut trace).map_err(|error| fault(&chain(&error)))?;
            return Ok(workload.times(None));
        }
        times(lines).map(|times| Distribution::Empirical(times.into())).map_err(|why| fault(&why))
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// One a line; empty lines and what follows a `#` do not count.
fn times(mut lines: impl BufRead) -> Result<Vec<Duration>, String> {
    let mut times = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = std::io::Read::take(&mut lines, LINE_MAX as u64);
        if limited.read_until(b'\n', &mut line).map_err(|error| error.to_string())? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| format!("line {number} is no text"))?;
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let time = parse_duration(text);
        times.push(time.map_err(|error| format!("line {number}: {error}"))?);
        if times.len() > TIMES_MAX {
            return Err(format!("more than {TIMES_MAX} times"));
        }
    }
    Ok(times)
}
