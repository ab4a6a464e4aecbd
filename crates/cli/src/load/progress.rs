//! The progress line of a load run.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use tamarisk_load::{Interval, Workload};

use tamarisk_plot::format;

/// Seconds between lines where the standard error is not a terminal: often
/// enough to see that all is well, seldom enough for a log.
const PLAIN_EVERY_SECONDS: f64 = 5.0;

/// Shows how a run is doing: on a terminal as one line that renews itself, and
/// elsewhere as a plain line now and then. Always on the standard error.
pub(super) struct Progress {
    unit: &'static str,
    shown: Shown,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Plain { next: f64 },
}

impl Progress {
    pub(super) fn new(workload: &Workload, quiet: bool) -> Self {
        let unit = match workload {
            Workload::Closed(_) => "users",
            Workload::Open(_) => "/s offered",
        };
        let shown = match quiet {
            true => Shown::Nothing,
            false if std::io::stderr().is_terminal() => {
                Shown::Bar(bar(workload.schedule().duration().as_millis() as u64))
            }
            false => Shown::Plain { next: PLAIN_EVERY_SECONDS },
        };
        Self { unit, shown }
    }

    pub(super) fn show(&mut self, interval: &Interval) {
        let end = interval.start + interval.seconds;
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                bar.set_position((end * 1e3) as u64);
                bar.set_message(line(interval, self.unit));
            }
            Shown::Plain { next } if end >= *next => {
                *next += PLAIN_EVERY_SECONDS;
                eprintln!("{end:>6.1} s  {}", line(interval, self.unit));
            }
            Shown::Plain { .. } => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar(duration_ms: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:20.green/dim} {elapsed:>4}  {msg}")
        .expect("the template is well-formed");
    ProgressBar::new(duration_ms).with_style(style.progress_chars("━━─"))
}

fn line(interval: &Interval, unit: &str) -> String {
    let rate = |count| format::rate(interval.rate(count));
    let mut line = format!(
        "{} {unit} · {}/s answered, {}/s in target · p90 {} · {} in flight",
        format::rate(interval.level),
        rate(interval.completed),
        rate(interval.good),
        format::seconds(interval.latency.p90),
        format::count(interval.in_flight),
    );
    if interval.rejected > 0 {
        line += &format!(" · {}/s rejected", rate(interval.rejected));
    }
    if interval.failed > 0 {
        line += &format!(" · {}/s failed", rate(interval.failed));
    }
    line
}
